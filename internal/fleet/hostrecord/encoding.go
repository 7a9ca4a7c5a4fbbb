package hostrecord

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

const (
	// Limit is the largest value that libvirt accepts, in bytes (REMOTE_SECRET_VALUE_MAX).
	Limit = 64 << 10
	// expandedLimit limits the size of a decompressed record.
	expandedLimit = 16 << 20
)

var (
	// ErrTooLong means that a record needs more bytes than libvirt accepts.
	ErrTooLong = errors.New("the record is too long")
	// ErrNewer means that a record was written by a newer version of virtfleet.
	ErrNewer = errors.New("a newer version of virtfleet wrote the record")
)

// document is the record in the form in which it is written.
type document struct {
	Version int `json:"version"`
	Record
}

// Encode returns the record in at most limit bytes: as a document that users can read with virsh; compressed if that
// would be too long; and without the least important parts if it is still too long. omitted names these parts.
func Encode(r Record, limit int) (value []byte, omitted string, err error) {
	value, err = json.Marshal(document{Version: version, Record: r})
	if err != nil || len(value) <= limit {
		return value, "", err
	}

	var without []string

	for _, next := range []struct {
		what string
		omit func(Record) Record
	}{
		{"", func(r Record) Record { return r }},
		{"the steps of other hosts' evacuations", Record.withoutElsewhere},
		{"why steps failed or have their method", Record.withoutReasons},
	} {
		r = next.omit(r)

		if next.what != "" {
			without = append(without, next.what)
		}

		if value, err = compressed(document{Version: version, Record: r}); err != nil {
			return nil, "", err
		}

		if len(value) <= limit {
			return value, strings.Join(without, ", "), nil
		}
	}

	return nil, "", ErrTooLong
}

func compressed(document document) ([]byte, error) {
	var b bytes.Buffer

	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}

	if err := errors.Join(json.NewEncoder(w).Encode(document), w.Close()); err != nil {
		return nil, err
	}

	return b.Bytes(), nil
}

// Decode parses what Encode has written.
func Decode(value []byte) (Record, error) {
	var (
		document document
		reader   io.Reader = bytes.NewReader(value)
	)

	if !bytes.HasPrefix(value, []byte("{")) {
		expanding, err := gzip.NewReader(reader)
		if err != nil {
			return Record{}, err
		}

		reader = io.LimitReader(expanding, expandedLimit)
	}

	if err := json.NewDecoder(reader).Decode(&document); err != nil {
		return Record{}, err
	}

	if document.Version > version {
		return Record{}, ErrNewer
	}

	return document.Record, nil
}

// withoutElsewhere returns the record with no more of other hosts than that they were drained.
func (r Record) withoutElsewhere() Record {
	r.Elsewhere = maps.Clone(r.Elsewhere)
	for name, e := range r.Elsewhere {
		r.Elsewhere[name] = &Evacuation{Since: e.Since, Done: e.Done, Abridged: true, Maintenance: e.Maintenance}
	}

	return r
}

// withoutReasons returns the record without the reasons why steps failed, or have their method.
func (r Record) withoutReasons() Record {
	if r.Evacuation == nil {
		return r
	}

	e := *r.Evacuation
	e.Steps = slices.Clone(e.Steps)

	for i := range e.Steps {
		e.Steps[i].Reason, e.Steps[i].Blockers = "", nil
	}

	r.Evacuation = &e

	return r
}

// Size describes what fills the record.
func (r Record) Size() string {
	steps := 0
	if r.Evacuation != nil {
		steps = len(r.Evacuation.Steps)
	}

	return fmt.Sprintf("%d steps of its evacuation, %d policies, and that %d other hosts were drained", steps,
		len(r.EvictionPolicies)+len(r.MigrationPolicies), len(r.Elsewhere))
}
