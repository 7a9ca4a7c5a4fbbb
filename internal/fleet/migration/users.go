package migration

import (
	"context"
	"errors"
	"fmt"
	"html"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/admission"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// Users finds out what uses files of a host. It reads the host's VMs, and what their disks are based on, once: when it
// is first asked.
type Users struct {
	host    *libvirt.Host
	read    bool
	domains []user
	// bases is what the VMs' disks are based on, and what these bases are based on in turn.
	bases map[string]string
	// unclear says why anything may be used: what a VM has, or what an image is based on, can't be read.
	unclear string
}

// user is a domain with its definitions.
type user struct {
	domain      libvirt.Domain
	definitions []*domain.Definition
}

// UsersOn returns the users of files of a host.
func UsersOn(h *libvirt.Host) *Users { return &Users{host: h, bases: make(map[string]string)} }

// Of returns what uses a file: a VM whose definition names it, or an image that is based on it, in the same directory
// or below the VMs' disks. "" means that nothing uses it. If something can't be read, it may use the file.
func (u *Users) Of(ctx context.Context, file string) (string, error) {
	directory, err := u.host.Directory(ctx, path.Dir(file))
	if err != nil {
		return "", err
	}

	bases := make(map[string]string)

	for name, v := range directory.Files {
		if image := path.Join(path.Dir(file), name); image != file && v.Backing != "" {
			bases[image] = resolveBase(image, v.Backing)
		}
	}

	if why, err := u.basedOn(ctx, file, bases); err != nil || why != "" {
		return why, err
	}

	if !u.read {
		if err := u.readAll(ctx); err != nil {
			return "", err
		}

		u.read = true
	}

	if u.unclear != "" {
		return u.unclear, nil
	}

	for _, d := range u.domains {
		if names(d.domain, d.definitions, file) {
			return fmt.Sprintf("virtual machine %q has it", d.domain.Name), nil
		}
	}

	return u.basedOn(ctx, file, u.bases)
}

// readAll reads the VMs, and what their disks are based on. It ends at the first that can't be read.
func (u *Users) readAll(ctx context.Context) error {
	domains, err := u.host.Domains(ctx)
	if err != nil {
		return err
	}

	var images []string

	for _, d := range domains {
		definitions, err := definitionsOf(d)
		if err != nil {
			u.unclear = fmt.Sprintf("what virtual machine %q has can't be read", d.Name)

			return nil //nolint:nilerr // It may be a user.
		}

		u.domains = append(u.domains, user{d, definitions})
		images = append(images, disksOf(definitions)...)
	}

	for len(images) > 0 && u.unclear == "" {
		image := images[0]
		images = images[1:]

		if _, seen := u.bases[image]; seen {
			continue
		}

		if u.bases[image], err = u.baseOf(ctx, image); err != nil {
			return err
		}

		if base := u.bases[image]; base != "" {
			images = append(images, base)
		}
	}

	return nil
}

// baseAttempts is how often Users tries to read what an image is based on: its storage pool may be started just now, or
// other files of its directory may be removed.
const baseAttempts = 3

// baseOf returns what an image is based on, "" for nothing. An image that doesn't exist is based on nothing. If that
// can't be read, it says so in u.unclear.
func (u *Users) baseOf(ctx context.Context, image string) (string, error) {
	for attempt := 1; ; attempt++ {
		v, err := u.host.VolumeByPath(ctx, image)
		if errors.Is(err, libvirt.ErrNotFound) {
			v, err = u.host.FileIfThere(ctx, image)
		}

		switch {
		case err == nil && (v == nil || v.Backing == ""):
			return "", nil
		case err == nil:
			return resolveBase(image, v.Backing), nil
		case ctx.Err() != nil || errors.Is(err, libvirt.ErrUnreachable):
			return "", err
		case attempt == baseAttempts:
			u.unclear = fmt.Sprintf("what %s is based on can't be read: %v", image, err)

			return "", nil
		}

		if err := admission.Pause(ctx, time.Second); err != nil {
			return "", err
		}
	}
}

// resolveBase returns the path of the base that an image names.
func resolveBase(image, base string) string {
	if path.IsAbs(base) {
		return path.Clean(base)
	}

	return path.Join(path.Dir(image), base)
}

// basedOn returns which of the images is based on a file. "" means none. bases are what they are based on.
func (u *Users) basedOn(ctx context.Context, file string, bases map[string]string) (string, error) {
	for _, image := range slices.Sorted(maps.Keys(bases)) {
		is, err := u.isFile(ctx, bases[image], file)
		if err != nil {
			return "", err
		}

		if is {
			return image + " is based on it", nil
		}
	}

	return "", nil
}

// isFile says whether the path of a base leads to a file, possibly through a directory that is a symbolic link.
func (u *Users) isFile(ctx context.Context, base, file string) (bool, error) {
	if base == file || path.Base(base) != path.Base(file) {
		return base == file, nil
	}

	other, err := u.host.FileIfThere(ctx, base)

	switch {
	case err != nil && (ctx.Err() != nil || errors.Is(err, libvirt.ErrUnreachable)):
		return false, err
	case err != nil:
		return true, nil //nolint:nilerr // It may be the file.
	case other == nil:
		return false, nil
	}

	is, err := u.host.FileIfThere(ctx, file)
	if err != nil || is == nil {
		return false, err
	}

	return other.Changed == is.Changed && other.PhysicalBytes == is.PhysicalBytes, nil
}

// usedOn says whether a domain of the host uses a file: its definition or the running domain names the file, or libvirt
// puts the variables of the domain's firmware there. Unlike Users it doesn't look at what images are based on.
func usedOn(ctx context.Context, h *libvirt.Host, file string) (bool, error) {
	all, err := h.Domains(ctx)
	if err != nil {
		return false, err
	}

	for _, d := range all {
		definitions, err := definitionsOf(d)
		if err != nil {
			return false, errors.Join(errors.New("domain "+d.Name+" can't be read"), err)
		}

		if names(d, definitions, file) {
			return true, nil
		}
	}

	return false, nil
}

// definitionsOf returns the definition of a domain, and that of the running domain, as far as it has them.
func definitionsOf(d libvirt.Domain) ([]*domain.Definition, error) {
	var all []*domain.Definition

	for _, xml := range []string{d.PersistentXML, d.LiveXML} {
		if xml == "" {
			continue
		}

		definition, err := domain.Parse(xml)
		if err != nil {
			return nil, err
		}

		all = append(all, definition)
	}

	return all, nil
}

// names says whether a domain with these definitions has a file.
func names(d libvirt.Domain, definitions []*domain.Definition, file string) bool {
	if mentions(html.UnescapeString(d.PersistentXML+d.LiveXML), file) {
		return true
	}

	return slices.ContainsFunc(definitions, func(definition *domain.Definition) bool {
		vm := VM{UUID: d.UUID, Name: d.Name, Mobility: definition.Mobility()}

		return slices.ContainsFunc(vm.localFiles(), func(b localFile) bool { return b.path == file })
	})
}

// mentions says whether a text has the path of a file, and not only a longer path that begins with it.
func mentions(text, file string) bool {
	for {
		_, after, found := strings.Cut(text, file)
		if !found {
			return false
		}

		if !partOfName.MatchString(after) {
			return true
		}

		text = after
	}
}

// partOfName matches a text that continues the name of a file.
var partOfName = regexp.MustCompile(`^[A-Za-z0-9._-]`)

// disksOf returns the files of the disks.
func disksOf(definitions []*domain.Definition) []string {
	var paths []string

	for _, definition := range definitions {
		for _, disk := range definition.Mobility().Disks {
			if disk.Path != "" && !disk.Block {
				paths = append(paths, disk.Path)
			}
		}
	}

	return paths
}
