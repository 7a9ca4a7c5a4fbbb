package placement

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// ErrShared means that another VM has the same name or writes to the same disk, and runs or is started by its host at
// boot.
var ErrShared = errors.New("another VM has the same name or disk")

// claim is what only one running VM may have: its name and the disks that it writes to.
type claim struct {
	uuid, name, host string
	disks            []domain.DiskUse
	// plugged says that the VM runs already, under its name, and gets these disks in addition.
	plugged bool
	// unsettled reports whether a run may be about to give a running VM what its definition has in addition, or to take
	// that back: then it doesn't count. Nil: it counts.
	unsettled func(on *inventory.Host, e *inventory.Entry) bool
	// links are other paths that lead to one of the disks on the host, with the disk's own path.
	links map[string]string
}

// claims reports whether the domain writes to its disks, or will when its host boots.
func claims(e *inventory.Entry) bool { return e.Active() || e.Autostart }

// claimOf returns the claim of a VM on a host. starts says that the VM is turned off if it runs, and started there from
// its definition.
func claimOf(vm *inventory.VM, host string, starts bool) claim {
	c := claim{uuid: vm.UUID, name: vm.Name, host: host, disks: vm.Entry.DiskUses()}
	if starts && vm.Active {
		c.disks = vm.Entry.NextDiskUses()
	}

	return c
}

// namesakes returns the other VMs of the claim's name. A VM that runs already had to prove its name when it started.
func (c claim) namesakes(v *inventory.View) []*inventory.Entry {
	if c.plugged {
		return nil
	}

	return slices.DeleteFunc(slices.Clone(v.Named(c.name)), func(e *inventory.Entry) bool { return e.UUID == c.uuid })
}

// usesOf returns the disks that a VM with a claim writes to.
func (c claim) usesOf(on *inventory.Host, e *inventory.Entry) []domain.DiskUse {
	if live := e.Parse().Live; live != nil && c.unsettled != nil && c.unsettled(on, e) {
		return live.DiskUses()
	}

	return e.DiskUses()
}

// askable limits the questions to hosts about links, see symbolic_links.go.
func (c claim) askable() func(own, other string) bool {
	if c.plugged {
		return addedAlike(c.disks)
	}

	return nil
}

// rivals returns an error that names every other VM of the fleet that has this VM's name, or would write to the same
// disk.
func rivals(answers []inventory.Reply, c claim) error {
	var all []error

	for _, a := range answers {
		if a.View == nil || a.Err != nil {
			continue
		}

		for _, e := range c.namesakes(a.View) {
			if claims(e) {
				all = append(all, sameName(c, a.Host.Name, e))
			}
		}

		for _, disk := range c.disks {
			for _, e := range a.View.Having(disk) {
				if e.UUID == c.uuid || !claims(e) {
					continue
				}

				if other, ok := disk.SharedWith(c.usesOf(a.Host, e), c.host == a.Host.Name); ok {
					all = append(all, sameDisk(c, disk, a.Host.Name, e, other))
				}
			}
		}
	}

	return errors.Join(all...)
}

func sameName(c claim, host string, e *inventory.Entry) error {
	return &inventory.Error{
		VM: c.name, Host: host, Kind: ErrShared,
		Detail: fmt.Sprintf("two VMs have this name: the one with UUID %s on host %q, and the one with UUID %s on "+
			"host %q, which %s", c.uuid, c.host, e.UUID, host, claimReason(e)),
		Remedy: "Find out which one is the right one. " + giveUp(host, e),
	}
}

