package fleet

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/fleettest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/placement"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// A VM that was moved without its definition, or undefined while it runs, is defined where it runs before anything that
// it left behind is removed, with what was staged for its next start.
func TestLab_updateDefinesWhatBecameTransient(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	f := labFleet(t, l, t.Name(), nil)
	d := mover(t, l, "noagent")
	d.Metadata.Host = "kvm1" // For a start: which host is picked depends on what the others have.
	d.GraphicsPassword = new("secret12")
	vm := create(t, f, l, d)
	d.Metadata.Host, d.GraphicsPassword = "", nil

	stage := d
	stage.UpdatePolicy = placement.PolicyStage
	stage.Spec.CPU.Model = new("Westmere")
	stage.Spec.CPU.Mode = new("custom")

	if _, err := f.Update(t.Context(), vm.UUID, lastOf(vm), stage); err != nil {
		t.Fatal(err)
	}

	from, to := vm.On, f.Host("kvm2")

	if err := from.Conn.Migrate(t.Context(), vm.UUID, to.Conn, libvirt.Migration{
		Transient: true, KeepSource: true,
	}); err != nil {
		t.Fatal(err)
	}

	now, err := f.FindNow(t.Context(), vm.UUID, lastOf(vm))
	if err != nil || now.On != to || now.Persistent || len(now.StaleHosts) != 1 {
		t.Fatalf("%+v, %v; want it to run on %s without a definition", now, err, to.Name)
	}

	defined := func(what string) {
		t.Helper()

		if now, err = f.Update(t.Context(), vm.UUID, lastOf(now), stage); err != nil {
			t.Fatalf("%s: %v", what, err)
		}

		if out := l.Virsh(t, to.Name, "dominfo", vm.UUID); !strings.Contains(out, "Persistent:     yes") ||
			!strings.Contains(out, "State:          running") || !now.Persistent || !now.Autostart {
			t.Fatalf("%s: %+v\n%s", what, now, out)
		}

		onlyOn(t, f, vm.UUID, to.Name)

		next := l.Virsh(t, to.Name, "dumpxml", "--inactive", "--security-info", vm.UUID)
		if !strings.Contains(next, "Westmere") || !strings.Contains(next, "passwd='secret12'") {
			t.Errorf("%s: the next start gives\n%s", what, next)
		}
	}

	defined("moved without its definition")
	l.Virsh(t, to.Name, "undefine", vm.UUID)
	defined("undefined while it runs")

	// Pinned back to where its definition is, it keeps one on every step.
	l.Virsh(t, to.Name, "undefine", vm.UUID)
	l.Define(t, from.Name, l.Virsh(t, to.Name, "dumpxml", "--inactive", "--migratable", vm.UUID))

	if now, _, err = f.Move(t.Context(), vm.UUID, lastOf(now), from.Name, migration.Options{}); err != nil {
		t.Fatal(err)
	}

	if !now.Persistent || now.On != from {
		t.Errorf("moved back: %+v", now)
	}

	// What was taken over without a definition stays so.
	l.Virsh(t, from.Name, "undefine", vm.UUID)

	stage.Transient = true
	if now, err = f.Update(t.Context(), vm.UUID, lastOf(now), stage); err != nil && !errors.Is(err, ErrRestartRequired) {
		t.Fatal(err)
	}

	if out := l.Virsh(t, from.Name, "dominfo", vm.UUID); !strings.Contains(out, "Persistent:     no") {
		t.Errorf("transient by choice:\n%s", out)
	}
}

// The sources that are recorded of a transient VM's disks are those that it has after the update.
func TestLab_updateRecordsTheDisksOfATransientVM(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	f := labFleet(t, l, t.Name(), nil)
	d := guest(l, lab.Name(t), "noagent")
	d.Metadata.Host = "kvm1"
	vm := create(t, f, l, d)
	file := l.Image(t, "kvm1", lab.Name(t)+"-data", "raw", 1<<20)

	l.Virsh(t, "kvm1", "undefine", vm.UUID)

	d.Transient = true

	d.Spec.Disks = map[string]domain.Disk{"data": {Source: domain.DiskSource{File: file}}}

	now, err := f.Update(t.Context(), vm.UUID, lastOf(vm), d)
	if err != nil {
		t.Fatal(err)
	}

	if recorded := now.Metadata.Applied; now.Persistent || recorded["data"] != file {
		t.Errorf("it is persistent: %v, recorded are %v; want %s", now.Persistent, recorded, file)
	}

	// A disk of its own that the host refuses to plug in leaves neither a volume nor a record.
	d.OwnDisks = map[string]domain.OwnDisk{"own": {Pool: "default", Bytes: 1 << 20}}
	d.Spec.Disks["own"] = domain.Disk{
		Source: domain.DiskSource{File: "/to/be/made"}, Values: domain.Values{"queues": "100000"},
	}

	now, err = f.Update(t.Context(), vm.UUID, lastOf(now), d)
	if err == nil || now == nil || len(now.Metadata.OwnDisks) > 0 {
		t.Errorf("refused: %+v, %v; want no record", now, err)
	}

	if has := l.Virsh(t, "kvm1", "vol-list", "default"); strings.Contains(has, vm.Name+"-own") {
		t.Errorf("it is refused, and its volume stays:\n%s", has)
	}
}

// A guest boots with all memory that is installed, and gives back later what is beyond the VM's size. An update that
// starts it waits for that: the memory wasn't changed. On a busy computer the guest may take longer to boot than the
// update waits, which the update then says: it is tried again.
func TestLab_startAwaitsTheBalloon(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	f := labFleet(t, l, t.Name(), nil)
	d := guest(l, lab.Name(t), "noagent")
	d.Metadata.Host = "kvm1"
	vm := create(t, f, l, d)

	l.Virsh(t, "kvm1", "setmaxmem", vm.UUID, "256M", "--config")

	for begin := time.Now(); ; {
		l.Virsh(t, "kvm1", "destroy", vm.UUID)

		var gaveUp bool

		listen(f, &onLog{Message: "the guest keeps memory beyond the VM's size", Do: func() { gaveUp = true }})

		now, err := f.Update(t.Context(), vm.UUID, lastOf(vm), d)
		if err != nil {
			t.Fatal(err)
		}

		size, defined := *now.LiveSpec.Memory.Size, *now.PersistentSpec.Memory.Size
		installed := *now.PersistentSpec.Memory.Installed

		switch {
		case size != defined && gaveUp && time.Since(begin) < fleettest.Patience:
			continue
		case size != defined || installed != 256<<20:
			t.Errorf("the guest has %d bytes, its definition says %d of %d; the update gave up: %v", size, defined, installed,
				gaveUp)
		}

		return
	}
}
