package image

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/meta"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/tfdiag"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/storage"
)

// setFromInfo sets the attributes that follow from the content.
func (m *model) setFromInfo(f storage.ImageInfo) {
	m.Volume = types.StringValue(f.Volume(m.Name.ValueString()))
	m.ID = types.StringValue(m.ref().String())
	m.SHA256, m.Format = types.StringValue(f.SHA256), types.StringValue(f.Format)
	m.VirtualSize = value.NewQuantityFromBytes(f.CapacityBytes)
}

func (m *model) ref() storage.Ref {
	return storage.Ref{Pool: m.Pool.ValueString(), Name: m.Volume.ValueString()}
}

// NoteSaved records the copies of an image in a state that Terraform saved, as networkdhcphost.NoteSaved does.
func NoteSaved(data *meta.Data, req *tfprotov6.UpgradeResourceStateRequest) {
	var saved struct {
		Pool, Volume string
		Superseded   []string
	}
	if data == nil || req.RawState == nil || json.Unmarshal(req.RawState.JSON, &saved) != nil {
		return
	}
	for _, name := range append(saved.Superseded, saved.Volume) {
		data.Saved.Note(TypeName, storage.Ref{Pool: saved.Pool, Name: name}.String())
	}
}

func (m *model) noun() string { return fmt.Sprintf("%s %q", noun, m.Name.ValueString()) }

func (m *model) failure(verb string, err error) tfdiag.Failure {
	return tfdiag.Failure{Verb: verb, Noun: m.noun(), Err: err}
}

// fetchFailure returns why the image can't be fetched, and what to do about it.
func (m *model) fetchFailure(ctx context.Context, err error) diag.Diagnostic {
	f := m.failure("fetch", err).Within(ctx)
	f.Remedy = unavailableRemedy(err)
	return f.AttributeError(path.Root("source"))
}

// unavailableRemedy says what to do about an image that isn't where its source says; "" for other errors.
func unavailableRemedy(err error) string {
	download, is := errors.AsType[*storage.DownloadError](err)
	switch {
	case is && download.Cut:
		return "Apply again: the download of " + download.URL + " starts from its beginning. If it ends early each " +
			"time, the server or a proxy limits it. Where Terraform runs, \"curl -o\" with the URL shows whether all of it " +
			"arrives."
	case is:
		return "Check the URL " + download.URL + " of source, and that its server is up. This computer downloads it, " +
			"through the proxy that HTTPS_PROXY or HTTP_PROXY names, unless NO_PROXY has the server. Where Terraform runs, " +
			"\"curl -I\" with the URL shows whether that works. Then apply again."
	case errors.Is(err, fs.ErrNotExist):
		return "Correct file of source. A relative path begins in Terraform's working directory. For a file next to the " +
			"configuration, write \"${path.module}/<file>\"."
	case errors.Is(err, storage.ErrNotServed):
		return "Correct url or checksum of source. Where Terraform runs, \"curl -I\" with the URL shows what the server " +
			"answers."
	case errors.Is(err, storage.ErrTruncated):
		return "Compare the length of url or file of source with that of the original: a copy or an upload of it may have " +
			"been interrupted. \"qemu-img check\" shows what a qcow2 image lacks. Replace it by the whole file, and apply " +
			"again. With checksum, another content is refused."
	case errors.Is(err, storage.ErrNoImage):
		return "Correct url or file of source. A server may send a page in place of a file, for example one that asks " +
			"to log in. Where Terraform runs, \"curl -L\" with the URL shows it. With checksum, another content is refused."
	default:
		return ""
	}
}

// warnOdd returns a warning if a raw image of that size is hardly one of a disk. bytes is 0 if the size is unknown.
func (m *model) warnOdd(format string, bytes uint64) (diags diag.Diagnostics) {
	if odd := storage.Oddity(format, bytes); odd != "" && bytes > 0 {
		diags.AddAttributeWarning(path.Root("source"), "Image may not be one of a disk", fmt.Sprintf("%s is raw, which is "+
			"what isn't known as another format: %s. It may be another file than you mean, such as a text, or it was cut "+
			"off.\n\nLook at it, and set source.checksum, with which another content is refused.", m.noun(), odd))
	}
	return diags
}

func (s *sourceModel) storage() storage.Source {
	return storage.Source{
		URL: s.URL.ValueString(), File: s.File.ValueString(), Checksum: strings.TrimSpace(s.Checksum.ValueString()),
	}
}

// notesKey is the key of the notes in the private state.
const notesKey = "image"

// notes are what the resource keeps in the private state.
type notes struct {
	Seal *storage.Seal `json:"seal,omitempty"`
	// Stamp is the stamp of a local file when it was read.
	storage.Stamp

	// Removable says that an earlier copy remains, and no disk is based on it any more.
	Removable bool `json:"removable,omitempty"`
	// Mounts has the mount points of the pool's directory.
	Mounts storage.Mounts `json:"mounts,omitempty"`
}

// notesOf returns the notes for a local file, before the file is read.
func notesOf(s *sourceModel) (n notes) {
	if s == nil || s.File.IsNull() {
		return n
	}
	n.Stamp, _ = storage.StampOf(s.File.ValueString()) // Reading the file reports the error.
	return n
}

// checked reports whether a local file may have other content than when it was read and had that SHA-256. It reads the
// file only if the stamps don't decide: the file was written or changed, as by a fresh checkout, and has the same
// length. If the content is the same, the returned notes have the file's new stamp.
func (n notes) checked(ctx context.Context, s *sourceModel, sha256 string) (now notes, stale bool) {
	is := notesOf(s).Stamp
	switch {
	case is.Size == 0 || is.Same(n.Stamp):
		return n, false
	case is.Size != n.Size:
		return n, true
	}
	if sum, err := storage.FileSHA256(ctx, s.File.ValueString()); err != nil || sum != sha256 {
		return n, true
	}
	n.Stamp = is
	return n, false
}
