package virtualmachine_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccVirtualMachine_cloudInitAndASilentPool: a cloud-init medium is replaced while a storage pool that the VM
// doesn't use is silent. What may use the old medium is unknown, so that it stays. The apply says so, the next plan
// shows it, and its apply removes it.
func TestAccVirtualMachine_cloudInitAndASilentPool(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	h, tf, name := l.StartHost(t), acctest.NewCLI(t), lab.Name(t)
	at, silent := "/var/lib/libvirt/"+name, name+"-silent"
	for _, pool := range []string{name, silent} {
		l.Virsh(t, h.Name, "pool-define-as", pool, "dir", "--target", "/var/lib/libvirt/"+pool)
		l.Virsh(t, h.Name, "pool-build", pool)
		l.Virsh(t, h.Name, "pool-start", pool)
		l.Virsh(t, h.Name, "vol-create-as", pool, "other", "1M")
	}
	declare := func(userData string) {
		tf.Config(t, acctest.Block{Lab: l, Hosts: []acctest.Host{{Of: h}}}.String()+idleVM(l, name).with(hcl{
			"host": quote(h.Name), "run_strategy": quote("Halted"),
			"cloud_init": fmt.Sprintf("{ pool = %q, user_data = %q }", name, "#cloud-config\nlocale: "+userData+"\n"),
		}).String())
	}
	files := func() []string { return strings.Fields(l.Run(t, h.Name, "ls", at)) }
	declare("one")
	tf.Run(t, "apply")
	if got := files(); len(got) != 2 {
		t.Fatalf("the pool has %q", got)
	}
	old := files()[0]

	answer := h.SilenceDirectory(t, at+"-silent")
	declare("two")
	expect(t, tf.Run(t, "apply"), "Disks of the virtual machine are kept", "the cloud-init medium", old, silent,
		"doesn't answer", "The next run tries again")
	answer()
	if got := files(); len(got) != 3 || got[0] != old {
		t.Errorf("the pool has %q", got)
	}

	expect(t, tf.Run(t, "plan"), "left_volumes", `- "`+h.Name+": "+name+"/"+old)
	tf.Run(t, "apply")
	noChanges(t, tf)
	xml := l.Virsh(t, h.Name, "dumpxml", name)
	if got := files(); len(got) != 2 || got[0] == old || !strings.Contains(xml, at+"/"+got[0]) {
		t.Errorf("the pool has %q, the VM\n%s", got, xml)
	}
	destroyAndCheck(t, l, tf, name)
	if got := files(); len(got) != 1 {
		t.Errorf("after destroy, the pool has %q", got)
	}
}
