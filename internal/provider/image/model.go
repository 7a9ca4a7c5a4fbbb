package image

import (
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/tfdiag"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/storage"
)

// setFromFacts takes over what the content says.
func (m *model) setFromFacts(f storage.Facts) {
	m.Volume = types.StringValue(f.Volume(m.Name.ValueString()))
	m.ID = types.StringValue(m.Pool.ValueString() + "/" + m.Volume.ValueString())
	m.SHA256, m.Format = types.StringValue(f.SHA256), types.StringValue(f.Format)
	m.VirtualSize = value.NewQuantityFromBytes(f.CapacityBytes)
}

func (m *model) ref() storage.Ref {
	return storage.Ref{Pool: m.Pool.ValueString(), Name: m.Volume.ValueString()}
}

func (m *model) noun() string { return fmt.Sprintf("%s %q", noun, m.Name.ValueString()) }

func (m *model) failure(verb string, err error) tfdiag.Failure {
	return tfdiag.Failure{Verb: verb, Noun: m.noun(), Err: err}
}

func (s *sourceModel) storage() storage.Source {
	return storage.Source{
		URL: s.URL.ValueString(), File: s.File.ValueString(), Checksum: strings.TrimSpace(s.Checksum.ValueString()),
	}
}

// notesKey is the place of the notes in the private state.
const notesKey = "image"

// notes are what the resource keeps to itself.
type notes struct {
	Seal *storage.Seal `json:"seal,omitempty"`
	// Stamp is of a local file when it was read.
	storage.Stamp

	// Removable says that an earlier copy is kept that no disk is based on any more.
	Removable bool `json:"removable,omitempty"`
}

// notesOf looks at a local file before it is read.
func notesOf(s *sourceModel) (n notes) {
	if s == nil || s.File.IsNull() {
		return n
	}
	n.Stamp, _ = storage.StampOf(s.File.ValueString()) // One that can't be read is told by whoever reads it.
	return n
}

// checked looks whether a local file may have other content than when it was read, with that SHA-256. It reads the file
// only where that isn't told otherwise: the time of the last write is as it was, and something of the file was changed.
// The notes that it returns have the file as it is, if its content is the same.
func (n notes) checked(s *sourceModel, sha256 string) (now notes, stale bool) {
	is := notesOf(s).Stamp
	switch {
	case is.Size == 0 || is.Same(n.Stamp):
		return n, false
	case !is.SameWrite(n.Stamp):
		return n, true
	}
	// The content of a compressed file has another sum: it is taken to be stale.
	if sum, err := storage.FileSHA256(s.File.ValueString()); err != nil || sum != sha256 {
		return n, true
	}
	n.Stamp = is
	return n, false
}
