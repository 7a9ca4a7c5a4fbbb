package storage

import (
	"context"
	"errors"
	"html"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/beevik/etree"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// sought is a volume whose users are looked for on a host.
type sought struct {
	libvirt.Volume
	// links are other paths that lead to the volume's file on the host.
	links []string
	// refs are other names of the volume: several pools of a host may have the same directory.
	refs []Ref
}

// sought compares the volume with the files at paths: a definition may have a path through a symbolic link. If the
// host's files can't be compared and probe is set, libvirt tells which of the files of that name it may be; otherwise
// only equal paths are the same file. It returns an error if the host doesn't answer.
func (s *Storage) sought(
	ctx context.Context, h *libvirt.Host, v libvirt.Volume, paths []string, probe bool,
) (found sought, err error) {
	found.Volume = v
	slices.Sort(paths)
	paths = slices.DeleteFunc(slices.Compact(paths), func(p string) bool {
		return !askable(p) || path.Clean(p) == path.Clean(v.Path)
	})
	if len(paths) == 0 || !askable(v.Path) {
		return found, nil
	}
	if host, ok := s.Hosts.Host(h.Name()); ok && host.SameFile != nil {
		found.links, err = host.SameFile(ctx, v.Path, paths...)
		if !errors.Is(err, libvirt.ErrUnsupported) {
			return found, err
		}
		s.Log.Debug("files were not compared", "host", h.Name(), "volume", v.Path, "error", err)
	}
	if !probe || !h.HasFiles() {
		return found, nil
	}
	more, err := namesakes(ctx, h, v.Path, paths)
	found.links = append(found.links, more...)
	return found, err
}

// namesakes returns those of the paths that may be the file at a path: they have its name, and libvirt sees no
// difference, or can't read one of them. A file that changes meanwhile may be any of its namesakes.
func namesakes(ctx context.Context, h *libvirt.Host, file string, paths []string) (same []string, _ error) {
	paths = slices.DeleteFunc(slices.Clone(paths), func(p string) bool { return path.Base(p) != path.Base(file) })
	for _, p := range paths {
		before, err := h.FileIfThere(ctx, file)
		other, otherErr := h.FileIfThere(ctx, p)
		after, afterErr := h.FileIfThere(ctx, file)
		err = errors.Join(err, otherErr, afterErr)
		switch {
		case err != nil && (ctx.Err() != nil || errors.Is(err, libvirt.ErrUnreachable)):
			return nil, err
		case err != nil:
			same = append(same, p)
		case other == nil || before == nil && after == nil:
		case before == nil || after == nil || before.Changed != after.Changed ||
			other.Changed == before.Changed && other.PhysicalBytes == before.PhysicalBytes:
			same = append(same, p)
		}
	}
	return same, nil
}

// askable reports whether a host can be asked about the file at the path.
func askable(p string) bool { return strings.HasPrefix(p, "/") && !strings.ContainsAny(p, "\r\n\x00") }

// pathInXML finds absolute paths that libvirt wrote as an attribute of a source or as an element's text.
var pathInXML = regexp.MustCompile(`(?: (?:file|dev|dir|name)='|>)(/[^'<>]+)['<]`)

// pathsIn returns the absolute paths in definitions, without parsing them.
func pathsIn(documents ...string) []string {
	var paths []string
	for _, document := range documents {
		for _, match := range pathInXML.FindAllStringSubmatch(document, -1) {
			paths = append(paths, html.UnescapeString(match[1]))
		}
	}
	return paths
}

// refInXML finds volumes that libvirt wrote as a disk's source.
var refInXML = regexp.MustCompile(` pool='([^'<>]+)' volume='([^'<>]+)'`)

// filesIn returns the files of the volumes that definitions name by pool and volume, for pools of files, also if those
// aren't active.
func filesIn(pools []libvirt.StoragePool, documents ...string) map[Ref]string {
	files := map[Ref]string{}
	for _, document := range documents {
		for _, match := range refInXML.FindAllStringSubmatch(document, -1) {
			ref := Ref{Pool: html.UnescapeString(match[1]), Name: html.UnescapeString(match[2])}
			if file := fileOf(pools, ref); file != "" {
				files[ref] = file
			}
		}
	}
	return files
}

// fileOf returns the file of a volume in a pool of files, "" for other volumes.
func fileOf(pools []libvirt.StoragePool, ref Ref) string {
	i := slices.IndexFunc(pools, func(p libvirt.StoragePool) bool { return p.Name == ref.Pool })
	if i < 0 {
		return ""
	}
	p, err := ReadPool(pools[i].XML)
	if err != nil || p.Directory() == "" {
		return ""
	}
	return path.Join(p.Directory(), ref.Name)
}

// diskRole is how a definition uses a volume as a disk; empty if the volume isn't the content of a disk.
type diskRole struct {
	// target is the disk ("vda"), format the one that QEMU uses it with.
	target, format string
	// readOnly says that the VM can't write to the disk.
	readOnly bool
	// secret is the UUID of the secret with the disk's passphrase.
	secret string
}

// usedBy reports whether a definition names the volume anywhere, and as which disk.
func (v sought) usedBy(document string) (as diskRole, used bool) {
	if !v.mayBeIn(document) {
		return diskRole{}, false // Most definitions: they needn't be parsed.
	}
	doc := etree.NewDocument()
	if doc.ReadFromString(document) != nil || doc.Root() == nil {
		return diskRole{}, true // It names the volume, and in which role is unknown.
	}
	for _, e := range doc.Root().FindElements(".//*") {
		if !v.isNamedBy(e) {
			continue
		}
		used = true
		parent := e.Parent()
		if e.Tag == "source" && parent != nil && parent.Tag == "disk" {
			if t := parent.SelectElement("target"); t != nil {
				return diskRole{
					target: t.SelectAttrValue("dev", ""), format: formatOf(parent), readOnly: parent.SelectElement("readonly") != nil,
					secret: secretOf(parent),
				}, true
			}
		}
	}
	return diskRole{}, used
}

// formatOf returns the format that QEMU uses a disk with, "" for an encrypted one.
func formatOf(disk *etree.Element) string {
	driver := disk.SelectElement("driver")
	if driver == nil || disk.FindElement("./encryption") != nil || disk.FindElement("./source/encryption") != nil {
		return ""
	}
	return driver.SelectAttrValue("type", "")
}

// secretOf returns the UUID of the secret that opens a disk, "" if its definition names none by its UUID.
func secretOf(disk *etree.Element) string {
	for _, at := range []string{"./source/encryption/secret", "./encryption/secret"} {
		if secret := disk.FindElement(at); secret != nil {
			return secret.SelectAttrValue("uuid", "")
		}
	}
	return ""
}

func (v sought) mayBeIn(document string) bool {
	texts := append([]string{v.Path, v.Name}, v.links...)
	for _, ref := range v.refs {
		texts = append(texts, ref.Name)
	}
	for _, text := range texts {
		if strings.Contains(document, text) || document != "" && strings.ContainsAny(text, `&<>'"`) {
			return true
		}
	}
	return false
}

func (v sought) isNamedBy(e *etree.Element) bool {
	if v.isAt(e.Text()) {
		return true
	}
	for _, name := range []string{"file", "dev", "dir", "name"} {
		if v.isAt(e.SelectAttrValue(name, "")) {
			return true
		}
	}
	if v.isOnGluster(e) {
		return true
	}
	ref := Ref{Pool: e.SelectAttrValue("pool", ""), Name: e.SelectAttrValue("volume", "")}
	return v.is(ref)
}

// is reports whether ref is a name of the volume.
func (v sought) is(ref Ref) bool {
	return ref.Name != "" && (ref == Ref{Pool: v.Pool, Name: v.Name} || slices.Contains(v.refs, ref))
}

// isOnGluster reports whether the source of a disk is the volume on Gluster. The path of such a volume is a URI, of
// which a disk has the path alone. The servers aren't compared: any of them serves the volume, under each of its names.
func (v sought) isOnGluster(source *etree.Element) bool {
	if source.SelectAttrValue("protocol", "") != "gluster" {
		return false
	}
	at, err := url.Parse(v.Path)
	return err == nil && strings.HasPrefix(at.Scheme, "gluster") &&
		path.Clean("/"+source.SelectAttrValue("name", "")) == path.Clean(at.Path)
}

// isAt reports whether the volume is at the path.
func (v sought) isAt(p string) bool {
	return v.Path != "" && p != "" && (path.Clean(p) == path.Clean(v.Path) || slices.Contains(v.links, p) ||
		slices.Contains(v.links, path.Clean(p)))
}
