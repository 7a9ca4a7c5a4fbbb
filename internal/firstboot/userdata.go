package firstboot

import (
	"bufio"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/mail"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Headers of user data whose content is YAML.
const (
	headerCloudConfig = "#cloud-config"
	headerArchive     = "#cloud-config-archive"
	headerJinja       = "## template: jinja"
)

// opaqueHeaders begin user data whose content isn't checked.
var opaqueHeaders = []string{
	"#!", "#include", "#cloud-boothook", "#cloud-config-jsonp", "#part-handler", "#upstart-job",
}

// gzipMagic begins compressed user data, which cloud-init unpacks.
const gzipMagic = "\x1f\x8b"

// validateUserData checks user data or vendor data. cloud-init determines the format by the first characters. It
// ignores unknown formats, and only writes a line to the guest's log.
func validateUserData(field, text string) []Problem {
	if text == "" || strings.HasPrefix(text, gzipMagic) {
		return nil
	}
	if isMIME(text) {
		return validateMIME(field, text)
	}
	if problem := validatePart(field, text); problem != nil {
		return []Problem{*problem}
	}
	return nil
}

// validatePart checks user data that isn't a multi-part.
func validatePart(field, text string) *Problem {
	// cloud-init does the same.
	start := strings.ToLower(strings.TrimLeft(text, " \t\r\n"))
	has := func(header string) bool { return strings.HasPrefix(start, header) }
	if has(headerJinja) {
		_, rest, _ := strings.Cut(start, "\n")
		if !strings.HasPrefix(rest, "#") {
			return &Problem{Field: field, Line: 2, Reason: "after \"" + headerJinja + "\" the next line must say what the " +
				"template becomes, for example \"" + headerCloudConfig + "\""}
		}
		return nil // It is no YAML until it is rendered in the guest.
	}
	for _, header := range opaqueHeaders {
		if has(header) {
			return nil
		}
	}
	switch {
	case has(headerArchive):
		node, problem := parseYAML(field, text)
		if problem == nil && node != nil && node.Kind != yaml.SequenceNode {
			problem = &Problem{Field: field, Line: node.Line, Reason: "after \"" + headerArchive + "\" it must be a YAML list"}
		}
		return problem
	case has(headerCloudConfig):
		_, problem := parseMapping(field, text)
		return problem
	}
	return &Problem{Field: field, Line: 1, Reason: missingHeader(start)}
}

// missingHeader returns which headers are expected, and which one the user may have meant.
func missingHeader(start string) string {
	reason := "cloud-init ignores what doesn't begin with a header that it knows: \"" + headerCloudConfig + "\", \"#!\" " +
		"(a script), \"#include\", \"#cloud-boothook\", \"" + headerJinja + "\", a MIME multi-part, ..."
	if strings.HasPrefix(start, "h4si") {
		return reason + " This looks like gzip in base64, which a NoCloud medium can't hold: with data.cloudinit_config, " +
			"set gzip and base64_encode to false"
	}
	if first, _, _ := strings.Cut(start, "\n"); strings.Contains(first, ":") {
		return reason + " This looks like YAML: write \"" + headerCloudConfig + "\" in its first line"
	}
	return reason
}

// isMIME reports whether text begins with a MIME header.
func isMIME(text string) bool {
	start := strings.ToLower(strings.TrimLeft(text, " \t\r\n"))
	return strings.HasPrefix(start, "content-type:") || strings.HasPrefix(start, "mime-version:") ||
		strings.HasPrefix(start, "from ")
}

// validateMIME checks what can be checked of a multi-part: its structure, and the parts that are cloud-config.
func validateMIME(field, text string) []Problem {
	text = strings.TrimLeft(text, " \t\r\n")
	if strings.HasPrefix(strings.ToLower(text), "from ") {
		_, text, _ = strings.Cut(text, "\n")
	}
	message, err := mail.ReadMessage(bufio.NewReader(strings.NewReader(text)))
	if err != nil {
		return []Problem{{Field: field, Reason: "its MIME header can't be read: an empty line must follow it"}}
	}
	mediaType, parameters, err := mime.ParseMediaType(message.Header.Get("Content-Type"))
	if err != nil {
		return []Problem{{Field: field, Reason: "its MIME header has no Content-Type that can be read"}}
	}
	if !strings.HasPrefix(mediaType, "multipart/") {
		return nil // A single part of any type: cloud-init uses the type.
	}
	if parameters["boundary"] == "" {
		return []Problem{{Field: field, Reason: "the Content-Type of its MIME header names no boundary"}}
	}
	var problems []Problem
	parts := multipart.NewReader(message.Body, parameters["boundary"])
	for number := 1; ; number++ {
		part, err := parts.NextPart()
		if errors.Is(err, io.EOF) {
			if number == 1 {
				problems = append(problems, Problem{Field: field, Reason: "it is a MIME multi-part without a part"})
			}
			return problems
		}
		if err != nil {
			return append(problems, Problem{Field: field, Reason: fmt.Sprintf(
				"part %d of the MIME multi-part can't be read: is the closing boundary missing?", number)})
		}
		if problem := validateMIMEPart(part); problem != nil {
			problems = append(problems, Problem{Field: field, Reason: fmt.Sprintf(
				"part %d of the MIME multi-part: %s", number, problem.place())})
		}
	}
}

// place returns the problem without its field.
func (p *Problem) place() string {
	if p.Line == 0 {
		return p.Reason
	}
	return fmt.Sprintf("line %d: %s", p.Line, p.Reason)
}

// validateMIMEPart checks a part that is cloud-config.
func validateMIMEPart(part *multipart.Part) *Problem {
	var body io.Reader = part
	if strings.EqualFold(part.Header.Get("Content-Transfer-Encoding"), "base64") {
		body = base64.NewDecoder(base64.StdEncoding, body)
	}
	content, err := io.ReadAll(body)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return &Problem{Reason: "it ends too early: is the closing boundary missing?"}
	}
	if err != nil {
		return &Problem{Reason: "its content can't be decoded"}
	}
	if mediaType, _, _ := mime.ParseMediaType(part.Header.Get("Content-Type")); mediaType == "text/cloud-config" {
		_, problem := parseMapping("", string(content))
		return problem
	}
	return nil
}