func sameDisk(c claim, disk domain.DiskUse, host string, e *inventory.Entry, other domain.DiskUse) error {
	relation := "is also"
	if !domain.SameDisk(disk.Source, other.Source, true) {
		relation = "is in one backing chain with"
	}

	source := disk.Source.Name()
	if own := c.links[source]; own != "" {
		source = fmt.Sprintf("%s, the same file as %s", own, source)
	}

	remedy := "Find out whose disk it is. If the same change takes it from that VM, nothing is wrong: repeat the change " +
		"once that VM has lost the disk. Otherwise: " + giveUp(host, e)
	if !disk.NVDIMM && !other.NVDIMM {
		remedy += " If both are to write to it, make it shareable in both definitions."
	}

	return &inventory.Error{
		VM: c.name, Host: host, Kind: ErrShared,
		Detail: fmt.Sprintf("its %s (%s) on host %q %s %s of VM %q (UUID %s) on host %q, which "+
			"%s: two VMs that write to one disk destroy what is on it", disk.Text(), source, c.host, relation,
			other.Text(), e.Name, e.UUID, host, claimReason(e)),
		Remedy: remedy,
	}
}

// claimReason returns why a domain has a claim.
func claimReason(e *inventory.Entry) string {
	switch {
	case e.State == libvirt.Running:
		return "is running"
	case e.Active():
		return "isn't off (" + e.State.String() + ")"
	default:
	}

	return "is started when that host boots"
}

// giveUp returns how a user ends the other VM's claim.
func giveUp(host string, e *inventory.Entry) string {
	return fmt.Sprintf("To end the claim of the other, run \"virsh autostart --disable %[1]s\" and "+
		"\"virsh shutdown %[1]s\" on host %[2]q, or undefine it.", e.UUID, host)
}

// VerifyExclusive returns ErrShared if another VM of the fleet that runs, or that its host starts at boot, has the VM's
// name or writes to one of its disks. It doesn't query hosts that answered recently. It returns nil if the VM is not
// found.
func (cs *Claims) VerifyExclusive(ctx context.Context, uuid string, d Desired) error {
	answers, err := cs.hosts.Snapshot(ctx)
	if err != nil {
		return err
	}

	for _, a := range answers {
		if a.View == nil || a.View.Domains[uuid] == nil {
			continue
		}

		e := a.View.Domains[uuid]
		if e.Parse().Definition() == nil {
			continue
		}

		// A disk that it loses is not its claim: the change that takes the disk from it ends the double use.
		added := d.newUses(e.DiskUses())
		c := claim{
			uuid: uuid, name: e.Name, host: a.Host.Name, disks: slices.Concat(d.keptUses(e.DiskUses()), added),
		}

		c = cs.withLinks(ctx, answers, c, addedAlike(added))

		if err := rivals(answers, c); err != nil {
			return err
		}
	}

	return nil
}

// ClaimBlockers returns the VMs that block a move of a running VM to the target: they have its name, or a disk that it
// writes to, as the target sees it. starts is as for ReserveArrival.
func (cs *Claims) ClaimBlockers(
	ctx context.Context, vm *inventory.VM, to *inventory.Host, starts bool,
) ([]migration.Blocker, error) {
	if !vm.Active {
		return nil, nil
	}

	answers, err := cs.hosts.Snapshot(ctx)
	if err != nil {
		return nil, err
	}

	return rivalBlockers(answers, claimOf(vm, to.Name, starts)), nil
}

// rivalBlockers returns the result of rivals as a blocker of a migration.
func rivalBlockers(answers []inventory.Reply, c claim) []migration.Blocker {
	err := rivals(answers, c)
	if err == nil {
		return nil
	}

	return []migration.Blocker{{
		Reason: migration.NotAlone, Status: status.False, Attribute: "disks", Message: err.Error(),
	}}
}

// notAlone returns the problems that prevent a new VM from starting on a host because another VM has its name or a
// disk. own is the UUID of the VM that the new one replaces or completes.
func (cs *Claims) notAlone(
	ctx context.Context, answers []inventory.Reply, d Desired, own, host string,
) []inventory.Problem {
	if !status.StartsOnCreate(d.Strategy()) {
		return nil
	}

	c := claim{uuid: own, name: d.Spec.Name, host: host, disks: d.newUses(nil)}

	c = cs.withLinks(ctx, answers, c, addedAlike(c.disks))

	if err := rivals(answers, c); err != nil {
		return []inventory.Problem{{
			Attribute: "disks", Summary: "Disk belongs to another virtual machine", Detail: err.Error(),
		}}
	}

	return nil
}

