package fleet

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/placement"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

// tells fails the test unless an error names all of it.
func tells(t *testing.T, what string, err, kind error, parts ...string) {
	t.Helper()

	if !errors.Is(err, kind) {
		t.Errorf("%s: %v, want %v", what, err, kind)

		return
	}

	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%s: %q is not in %v", what, part, err)
		}
	}
}

// Two VMs on one export, or of one name, are told in the plan, at every start and at every move, by the names of both.
func TestLab_diskHasOneWriter(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	f := labFleet(t, l, t.Name(), nil)
	first := mover(t, l, "noagent")
	vm := create(t, f, l, first)
	second := first
	second.Spec.Name = vm.Name + "-b"
	second.Metadata.Host = "kvm2"
	l.RemoveDomain(t, second.Spec.Name)

	f.ForgetAll()

	problems, err := f.CheckCreate(t.Context(), second)
	if err != nil || !slices.ContainsFunc(problems, func(p inventory.Problem) bool {
		return !p.Warning && strings.Contains(p.Detail, vm.Name) && strings.Contains(p.Detail, `"kvm1"`)
	}) {
		t.Errorf("planning a second one: %+v, %v", problems, err)
	}

	parts := []string{second.Spec.Name, fmt.Sprintf("VM %q", vm.Name), `host "kvm1"`, `host "kvm2"`, `disk "root"`}

	_, err = f.Create(t.Context(), second)
	tells(t, "creating a second one", err, placement.ErrShared, parts...)

	// Off, it may be defined. Started by hand, both are told, whatever changed.
	second.Metadata.RunStrategy = "Halted"
	other := create(t, f, l, second)

	if err := f.VerifyExclusive(t.Context(), vm.UUID, first); err != nil {
		t.Errorf("next to one that is off: %v", err)
	}

	second.Metadata.RunStrategy = "Always"
	_, err = f.Update(t.Context(), other.UUID, lastOf(other), second)
	tells(t, "starting the second one", err, placement.ErrShared, parts...)
	l.Virsh(t, "kvm2", "autostart", other.UUID)
	f.ForgetAll()
	tells(t, "next to one that starts at boot", f.VerifyExclusive(t.Context(), vm.UUID, first),
		placement.ErrShared, "boots")
	l.Virsh(t, "kvm2", "start", other.UUID)
	f.ForgetAll()
	tells(t, "next to one that runs", f.VerifyExclusive(t.Context(), vm.UUID, first),
		placement.ErrShared, other.UUID, vm.Name)
	tells(t, "the second one", f.VerifyExclusive(t.Context(), other.UUID, second), placement.ErrShared, vm.UUID)

	blockers, err := f.ClaimBlockers(t.Context(), vm, f.Host("kvm2"), false)
	if err != nil || len(blockers) != 1 || !strings.Contains(blockers[0].Message, other.UUID) {
		t.Errorf("moving: %+v, %v", blockers, err)
	}

	l.Virsh(t, "kvm2", "destroy", other.UUID)
	l.Virsh(t, "kvm2", "undefine", other.UUID)

	// One of its name that a host brings back.
	l.Define(t, "kvm2", fmt.Sprintf("<domain type='qemu'><name>%s</name><memory>1024</memory><os>"+
		"<type machine='q35'>hvm</type></os></domain>", vm.Name))
	l.Virsh(t, "kvm2", "autostart", vm.Name)
	f.ForgetAll()
	tells(t, "next to one of its name", f.VerifyExclusive(t.Context(), vm.UUID, first), placement.ErrShared,
		"two VMs have this name", vm.UUID)
}

