package firstboot

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
)

// Ignition is a configuration for Ignition. It may hold secrets: printing it only shows its size.
type Ignition struct {
	// Config is the configuration itself.
	Config string
}

// String returns a text without the content.
func (i Ignition) String() string { return fmt.Sprintf("Ignition(%d bytes)", len(i.Config)) }

// GoString returns a text without the content.
func (i Ignition) GoString() string { return i.String() }

// ignitionVersion is a version of Ignition's specification: 2.x of Container Linux and old Flatcar, or 3.x.
var ignitionVersion = regexp.MustCompile(`^([0-9]+)\.[0-9]+\.[0-9]+(-experimental)?$`)

// ValidateIgnition returns what is wrong with an Ignition configuration: JSON that doesn't parse, a missing or unknown
// version, or its size. Ignition itself checks the rest in the guest, where an error stops the boot.
func ValidateIgnition(config string) []Problem {
	problem := func(line int, format string, a ...any) []Problem {
		return []Problem{{Field: FieldIgnition, Line: line, Reason: fmt.Sprintf(format, a...)}}
	}
	if len(config) > MaxBytes {
		return problem(0, "it has %d bytes; at most %d are accepted. Let Ignition fetch what is large (source)",
			len(config), MaxBytes)
	}
	if start := strings.TrimSpace(config); start != "" && start[0] != '{' {
		return problem(1, "it must be a JSON object. If this is a Butane configuration, translate it first (butane --strict)")
	}
	var document struct {
		Ignition *struct {
			Version string `json:"version"`
		} `json:"ignition"`
	}
	decoder := json.NewDecoder(strings.NewReader(config))
	if err := decoder.Decode(&document); err != nil {
		return problem(jsonLine(config, err), "it isn't valid JSON, or ignition.version isn't a text")
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return problem(0, "something follows the JSON object")
	}
	if document.Ignition == nil || document.Ignition.Version == "" {
		return problem(0, "it names no ignition.version, for example {\"ignition\": {\"version\": \"3.4.0\"}}")
	}
	version := ignitionVersion.FindStringSubmatch(document.Ignition.Version)
	if version == nil || version[1] != "2" && version[1] != "3" {
		return problem(0, "its ignition.version is none that is known; 2.x.y and 3.x.y are known")
	}
	return nil
}

// jsonLine returns the line of a decoding error, 0 if the error has none.
func jsonLine(text string, err error) int {
	offset := int64(-1)
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		offset = syntax.Offset
	case errors.As(err, &kind):
		offset = kind.Offset
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		offset = int64(len(text))
	}
	if offset < 0 || offset > int64(len(text)) {
		return 0
	}
	return 1 + bytes.Count([]byte(text)[:offset], []byte("\n"))
}
