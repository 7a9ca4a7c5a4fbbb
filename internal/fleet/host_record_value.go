package fleet

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
	// recordLimit is how many bytes of a value libvirt takes (REMOTE_SECRET_VALUE_MAX).
	recordLimit = 64 << 10
	// expandedLimit bounds what a compressed record may grow to.
	expandedLimit = 16 << 20
)

// errTooLong means that a record needs more than libvirt takes.
var errTooLong = errors.New("the record is too long")

// recordDocument is the record as it is written.
type recordDocument struct {
	Version int `json:"version"`
	HostRecord
}

// encodeRecord writes the record within limit bytes: as a document that people
// can read with virsh; compressed, where that would be too long; and where even
// that is, without what is missed least. omitted says what that was.
func encodeRecord(r HostRecord, limit int) (value []byte, omitted string, err error) {
	value, err = json.Marshal(recordDocument{Version: recordVersion, HostRecord: r})
	if err != nil || len(value) <= limit {
		return value, "", err
	}

	var without []string

	for _, next := range []struct {
		what string
		omit func(HostRecord) HostRecord
	}{
		{"", func(r HostRecord) HostRecord { return r }},
		{"the steps of other hosts' evacuations", HostRecord.withoutElsewhere},
		{"why steps failed", HostRecord.withoutReasons},
	} {
		r = next.omit(r)

		if next.what != "" {
			without = append(without, next.what)
		}

		if value, err = compressed(recordDocument{Version: recordVersion, HostRecord: r}); err != nil {
			return nil, "", err
		}

		if len(value) <= limit {
			return value, strings.Join(without, ", "), nil
		}
	}

	return nil, "", errTooLong
}

func compressed(document recordDocument) ([]byte, error) {
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

// decodeRecord reads what encodeRecord has written.
func decodeRecord(value []byte) (recordDocument, error) {
	var (
		document recordDocument
		reader   io.Reader = bytes.NewReader(value)
	)

	if !bytes.HasPrefix(value, []byte("{")) {
		expanding, err := gzip.NewReader(reader)
		if err != nil {
			return document, err
		}

		reader = io.LimitReader(expanding, expandedLimit)
	}

	err := json.NewDecoder(reader).Decode(&document)

	return document, err
}

// withoutElsewhere knows of other hosts only that they were emptied.
func (r HostRecord) withoutElsewhere() HostRecord {
	r.Elsewhere = maps.Clone(r.Elsewhere)
	for name, e := range r.Elsewhere {
		r.Elsewhere[name] = &Evacuation{Since: e.Since, Done: e.Done, Abridged: true}
	}

	return r
}

// withoutReasons leaves out why steps failed.
func (r HostRecord) withoutReasons() HostRecord {
	if r.Evacuation == nil {
		return r
	}

	e := *r.Evacuation
	e.Steps = slices.Clone(e.Steps)

	for i := range e.Steps {
		e.Steps[i].Reason = ""
	}

	r.Evacuation = &e

	return r
}

// tooLong says what fills the record.
func (r HostRecord) tooLong(host string) error {
	steps := 0
	if r.Evacuation != nil {
		steps = len(r.Evacuation.Steps)
	}

	return &Error{
		Host: host, Kind: ErrInvalid, Err: errTooLong,
		Detail: fmt.Sprintf("what is to be recorded on host %q (%d steps of its evacuation, %d policies, and that "+
			"%d other hosts were emptied) is longer than the %d KiB that libvirt keeps", host, steps,
			len(r.EvictionPolicies)+len(r.MigrationPolicies),
			len(r.Elsewhere), recordLimit>>10),
		Remedy: "Have fewer or shorter policies, or move some of the host's machines away before it is emptied.",
	}
}