// A host was given up, and its VM created again elsewhere. When it is back the old one still runs there: the plan names
// both, and one of them can be deleted.
func TestLab_fencedHostComesBack(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	f := labFleet(t, l, t.Name(), nil)
	d := mover(t, l, "noagent")
	old := create(t, f, l, d)

	fenced := labFleet(t, l, t.Name(), func(name string, hc *inventory.HostConfig) { hc.Fenced = name == old.Host })
	d.Metadata.Host = "kvm2"

	anew, err := fenced.Create(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}

	if err := fenced.FinishCreate(t.Context(), anew); err != nil {
		t.Fatal(err)
	}

	if err := fenced.VerifyExclusive(t.Context(), anew.UUID, d); err != nil {
		t.Errorf("as long as the host is given up: %v", err)
	}

	f.ForgetAll()
	tells(t, "when it is back", f.VerifyExclusive(t.Context(), anew.UUID, d),
		placement.ErrShared, "two VMs have this name", old.UUID, anew.UUID, `host "kvm1"`, `host "kvm2"`, `disk "root"`)

	if _, err := f.Delete(t.Context(), anew.UUID, lastOf(anew), 0); err != nil {
		t.Errorf("deleting one of them: %v", err)
	}

	f.ForgetAll()

	if err := f.VerifyExclusive(t.Context(), old.UUID, d); err != nil {
		t.Errorf("after the other one was deleted: %v", err)
	}
}

// Of two definitions with disks of their own, none is started or removed on a guess; the one that was written later is
// the VM.
func TestLab_definitionIsNotGuessed(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	f := labFleet(t, l, t.Name(), nil)
	d := guest(l, lab.Name(t), "noagent")
	d.Metadata.Host, d.Metadata.RunStrategy = "kvm1", "Manual"
	d.Spec.Disks = map[string]domain.Disk{"root": {
		Source: domain.DiskSource{File: l.Image(t, "kvm1", d.Spec.Name+".raw", "raw", 1<<20)}, Format: "raw",
	}}
	vm := create(t, f, l, d)
	l.Define(t, "kvm2", l.Virsh(t, "kvm1", "dumpxml", "--inactive", "--security-info", vm.UUID))

	d.Metadata.RunStrategy = "Always"
	_, err := f.Update(t.Context(), vm.UUID, lastOf(vm), d)
	tells(t, "two that are the same", err, inventory.ErrAmbiguous, `"kvm1"`, `"kvm2"`, "generation",
		d.Spec.Disks["root"].Source.File)

	if e := (*inventory.Error)(nil); !errors.As(err, &e) || !strings.Contains(e.Remedy, "virsh undefine") {
		t.Errorf("it doesn't say what to do: %v", err)
	}

	for _, host := range []string{"kvm1", "kvm2"} {
		if state := l.Virsh(t, host, "domstate", vm.UUID); !strings.Contains(state, "shut off") {
			t.Errorf("on %s it is %s", host, state)
		}
	}

	old := l.Virsh(t, "kvm2", "dumpxml", "--inactive", "--security-info", vm.UUID)
	l.Virsh(t, "kvm2", "undefine", vm.UUID)

	d.Metadata.RunStrategy, d.Metadata.Labels = "Manual", map[string]string{"a": "b"}
	if _, err := f.Update(t.Context(), vm.UUID, lastOf(vm), d); err != nil {
		t.Fatal(err)
	}

	// Even where the state says otherwise.
	l.Define(t, "kvm2", old)

	now, err := f.Update(t.Context(), vm.UUID, inventory.LastKnown{Host: "kvm2"}, d)
	if err != nil || now.Host != "kvm1" {
		t.Fatalf("%+v, %v", now, err)
	}

	onlyOn(t, f, vm.UUID, "kvm1")

	// What runs from the older one is not what was left.
	l.Define(t, "kvm2", strings.ReplaceAll(old, "kvm1", "kvm2"))
	l.Virsh(t, "kvm1", "dominfo", vm.UUID)
	l.Image(t, "kvm2", d.Spec.Name+".raw", "raw", 1<<20)
	l.Virsh(t, "kvm2", "start", vm.UUID)

	_, err = f.Update(t.Context(), vm.UUID, lastOf(vm), d)
	tells(t, "an old one that runs", err, inventory.ErrAmbiguous, "changed elsewhere", `"kvm1"`, `"kvm2"`)
}
