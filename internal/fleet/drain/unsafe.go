package drain

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/evacuation"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// noteUnsafe notes that libvirt refused to move the VM of a step live to its target, because the target may lack a disk
// of it. The storage pools had not shown that. A retry wouldn't help: from now on it counts as a blocker. noteUnsafe
// returns the error with what to do.
func (d *drainRun) noteUnsafe(i int, err error) error {
	s := d.steps[i]
	if s.Method != evacuation.MethodLive || !errors.Is(err, libvirt.ErrUnsafe) {
		return err
	}

	d.mu.Lock()
	defer d.mu.Unlock()

	if d.unsafe == nil {
		d.unsafe = make(map[string][]string)
	}

	d.unsafe[s.UUID] = append(d.unsafe[s.UUID], s.Target)

	return fmt.Errorf("%w. %s", err, migration.UnsafeRemedy)
}

// withUnsafe adds to what the drain depends on that libvirt refused to move the VM live.
func (d *drainRun) withUnsafe(in evacuation.Input, uuid string) evacuation.Input {
	d.mu.Lock()
	refused := slices.Clone(d.unsafe[uuid])
	d.mu.Unlock()

	at := slices.IndexFunc(in.VMs, func(m evacuation.VM) bool { return m.UUID == uuid })
	if at < 0 || len(refused) == 0 {
		return in
	}

	in.VMs = slices.Clone(in.VMs)
	m := &in.VMs[at]
	m.LiveBlockers = maps.Clone(m.LiveBlockers)

	for _, host := range refused {
		if before, asked := m.LiveBlockers[host]; asked {
			m.LiveBlockers[host] = append(slices.Clone(before), migration.Blocker{
				Reason: migration.DisksNotLiveMigratable, Status: status.False,
				Message: fmt.Sprintf("libvirt refuses to migrate it to host %q, because of its disks", host),
				Remedy:  migration.UnsafeRemedy,
			})
		}
	}

	return in
}
