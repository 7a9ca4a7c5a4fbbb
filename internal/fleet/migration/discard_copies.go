package migration

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// DiscardCopies removes from a host those of the paths that a move made there, the last first. A missing file is no
// error. A file that a domain of the host now uses belongs to that domain, and stays.
func DiscardCopies(ctx context.Context, host *libvirt.Host, paths []string) error {
	var failures []error
	for _, p := range slices.Backward(paths) {
		file, err := host.FileIfThere(ctx, p)
		used := false
		if err == nil && file != nil {
			used, err = usedOn(ctx, host, p)
		}
		if err == nil && file != nil && !used {
			err = host.RemoveFile(ctx, p)
		}
		failures = append(failures, err)
	}
	return errors.Join(failures...)
}

// DiscardLeftCopies removes what an earlier move made on the host. home is the host that the VM is on. Both hosts may
// now share storage that they did not share then, declared or not, so the VM's own files stay.
func DiscardLeftCopies(ctx context.Context, host, home *libvirt.Host, paths []string) error {
	var apart []string
	for _, p := range paths {
		if slices.ContainsFunc(apart, func(dir string) bool { return strings.HasPrefix(p, dir+"/") }) {
			apart = append(apart, p)
			continue
		}
		one, err := IsSameFile(ctx, host, home, p)
		if err != nil {
			return err
		}
		if !one {
			apart = append(apart, p)
		}
	}
	return discardUnused(ctx, host, apart)
}

// discardUnused removes from a host those of the paths that nothing uses now, the last first. In the time since the
// move made them, a VM may have got a disk that is based on one of them. One of the files may also be the base of
// another: it goes after that. It returns libvirt.ErrBusy for a file of which it is unknown whether something uses it.
func discardUnused(ctx context.Context, host *libvirt.Host, paths []string) error {
	users := UsersOn(host)
	var failures, unclear []error
	for left := slices.Clone(paths); len(left) > 0; {
		var used []string
		unclear = nil
		for _, p := range slices.Backward(left) {
			file, err := host.FileIfThere(ctx, p)
			why := ""
			if err == nil && file != nil {
				why, err = users.Of(ctx, p)
			}
			if err == nil && file != nil && why == "" {
				err = host.RemoveFile(ctx, p)
			}
			failures = append(failures, err)
			if why != "" {
				used = append(used, p)
			}
			if why != "" && why == users.unclear {
				unclear = append(unclear, fmt.Errorf("%w: %s on host %q may be in use: %s",
					libvirt.ErrBusy, p, host.Name(), why))
			}
		}
		if len(used) == len(left) {
			break
		}
		slices.Reverse(used)
		left = used
	}
	return errors.Join(append(failures, unclear...)...)
}

// IsSameFile says whether two hosts have the same file at a path. Equal times of change on both hosts prove that.
// Different times prove nothing, because not every filesystem reports the same time to all hosts: then IsSameFile
// creates a file and looks for it on the other host.
func IsSameFile(ctx context.Context, on, other *libvirt.Host, file string) (bool, error) {
	here, err := on.FileIfThere(ctx, file)
	if err != nil || here == nil {
		return false, err
	}
	there, err := other.FileIfThere(ctx, file)
	if err != nil || there == nil {
		return false, err
	}
	if isShared(here, there) {
		return true, nil
	}
	return probeShared(ctx, on, other, path.Dir(file))
}

// RemoveOriginal removes the original of a disk from the host that the VM has left. home is the host that has the copy.
// It returns why the original stays: home has no copy of it, or something on the host uses it. unclear says that
// something may use it. The caller makes sure that the hosts don't share the file. A missing file is no error.
func RemoveOriginal(
	ctx context.Context, host, home *libvirt.Host, file string,
) (stays string, unclear bool, err error) {
	here, err := host.FileIfThere(ctx, file)
	if err != nil || here == nil {
		return "", false, err
	}
	there, err := home.FileIfThere(ctx, file)
	switch {
	case err != nil:
		return "", false, err
	case there == nil:
		return fmt.Sprintf("host %q has no copy of it", home.Name()), false, nil
	case there.Format != here.Format || there.CapacityBytes < here.CapacityBytes: // A copy may have grown since.
		return fmt.Sprintf("host %q has another one, %s", home.Name(), describeDifference(*here, *there)), false, nil
	}
	users := UsersOn(host)
	if stays, err = users.Of(ctx, file); err != nil || stays != "" {
		return stays, stays != "" && stays == users.unclear, err
	}
	return "", false, host.RemoveFile(ctx, file)
}