// newUses returns the disks and NVDIMMs that the configuration adds to what a VM has.
func (d Desired) newUses(have []domain.DiskUse) []domain.DiskUse {
	var uses []domain.DiskUse

	for _, key := range slices.Sorted(maps.Keys(d.Spec.Disks)) {
		disk := d.Spec.Disks[key]
		disk.Source = d.sourceOf(key)

		known := slices.ContainsFunc(have, func(h domain.DiskUse) bool {
			return h.Key == key && domain.SameDisk(h.Source, disk.Source, true)
		})
		if known || disk.Device == "cdrom" || disk.ReadOnly != nil && *disk.ReadOnly || disk.Source.Name() == "" {
			continue
		}

		uses = append(uses, domain.DiskUse{
			Key: key, Source: disk.Source, Shared: slices.Contains(d.Metadata.SharedDisks, key),
			Shareable: disk.Values["shareable"] == "yes",
		})
	}

	for _, use := range d.Spec.NVDIMMUses() {
		known := slices.ContainsFunc(have, func(h domain.DiskUse) bool {
			return h.NVDIMM && domain.SameDisk(h.Source, use.Source, true)
		})
		if !known {
			uses = append(uses, use)
		}
	}

	return uses
}

// StartAlone starts a VM that may start if no other VM has its name or disks, and if these are complete. Two VMs with
// the same disk are started one after another, so that the second one gets the error, also if their paths to the disk
// differ. See contenders.go for those that other runs start.
func (cs *Claims) StartAlone(
	ctx context.Context, permit *StartPermit, vm *inventory.VM, start func(context.Context) error,
) error {
	if err := permit.verify(vm); err != nil {
		return err
	}

	c := claimOf(vm, vm.Host, false)

	unlock, err := cs.lockNames(ctx, c)
	if err != nil {
		return err
	}
	defer unlock()

	if err := cs.verifyFinished(ctx, permit, vm); err != nil {
		return err
	}

	return cs.takeAlone(ctx, permit, vm, c, func(held context.Context) error {
		if err := start(held); err != nil {
			return err
		}

		// A VM that waits for the same disk has to see this one.
		if d, err := vm.On.Conn.Domain(ctx, vm.UUID); err == nil {
			vm.On.Remember(vm.UUID, d)
		} else {
			vm.On.Forget()
		}

		return nil
	})
}

// lockNames prevents other operations of this run from taking what is claimed, until unlock is called.
func (cs *Claims) lockNames(ctx context.Context, c claim) (unlock func(), err error) {
	var names []string
	if !c.plugged {
		names = append(names, "starting/"+c.name)
	}

	for _, disk := range c.disks {
		names = append(names, "disk/"+disk.Source.Name())
	}

	var locked []func()

	unlock = func() {
		for _, u := range slices.Backward(locked) {
			u()
		}
	}

	slices.Sort(names)

	for _, name := range slices.Compact(names) {
		u, err := cs.mutexes.Lock(ctx, name)
		if err != nil {
			unlock()

			return nil, err
		}

		locked = append(locked, u)
	}

	return unlock, nil
}

// takeAlone calls take, with which the VM gets what it claims, if no other VM has it, or can get it meanwhile.
func (cs *Claims) takeAlone(
	ctx context.Context, permit *StartPermit, vm *inventory.VM, c claim, take func(context.Context) error,
) error {
	ended, err := cs.awaitLinked(ctx, c)
	if err != nil {
		return err
	}
	defer ended()

	held, release, err := cs.lockContenders(ctx, permit, vm, c)
	if err != nil {
		return err
	}
	defer release()

	return take(held)
}
