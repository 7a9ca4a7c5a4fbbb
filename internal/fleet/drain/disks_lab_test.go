package drain_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/drain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/evacuation"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/hostrecord"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/policy"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/records"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

// diskOwner is a VM on the first of two hosts that takes its disk along.
type diskOwner struct {
	l        *lab.Lab
	from, to *lab.Host
	fleet    *fleet.Fleet
	vm       *inventory.VM
	image    string
	rule     evacuation.Policy
}

func newDiskOwner(t *testing.T) *diskOwner {
	t.Helper()

	l := lab.Open(t)
	c := &diskOwner{l: l, from: l.StartHost(t), to: l.StartHost(t)}
	c.fleet = ownFleet(t, "alice", c.from, c.to)
	d := light(t, l, "disk", nil)
	c.image = l.Image(t, c.from.Name, d.Spec.Name+".qcow2", "qcow2", 1<<20)
	d.Spec.Disks["data"] = domain.Disk{Source: domain.DiskSource{File: c.image}, Format: "qcow2"}
	c.vm = create(t, ownFleet(t, "alice", c.from), l, d)
	c.rule = evacuation.Policy{
		Identity: policy.Identity{ID: "1", Name: "all"}, Strategy: evacuation.LiveMigrate,
		Options: migration.Options{CopyStorage: migration.CopyFull},
	}

	if _, err := c.fleet.EvictionPolicies().Put(t.Context(), c.rule); err != nil {
		t.Fatal(err)
	}

	return c
}

// write has the running VM write to its disk.
func (c *diskOwner) write(t *testing.T, on *lab.Host, pattern int) {
	t.Helper()

	out := c.l.Virsh(t, on.Name, "qemu-monitor-command", "--hmp", c.vm.UUID,
		fmt.Sprintf(`qemu-io -d /machine/peripheral/ua-disk-data/virtio-backend "write -P %d 0 4096"`, pattern))
	if strings.TrimSpace(out) != "" { // What it did it says on its standard output.
		t.Fatalf("not written: %s", out)
	}
}

// drain takes the VM away, and writes to its disk there. It returns the step.
func (c *diskOwner) drain(t *testing.T, pattern int) hostrecord.RecordedStep {
	t.Helper()

	steps, err := drainNow(t, c.fleet, drain.Drain{Host: c.from.Name, ID: "m", Why: "a test"})
	if got := resultsOf(steps); err != nil || got != "disk=Moved" {
		t.Fatalf("%s, %v", got, err)
	}

	if !c.has(t, c.from) || !c.has(t, c.to) {
		t.Fatalf("%s has its image %v, %s %v; want both", c.from.Name, c.has(t, c.from), c.to.Name, c.has(t, c.to))
	}

	c.write(t, c.to, pattern)

	return steps[0]
}

func (c *diskOwner) has(t *testing.T, h *lab.Host) bool {
	t.Helper()

	_, err := os.Stat(h.Path(c.image))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}

	return err == nil
}

// back ends the maintenance, which brings the VM back with what it wrote.
func (c *diskOwner) back(t *testing.T, pattern int) {
	t.Helper()

	if _, err := c.fleet.Release(t.Context(), c.from.Name, "m", drain.Restore{Wanted: true}); err != nil {
		t.Fatal(err)
	}

	if got := howStarted(t, c.fleet, c.vm.UUID); got != c.from.Name+" Running Migrated" {
		t.Errorf("it is %s, want it back", got)
	}

	if c.has(t, c.to) {
		t.Errorf("its image is left on %s", c.to.Name)
	}

	c.l.Run(t, c.from.Name, "qemu-io", "-U", "-r", "-c", fmt.Sprintf("read -P %d 0 4096", pattern), c.image)
}

// found is the VM as it is now.
func (c *diskOwner) found(t *testing.T) *inventory.VM {
	t.Helper()
	vm, err := c.fleet.FindNow(t.Context(), c.vm.UUID, inventory.LastKnown{})
	if err != nil {
		t.Fatal(err)
	}

	return vm
}

