package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab/guest"
)

// upTimeout is far above the 6 s that it takes: a first start on a busy machine probes QEMU for each host.
const upTimeout = 2 * time.Minute

// guestFile says where the guest's kernel and initramfs are built, outside of the hosts.
func (l *Lab) guestFile(name string) string { return filepath.Join(l.Dir, "guest", name) }

// Up starts what isn't running. It is done at once when the lab is up.
func (l *Lab) Up(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, upTimeout)
	defer cancel()
	if os.Geteuid() != 0 {
		return errors.New("the lab makes network namespaces and mounts: run this as root")
	}
	if missing := MissingPackages(Everything); len(missing) > 0 {
		return &MissingError{Packages: missing}
	}
	if err := os.MkdirAll(l.Dir, 0o755); err != nil {
		return fmt.Errorf("creating the lab's directory: %w", err)
	}
	unlock, err := lockDir(l.Dir)
	if err != nil {
		return err
	}
	defer unlock()
	if err := guest.Build(l.guestFile("")); err != nil {
		return fmt.Errorf("building the guest: %w", err)
	}
	if err := l.createNetworks(ctx); err != nil {
		return err
	}
	if err := l.createKeys(ctx); err != nil {
		return err
	}
	errs := make([]error, len(l.Hosts)+1)
	var work sync.WaitGroup
	work.Go(func() { errs[len(l.Hosts)] = l.startStore(ctx) })
	for i, h := range l.Hosts {
		work.Go(func() { errs[i] = l.bringUp(ctx, h) })
	}
	work.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return l.save()
}

// bringUp prepares the files of a host that never ran, and boots it.
func (l *Lab) bringUp(ctx context.Context, h *Host) error {
	prepared := filepath.Join(h.machine.dir, "prepared")
	if _, err := os.Stat(prepared); errors.Is(err, os.ErrNotExist) {
		if err := h.prepare(ctx, l); err != nil {
			return fmt.Errorf("host %s: %w", h.Name, err)
		}
		if err := writeFile(prepared, "", 0o644); err != nil {
			return err
		}
	}
	if err := h.installGuest(l); err != nil {
		return fmt.Errorf("host %s: %w", h.Name, err)
	}
	if err := h.start(ctx); err != nil {
		return fmt.Errorf("host %s: %w", h.Name, err)
	}
	return nil
}

// Down removes the lab: processes, namespaces, mounts, network devices and all files. It copes with a lab that came up
// by half or lost its description.
func (l *Lab) Down(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, upTimeout)
	defer cancel()
	for _, h := range l.Hosts {
		shells.forget(h.SocketURI())
	}
	var errs []error
	// The directories tell which machines there may be, whatever number of hosts the description has.
	dirs, err := os.ReadDir(filepath.Join(l.Dir, "machines"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		errs = append(errs, fmt.Errorf("looking for machines: %w", err))
	}
	for _, dir := range dirs {
		m := newMachine(l, dir.Name(), "")
		errs = append(errs, m.stop(ctx), m.removeCgroups(ctx))
	}
	errs = append(errs, l.deleteNetworks(ctx))
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if err := l.outOfMemory(); err != nil {
		return err
	}
	if err := os.RemoveAll(l.Dir); err != nil {
		return fmt.Errorf("removing the lab's directory: %w", err)
	}
	return nil
}

func (m *machine) status(ctx context.Context) string {
	pid, err := m.pid()
	if err != nil {
		return err.Error()
	}
	if pid == 0 {
		return "not running"
	}
	if m.name == storeName {
		return fmt.Sprintf("running (process %d)", pid)
	}
	if _, err := m.run(ctx, "virsh", "--connect", "qemu:///system", "version"); err != nil {
		return "running, but libvirt doesn't answer: " + err.Error()
	}
	return fmt.Sprintf("running (process %d), libvirt answers", pid)
}
