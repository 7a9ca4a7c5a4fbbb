package fleet

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

// A create asks each host for its name once, after it has defined the VM: before, the shared reading tells. A VM of
// that name that came to another host, or to the same one, since the reading is found all the same, and nothing of the
// new one is left.
func TestLab_createAsksForItsNameOnce(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	f := labFleet(t, l, t.Name(), nil)
	d := light(t, l, "one", nil)
	d.Metadata.Host, d.Metadata.RunStrategy = "kvm1", "Halted"

	if problems, err := f.CheckCreate(t.Context(), d); err != nil || len(problems) > 0 {
		t.Fatalf("planned %+v, %v", problems, err)
	}

	asked := func(host string) int { return f.Calls()[host]["virDomainLookupByName"] }
	before := asked("kvm2")
	vm := create(t, f, l, d)

	if n := asked("kvm2") - before; n != 1 {
		t.Errorf("kvm2 was asked %d times for the name; want once", n)
	}

	for _, host := range []string{"kvm1", "kvm2"} {
		d.Spec.Name = lab.Name(t) + "-" + host
		l.RemoveDomain(t, d.Spec.Name)
		l.Define(t, host, `<domain type="qemu"><name>`+d.Spec.Name+`</name><uuid>`+uuid.NewString()+`</uuid>
			<memory>1024</memory><os><type>hvm</type></os></domain>`)

		other, err := f.Create(t.Context(), d)
		if !errors.Is(err, inventory.ErrExists) || other != nil || existingID(err) == "" {
			t.Errorf("with one on %s: %+v, %v", host, other, err)
		}

		for _, on := range []string{"kvm1", "kvm2"} {
			if out := l.Virsh(t, on, "list", "--all", "--name"); strings.Contains(out, d.Spec.Name) != (on == host) {
				t.Errorf("with one on %s, host %s has %s", host, on, out)
			}
		}
	}

	// Nor does a VM get a name that two others have, which libvirt would accept on a host that has none of them.
	d.Spec.Name = lab.Name(t) + "-twice"
	l.RemoveDomain(t, d.Spec.Name)

	for _, host := range []string{"kvm2", "kvm3"} {
		l.Define(t, host, `<domain type="qemu"><name>`+d.Spec.Name+`</name><uuid>`+uuid.NewString()+`</uuid>
			<memory>1024</memory><os><type>hvm</type></os></domain>`)
	}

	f.ForgetAll()

	problems, err := f.CheckUpdate(t.Context(), vm.UUID, lastOf(vm), d)
	if err != nil || len(problems) != 1 || problems[0].Attribute != "name" || problems[0].Warning {
		t.Errorf("planned a name that two have: %+v, %v", problems, err)
	}

	if _, err := f.Update(t.Context(), vm.UUID, lastOf(vm), d); !errors.Is(err, inventory.ErrExists) {
		t.Errorf("renamed to a name that two have: %v", err)
	}
}