// hostUUID is what libvirt calls a host.
func (c *diskOwner) hostUUID(t *testing.T, h *lab.Host) string {
	t.Helper()

	info, err := c.fleet.Host(h.Name).Conn.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}

	return info.UUID
}

// left is the image that the VM leaves on the second host when it comes back.
func (c *diskOwner) left(t *testing.T) domain.LeftVolume {
	t.Helper()

	return domain.LeftVolume{Host: c.to.Name, HostUUID: c.hostUUID(t, c.to), Path: c.image}
}

// change changes the VM's metadata and what the drained host has recorded.
func (c *diskOwner) change(t *testing.T, vm func(*domain.Metadata), record func(*hostrecord.Record)) {
	t.Helper()

	now := c.found(t)
	m := now.Metadata
	vm(&m)

	if _, err := records.WriteMetadata(t.Context(), now, m); err != nil {
		t.Fatal(err)
	}

	if err := c.fleet.ChangeRecord(t.Context(), c.fleet.Host(c.from.Name), func(r *hostrecord.Record) error {
		record(r)

		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// killed has a drain killed once the VM has left, and the end of the maintenance once it has come back. Neither run has
// closed the record of its move. The next drain knows which image was left, and the next end leaves none.
func (c *diskOwner) killed(t *testing.T, pattern int) {
	t.Helper()
	c.drain(t, pattern)

	record, _, err := inventory.ReadRecord(t.Context(), c.fleet.Host(c.from.Name))
	if err != nil {
		t.Fatal(err)
	}

	step := record.Evacuation.Steps[0]

	for _, method := range []string{evacuation.MethodCold, evacuation.MethodLive} {
		c.change(t, func(m *domain.Metadata) {
			m.Migrations = slices.Clone(m.Migrations)
			m.Migrations[len(m.Migrations)-1].End = time.Time{}
			m.Copies = append(m.Copies, domain.Copy{
				Host: c.to.Name, HostUUID: c.hostUUID(t, c.to), Path: c.image, FromUUID: c.hostUUID(t, c.from),
			})
		}, func(r *hostrecord.Record) {
			begun := hostrecord.RecordedStep{Step: step.Step, TargetUUID: step.TargetUUID, Ran: method == evacuation.MethodCold}
			begun.Method = method
			r.Evacuation = &hostrecord.Evacuation{Since: time.Now(), Steps: []hostrecord.RecordedStep{begun}}
		})

		steps, err := drainNow(t, c.fleet, drain.Drain{Host: c.from.Name, ID: "m", Why: "a test"})
		if err != nil || len(steps) != 1 || !slices.Equal(steps[0].Kept, step.Kept) || len(step.Kept) == 0 {
			t.Fatalf("%s: %+v, %v; want that it has left %+v", method, steps, err, step.Kept)
		}
	}

	image, err := os.ReadFile(c.to.Path(c.image))
	if err != nil {
		t.Fatal(err)
	}

	c.back(t, pattern)

	if err := os.WriteFile(c.to.Path(c.image), image, 0o600); err != nil {
		t.Fatal(err)
	}

	c.change(t, func(m *domain.Metadata) { m.LeftVolumes = append(m.LeftVolumes, c.left(t)) }, func(r *hostrecord.Record) {
		r.Evacuation = &hostrecord.Evacuation{
			Since: time.Now(), Done: true, Releasing: "m", Steps: []hostrecord.RecordedStep{step},
		}
	})
	c.back(t, pattern)
}

// full lets the host have no room for the VM any more as soon as that moves there cold: it can't be started. Call mend
// to undo this.
func (c *diskOwner) full(h *lab.Host, also func()) (mend func()) {
	host := c.fleet.Host(h.Name)
	limit := host.Config.MemoryLimit

	listen(c.fleet, &onLog{Message: "handing over definition", Do: func() {
		host.Config.MemoryLimit = 1 << 20

		also()
	}})

	return func() { host.Config.MemoryLimit = limit }
}

// unstarted has the VM moved cold by a drain that is interrupted and can't start it. The VM comes back all the same:
// the drain has noted the image that it left. The end of the maintenance can't start it either, and leaves no image.
func (c *diskOwner) unstarted(t *testing.T) {
	t.Helper()
	c.l.Virsh(t, c.from.Name, "destroy", c.vm.UUID)

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()

	mend := c.full(c.to, cancel)
	d := drain.Begun(c.fleet.Drainer, drain.Drain{Host: c.from.Name}, hostrecord.RecordedStep{
		Step: evacuation.Step{UUID: c.vm.UUID, Name: c.vm.Name, Method: evacuation.MethodCold, Target: c.to.Name}, Ran: true,
	})

	_, err := d.Try(ctx, 0, evacuation.Rule{Options: c.rule.Options})
	blocked(t, err, migration.InsufficientMemory, c.to.Name)
	onlyOn(t, c.fleet, c.vm.UUID, c.to.Name)
	mend()

	d.Step(0).Result = hostrecord.ResultColdMoved
	maintained(t, c.fleet, c.from, *d.Step(0))

	if err := c.fleet.ChangeRecord(t.Context(), c.fleet.Host(c.from.Name), func(r *hostrecord.Record) error {
		// An earlier end was killed once it had shut the VM down.
		r.Evacuation.Releasing, r.Evacuation.Steps[0].Returning = "m", true

		return nil
	}); err != nil {
		t.Fatal(err)
	}

	mend = c.full(c.from, func() {
		// If the run is killed once the VM is back, the next one knows what the VM left.
		if vm := c.found(t); !slices.Contains(vm.Metadata.LeftVolumes, c.left(t)) {
			t.Errorf("it has %+v, and not what it is about to leave", vm.Metadata.LeftVolumes)
		}
	})
	_, err = c.fleet.Release(t.Context(), c.from.Name, "m", drain.Restore{Wanted: true})
	blocked(t, err, migration.InsufficientMemory, c.from.Name)
	onlyOn(t, c.fleet, c.vm.UUID, c.from.Name)
	mend()

	if c.has(t, c.to) {
		t.Errorf("its image is left on %s", c.to.Name)
	}

	if _, err := c.fleet.Release(t.Context(), c.from.Name, "m", drain.Restore{Wanted: true}); err != nil {
		t.Error(err)
	}

	if got := howStarted(t, c.fleet, c.vm.UUID); got != c.from.Name+" Running Booted" {
		t.Errorf("it is %s, want it started", got)
	}
}

// refused wants that the maintenance can't be ended, because the image at its place there must not be touched.
func (c *diskOwner) refused(t *testing.T, why, says string) {
	t.Helper()

	before, err := os.Stat(c.from.Path(c.image))
	if err != nil {
		t.Fatal(err)
	}

	_, err = c.fleet.Release(t.Context(), c.from.Name, "m", drain.Restore{Wanted: true})
	if !errors.Is(err, migration.ErrBlocked) || !strings.Contains(fmt.Sprint(err), migration.DiskPathTaken) {
		t.Errorf("%s: %v, want %s", why, err, migration.DiskPathTaken)
	}

	if !strings.Contains(fmt.Sprint(err), c.image+": "+says) {
		t.Errorf("%s: %v, want that it is named: %s", why, err, says)
	}

	after, err := os.Stat(c.from.Path(c.image))
	if err != nil || !after.ModTime().Equal(before.ModTime()) || !os.SameFile(before, after) {
		t.Errorf("%s: the image was touched, %v", why, err)
	}

	if got := howStarted(t, c.fleet, c.vm.UUID); got != c.to.Name+" Running Migrated" || !c.has(t, c.to) {
		t.Errorf("%s: it is %s, want it where it was", why, got)
	}

	c.fleet.Host(c.from.Name).Forget()

	if r, err := c.fleet.Record(t.Context(), c.from.Name); err != nil || r.Cordon != nil || !r.Under("m") {
		t.Errorf("%s: recorded %+v, %v; want that it is still to be brought back", why, r, err)
	}
}

// A VM whose disk was copied comes back with the disk as it is by then, by the options of its policy, and can be taken
// away again. The image that was kept makes room for it only as long as it is what was left, and nothing uses it.
func TestLab_restoreCopiesBack(t *testing.T) {
	t.Parallel()

	c := newDiskOwner(t)
	c.write(t, c.from, 17)
	c.drain(t, 90)
	c.back(t, 90)

	// Another VM uses what was left.
	c.drain(t, 91)

	other := c.vm.Name + "-other"
	c.l.Define(t, c.from.Name, fmt.Sprintf(`<domain type="qemu"><name>%s</name><memory unit="MiB">32</memory>
		<os><type arch="x86_64">hvm</type></os><devices><disk type="file"><driver name="qemu" type="qcow2"/>
		<source file="%s"/><target dev="vda" bus="virtio"/></disk></devices></domain>`, other, c.image))
	c.refused(t, "in use", fmt.Sprintf("virtual machine %q has it", other))
	c.l.Virsh(t, c.from.Name, "undefine", other)

	// Or is about to.
	overlay := c.l.Image(t, c.from.Name, c.vm.Name+"-overlay.qcow2", "qcow2", 1<<20)
	c.l.Run(t, c.from.Name, "qemu-img", "rebase", "-u", "-F", "qcow2", "-b", c.image, overlay)
	c.refused(t, "an image is based on it", overlay+" is based on it")

	if err := os.Remove(c.from.Path(overlay)); err != nil {
		t.Fatal(err)
	}

	// It was to be removed, and stays for an image that no VM has: that is said, and it makes room once that is gone.
	removes := c.rule
	removes.Options.KeepSourceDisks = new(false)

	if _, err := c.fleet.EvictionPolicies().Put(t.Context(), removes); err != nil {
		t.Fatal(err)
	}

	c.back(t, 91)

	stray := c.l.Image(t, c.from.Name, c.vm.Name+"-stray.qcow2", "qcow2", 1<<20)
	c.l.Run(t, c.from.Name, "qemu-img", "rebase", "-u", "-F", "qcow2", "-b", c.image, stray)

	if s := c.drain(t, 91); len(s.Stay) != 1 || !strings.Contains(s.Reason, stray+" is based on it") {
		t.Errorf("its image stays for another one: %+v", s)
	}

	c.refused(t, "kept for an image", stray+" is based on it")

	if err := os.Remove(c.from.Path(stray)); err != nil {
		t.Fatal(err)
	}

	// The policy is gone by then.
	if _, err := c.fleet.EvictionPolicies().Remove(t.Context(), c.rule.ID); err != nil {
		t.Fatal(err)
	}

	c.back(t, 91)

	if _, err := c.fleet.EvictionPolicies().Put(t.Context(), c.rule); err != nil {
		t.Fatal(err)
	}

	// It is not what was left any more.
	c.drain(t, 92)
	c.l.Run(t, c.from.Name, "qemu-io", "-c", "write -P 3 0 512", c.image)
	c.refused(t, "written to", "it was changed")

	if err := os.Remove(c.from.Path(c.image)); err != nil {
		t.Fatal(err)
	}

	c.back(t, 92)
	c.killed(t, 93)
	c.unstarted(t)

	if _, err := c.fleet.EvictionPolicies().Remove(t.Context(), c.rule.ID); err != nil {
		t.Fatal(err)
	}

	if _, err := c.fleet.Host(c.from.Name).Conn.OwnSecret(t.Context(), inventory.RecordUsage); !inventory.IsNotFound(err) {
		t.Errorf("the record is left: %v", err)
	}
}
