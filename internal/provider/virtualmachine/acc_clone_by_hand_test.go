package virtualmachine_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccVirtualMachine_clonedByHand: a VM that a user made from the definition of another one has its metadata, too.
// The disks and the medium recorded there are the original's: destroying the clone leaves them, even while the original
// is undefined, and leaves the clone's own files.
func TestAccVirtualMachine_clonedByHand(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	clone := name + "-clone"
	l.RemoveDomain(t, name)
	l.RemoveDomain(t, clone)
	halted := hcl{"host": quote("kvm1"), "run_strategy": quote("Halted")}
	original, second := acctest.NewCLI(t), acctest.NewCLI(t)
	original.Config(t, acctest.OneHost(l)+fmt.Sprintf(
		"resource \"virtfleet_storage_pool\" \"vms\" {\n  name = %q\n  type = \"dir\"\n  target = { path = %q }\n}\n",
		name, "/var/lib/libvirt/"+name)+idleVM(l, name).with(halted).with(hcl{
		"disks":      `{ root = { pool = virtfleet_storage_pool.vms.name, size = "1Mi" } }`,
		"cloud_init": `{ user_data = "#cloud-config\n" }`,
	}).String())
	original.Run(t, "apply")
	has := volumes(t, l, "kvm1", name)
	id := strings.TrimSpace(l.Virsh(t, "kvm1", "domuuid", name))
	state, _ := original.State(t, address)
	root := fmt.Sprint(acctest.ValueAt(state, "disks.root.path"))
	cloned := "/var/lib/libvirt/" + clone + ".qcow2"
	l.Run(t, "kvm1", "cp", root, cloned)
	t.Cleanup(func() { l.Run(t, "kvm1", "rm", "-f", cloned) })

	definition := l.Virsh(t, "kvm1", "dumpxml", name)
	l.Virsh(t, "kvm1", "define", writeDeviceXML(t, strings.NewReplacer(
		"<name>"+name+"<", "<name>"+clone+"<", "<uuid>"+id, "<uuid>"+uuid.NewString(),
		"<source file='"+root+"'", "<source file='"+cloned+"'",
	).Replace(definition)))
	declared := idleVM(l, clone).with(halted).with(hcl{"disks": fmt.Sprintf("{ root = { file = %q } }", cloned)})
	second.Config(t, acctest.OneHost(l)+declared.String())
	second.Run(t, "import", address, clone)
	l.Virsh(t, "kvm1", "undefine", name)
	if out := second.Run(t, "plan", "-destroy"); strings.Contains(out, root) {
		t.Errorf("the plan names the original's disk: %s", out)
	}
	destroyAndCheck(t, l, second, clone)
	if left := volumes(t, l, "kvm1", name); !slices.Equal(left, has) {
		t.Errorf("the original's storage pool has %q; want %q", left, has)
	}
	l.Run(t, "kvm1", "test", "-e", cloned)

	l.Virsh(t, "kvm1", "define", writeDeviceXML(t, definition))
	noChanges(t, original)
	destroyAndCheck(t, l, original, name)
}
