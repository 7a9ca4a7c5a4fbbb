package move

import (
	"context"
	"errors"
	"slices"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/records"
)

// DiscardCopies removes what unfinished moves left on other hosts: files, and a definition that uses them. If only is
// not nil, it considers only that host. It removes the files from the VM's metadata, and returns the VM as it is then.
// Files on hosts that are not configured stay, and stay recorded.
func (cl *Cleanup) DiscardCopies(ctx context.Context, vm *inventory.VM, only *inventory.Host) (*inventory.VM, error) {
	var failures []error

	gone := map[string]bool{vm.HostUUID: true} // On this host, the VM uses the files.
	stale := slices.Clone(vm.StaleHosts)

	for _, h := range cl.hosts.Configured {
		if h.Config.Fenced || only != nil && h != only || len(vm.Metadata.Copies) == 0 {
			continue
		}

		info, err := h.Conn.Info(ctx)
		if err == nil {
			copies := vm.CopiesOn(info.UUID)
			if len(copies) == 0 {
				continue
			}

			err = cl.discardOn(ctx, vm, h, copies)
		}

		if err == nil { // While the copies are recorded, the next attempt ends here, too.
			err = inventory.ArrivalOf(vm.UUID).End(ctx, h.Conn)
		}

		if err != nil {
			failures = append(failures, err)

			continue
		}

		gone[info.UUID] = true
		stale = slices.DeleteFunc(stale, func(name string) bool { return name == h.Name })
	}

	m := vm.Metadata
	m.Copies = slices.DeleteFunc(slices.Clone(m.Copies), func(c domain.Copy) bool { return gone[c.HostUUID] })

	changed, err := records.WriteMetadata(ctx, vm, m)
	if err == nil && changed {
		var now *inventory.VM
		if now, err = cl.hosts.Refresh(ctx, vm); err == nil {
			now.StaleHosts, vm = stale, now
		}
	}

	return vm, errors.Join(append(failures, err)...)
}

// discardOn removes what unfinished moves left on one host. If the host also has a definition, all files had been
// copied. Then it is unknown whether the VM was started there since: libvirt forgets that when its daemon is restarted.
func (cl *Cleanup) discardOn(ctx context.Context, vm *inventory.VM, h *inventory.Host, copies []domain.Copy) error {
	var (
		making []domain.Copy
		paths  []string
	)

	for _, c := range copies {
		if c.Creating {
			making = append(making, c)
		} else {
			paths = append(paths, c.Path)
		}
	}

	// Remove them before their directories.
	if err := migration.DiscardUnfinishedCopies(ctx, h.Conn, vm.On.Conn, making); err != nil || len(paths) == 0 {
		return err
	}

	if _, err := h.Conn.Domain(ctx, vm.UUID); err == nil {
		return vm.CopiedTwice(h.Name)
	} else if !inventory.IsNotFound(err) {
		return err
	}

	cl.log.InfoContext(ctx, "removing an unfinished copy", "name", vm.Name, "host", h.Name, "files", paths)

	return migration.DiscardLeftCopies(ctx, h.Conn, vm.On.Conn, paths)
}
