package image

import (
	"fmt"
	"os"
	"strings"
	"time"

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
	// Size and Time are of a local file when it was read.
	Size int64     `json:"size,omitempty"`
	Time time.Time `json:"time"`
	// Removable says that an earlier copy is kept that no disk is based on any more.
	Removable bool `json:"removable,omitempty"`
}

// notesOf looks at a local file before it is read.
func notesOf(s *sourceModel) (n notes) {
	if s == nil || s.File.IsNull() {
		return n
	}
	if info, err := os.Stat(s.File.ValueString()); err == nil {
		n.Size, n.Time = info.Size(), info.ModTime().UTC()
	}
	return n
}

// mayBeStale says that a local file may have other content than when it was read.
func (n notes) mayBeStale(s *sourceModel) bool {
	now := notesOf(s)
	return now.Size != 0 && (now.Size != n.Size || !now.Time.Equal(n.Time))
}
