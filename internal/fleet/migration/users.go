package migration

import (
	"context"
	"errors"
	"fmt"
	"html"
	"path"
	"slices"
	"strings"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// UserOf returns what uses a file of a host: a VM whose definition names it, or an image that is based on it, in the
// same directory or below the VMs' disks. "" means that nothing uses it. A VM whose definition can't be read may use
// it.
func UserOf(ctx context.Context, h *libvirt.Host, file string) (string, error) {
	directory, err := h.Directory(ctx, path.Dir(file))
	if err != nil {
		return "", err
	}

	for name, v := range directory.Files {
		if v.Backing != "" && path.Base(v.Backing) == path.Base(file) {
			return fmt.Sprintf("%s is based on it", name), nil
		}
	}

	domains, err := h.Domains(ctx)
	if err != nil {
		return "", err
	}

	var disks []string

	for _, d := range domains {
		definitions, err := definitionsOf(d)
		if err != nil {
			return fmt.Sprintf("what virtual machine %q has can't be read", d.Name), nil //nolint:nilerr // It may be a user.
		}

		if names(d, definitions, file) {
			return fmt.Sprintf("virtual machine %q has it", d.Name), nil
		}

		disks = append(disks, disksOf(definitions)...)
	}

	return basedOn(ctx, h, file, disks)
}

// basedOn returns which image is based on a file: one of the images, or one that they are based on. "" means none.
func basedOn(ctx context.Context, h *libvirt.Host, file string, images []string) (string, error) {
	seen := map[string]bool{}

	for len(images) > 0 {
		image := images[0]
		images = images[1:]

		if seen[image] {
			continue
		}

		seen[image] = true

		backing, err := backingOf(ctx, h, image)

		switch {
		case err != nil:
			return "", err
		case backing == file:
			return image + " is based on it", nil
		case path.IsAbs(backing):
			images = append(images, backing)
		}
	}

	return "", nil
}

// backingOf returns what an image is based on, "" for nothing. An image that doesn't exist, or that no storage pool has
// and that can't be read in its directory, is based on nothing.
func backingOf(ctx context.Context, h *libvirt.Host, image string) (string, error) {
	v, err := h.VolumeByPath(ctx, image)
	if errors.Is(err, libvirt.ErrNotFound) {
		v, err = fileOn(ctx, h, image)
		if err != nil && !errors.Is(err, libvirt.ErrUnreachable) && ctx.Err() == nil {
			return "", nil // What a user declares may be anything, and is no reason to fail.
		}
	}

	if err != nil || v == nil {
		return "", err
	}

	return v.Backing, nil
}

// usedOn says whether a domain of the host uses a file: its definition or the running domain names the file, or libvirt
// puts the variables of the domain's firmware there. Unlike UserOf it doesn't look at what images are based on.
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
	if strings.Contains(html.UnescapeString(d.PersistentXML+d.LiveXML), file) {
		return true
	}

	return slices.ContainsFunc(definitions, func(definition *domain.Definition) bool {
		vm := VM{UUID: d.UUID, Name: d.Name, Mobility: definition.Mobility()}

		return slices.ContainsFunc(vm.localFiles(), func(b localFile) bool { return b.path == file })
	})
}

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
