package fleet

import (
	"errors"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/placement"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

// copiedAndDefined leaves behind what a cold move does that is killed when the target has all files and the definition.
// The VM was shut down on kvm1 by then. It returns what an update wants that starts the VM where it is.
func copiedAndDefined(
	t *testing.T, f *Fleet, l *lab.Lab, target *lab.Host,
) (vm *inventory.VM, file string, want placement.Desired) {
	t.Helper()

	dir := directory(t, l, "kvm1", target.Name)
	vm, file = resting(t, f, l, dir, 1, func(d *placement.Desired) {
		d.Spec.Kernel = nil // Its firmware finds nothing to boot.
		want = *d
	})
	want.Metadata.Host, want.Metadata.RunStrategy = "", "Always"

	l.Virsh(t, "kvm1", "start", vm.UUID)
	l.Virsh(t, "kvm1", "destroy", vm.UUID)
	interrupted(t, l, vm, target, file)
	l.Run(t, target.Name, "qemu-img", "create", "-q", "-f", "qcow2", file, "256M")
	l.Define(t, target.Name, l.Virsh(t, "kvm1", "dumpxml", "--inactive", vm.UUID))
	f.ForgetAll()

	return vm, file, want
}

// Of two VMs that a killed move left, the copy may have what its guest wrote since. Whether libvirt knows that it ran
// or has forgotten it, the copy is neither taken for stale nor touched, and the other one isn't started: a person
// decides. The plan says so.
func TestLab_copyThatMayHaveRunStays(t *testing.T) {
	t.Parallel()

	for name, ran := range map[string]bool{"the copy ran": true, "libvirt has forgotten whether it ran": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			l := lab.Open(t)
			target := l.StartHost(t)
			f := labFleet(t, l, t.Name(), nil)
			vm, file, want := copiedAndDefined(t, f, l, target)

			if ran {
				l.Virsh(t, target.Name, "start", vm.UUID)
				l.Virsh(t, target.Name, "destroy", vm.UUID)
				f.ForgetAll()
			}

			l.Run(t, target.Name, "qemu-io", "-f", "qcow2", "-c", "write -q -P 7 0 64k", file) // For its guest.

			refused := func(what string, err error) {
				t.Helper()

				why, ok := errors.AsType[*inventory.Error](err)
				if !ok || !errors.Is(err, inventory.ErrAmbiguous) {
					t.Errorf("%s: %v; want it refused", what, err)

					return
				}

				for _, part := range []string{
					`host "kvm1": Shutoff`, `host "` + target.Name + `": Shutoff`, "virsh undefine", vm.UUID,
				} {
					if !strings.Contains(why.Detail+why.Remedy, part) {
						t.Errorf("%s: %+v; want %q", what, why, part)
					}
				}

				f.ForgetAll()
			}

			_, err := f.CheckUpdate(t.Context(), vm.UUID, lastOf(vm), want)
			refused("planned", err)

			_, err = f.Update(t.Context(), vm.UUID, lastOf(vm), want)
			refused("updated", err)

			_, _, err = f.Move(t.Context(), vm.UUID, lastOf(vm), "kvm2", migration.Options{})
			refused("moved to a third host", err)

			for _, host := range []string{"kvm1", target.Name} {
				if state := l.Virsh(t, host, "domstate", vm.UUID); !strings.Contains(state, "shut off") {
					t.Errorf("on %s it is %s", host, state)
				}
			}

			l.Run(t, target.Name, "qemu-io", "-f", "qcow2", "-c", "read -q -P 7 0 64k", file)

			// A person has seen that the copy counts.
			l.Virsh(t, "kvm1", "undefine", vm.UUID)
			f.ForgetAll()

			now, err := f.Update(t.Context(), vm.UUID, inventory.LastKnown{Host: "kvm1", HostUUID: vm.HostUUID}, want)
			if err != nil || now.Host != target.Name || !now.Active {
				t.Errorf("once a person has decided: %+v, %v", now, err)
			}

			onlyOn(t, f, vm.UUID, target.Name)
			l.Virsh(t, target.Name, "destroy", vm.UUID)
			l.Run(t, target.Name, "qemu-io", "-f", "qcow2", "-c", "read -q -P 7 0 64k", file)
		})
	}
}
