package fleet

import (
	"fmt"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/records"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

// What a killed move left on a host is removed by the next move, also if that goes to another host. If the host doesn't
// answer then, it is removed before the VM moves there at last.
func TestLab_nextMoveGoesToAThirdHost(t *testing.T) {
	t.Parallel()

	for name, tt := range map[string]struct{ live, silent bool }{
		"off": {}, "off, it does not answer": {silent: true}, "running, it does not answer": {live: true, silent: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			l := lab.Open(t)
			target := l.StartHost(t)
			f := labFleet(t, l, t.Name(), nil)
			dir := directory(t, l, "kvm1", "kvm2", target.Name)

			var (
				vm   *inventory.VM
				file string
			)

			if tt.live {
				d := light(t, l, lab.Name(t), nil)
				d.Metadata.Host = "kvm1"
				vm, file = create(t, f, l, d), dir+"/copy"
			} else {
				vm, file = resting(t, f, l, dir, 1, nil)
			}

			interrupted(t, l, vm, target, file)

			restart := func() {}
			if tt.silent {
				restart = l.KillLibvirtd(t, target)
			} else {
				updated(t, l, vm)
			}

			now, _, err := f.Move(t.Context(), vm.UUID, lastOf(vm), "kvm2", migration.Options{})
			if err != nil || now.Host != "kvm2" || now.Active != tt.live || tt.silent != (len(now.Metadata.Copies) > 0) {
				t.Fatalf("moved to a third host: %+v, %v", now, err)
			}

			restart()

			if !tt.silent {
				nothingOn(t, l, target.Name, file)
			}

			f.ForgetAll()

			now, _, err = f.Move(t.Context(), vm.UUID, lastOf(now), target.Name, migration.Options{})
			if err != nil || now.Host != target.Name || now.Active != tt.live || len(now.Metadata.Copies) > 0 {
				t.Fatalf("moved where the copy was: %+v, %v", now, err)
			}

			onlyOn(t, f, vm.UUID, target.Name)

			if tt.live {
				nothingOn(t, l, target.Name, file)
			}
		})
	}
}

// What a killed move left on a host stays there if a VM that is off has a disk that is based on it since: the next move
// goes to another host, and removes only what nothing uses.
func TestLab_copyThatIsABaseStays(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	target := l.StartHost(t)
	f := labFleet(t, l, t.Name(), nil)
	dir := directory(t, l, "kvm1", "kvm2", target.Name)
	vm, file := resting(t, f, l, dir, 1, nil)
	other := dir + "/other.qcow2"

	interrupted(t, l, vm, target, file)

	found, err := f.FindNow(t.Context(), vm.UUID, lastOf(vm))
	if err != nil {
		t.Fatal(err)
	}

	m := found.Metadata
	unused := m.Copies[0]
	unused.Path = other
	m.Copies = []domain.Copy{m.Copies[0], unused}

	if _, err := records.WriteMetadata(t.Context(), found, m); err != nil {
		t.Fatal(err)
	}

	clone := dir + "/clones/disk.qcow2"
	l.Run(t, target.Name, "sh", "-ec", fmt.Sprintf(`mkdir %[1]s/clones; qemu-img create -q -f qcow2 %[2]s 1M
		qemu-img create -q -f qcow2 -b %[2]s -F qcow2 %[3]s; echo half of it >%[4]s`, dir, file, clone, other))
	l.Define(t, target.Name, fmt.Sprintf(`<domain type="qemu"><name>%s</name><memory>65536</memory>
		<os><type arch="x86_64" machine="q35">hvm</type></os><devices><disk type="file"><driver name="qemu" type="qcow2"/>
		<source file="%s"/><target dev="vda"/></disk></devices></domain>`, vm.Name+"-clone", clone))
	f.ForgetAll()

	now, _, err := f.Move(t.Context(), vm.UUID, lastOf(vm), "kvm2", migration.Options{})
	if err != nil || now.Host != "kvm2" {
		t.Fatalf("%+v, %v", now, err)
	}

	l.Run(t, target.Name, "qemu-img", "check", "-q", clone)
	l.Run(t, target.Name, "test", "-e", file)
	nothingOn(t, l, target.Name, other)
}
