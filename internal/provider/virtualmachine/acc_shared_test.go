package virtualmachine_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccVirtualMachine_sharedDisk: a disk that the hosts share without libvirt's knowing keeps its VM where it is
// until that is said, which counts from the very apply that moves it.
func TestAccVirtualMachine_sharedDisk(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	tf := acctest.NewCLI(t)
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	file := filepath.Join(t.TempDir(), "disk") // What isn't libvirt's own is the same on all hosts of the lab.
	l.Run(t, "kvm1", "qemu-img", "create", "-q", "-f", "raw", file, "16M")
	settings := ""
	config := func(host, shared string) {
		tf.Config(t, providerBlock(l, settings)+idleVM(l, name).with(hcl{
			"host": quote(host), "disks": fmt.Sprintf(`{ root = { file = %q, cache = "none", %s } }`, file, shared),
		}).String())
	}
	is := func(host, kvm1, kvm2, kept string) {
		t.Helper()
		if err := onHosts(t, l, name, kvm1, kvm2)(nil); err != nil {
			t.Error(err)
		}
		record := l.Virsh(t, host, "metadata", name, "urn:virtfleet:1", "--config")
		if strings.Contains(record, "shared-disks") != (kept != "") || !strings.Contains(record, kept) {
			t.Errorf("recorded is %s, want %q", record, kept)
		}
	}
	config("kvm1", "")
	tf.Run(t, "apply")

	const doubt = "whether host \"kvm2\" has it is unknown"
	config("kvm2", "")
	expect(t, tf.Run(t, "plan"), doubt)
	expect(t, tf.Fail(t, "apply"), "Unsafe migration", "Host: kvm1", "disks.<key>.shared = true")
	is("kvm1", "running", "", "")

	const declared = `<disk key="root"/>`
	config("kvm2", "shared = true")
	if out := tf.Run(t, "plan"); strings.Contains(out, doubt) {
		t.Errorf("the plan doubts what it is told: %s", out)
	}
	tf.Run(t, "apply")
	is("kvm2", "", "running", declared)
	noChanges(t, tf)

	config("kvm1", "shared = true")
	tf.Run(t, "apply")
	is("kvm1", "running", "", declared)

	config("kvm1", "")
	tf.Run(t, "apply")
	is("kvm1", "running", "", "")
	noChanges(t, tf)

	// The provider may say it of a whole directory.
	settings = fmt.Sprintf("migration_options = { shared_filesystems = [%q] }", filepath.Dir(file))
	config("kvm2", "")
	tf.Run(t, "apply")
	is("kvm2", "", "running", "")
	destroyAndCheck(t, l, tf, name)
}

// TestAccVirtualMachine_shareableDisk: a VM that is off doesn't leave a disk behind that several VMs may write to. The
// disk isn't copied either, so the VM moves only to a host that has the same file.
func TestAccVirtualMachine_shareableDisk(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	tf := acctest.NewCLI(t)
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	apart := l.Image(t, "kvm1", name, "raw", 1<<20)
	same := filepath.Join(t.TempDir(), "disk") // What isn't libvirt's own is the same on all hosts of the lab.
	l.Run(t, "kvm1", "qemu-img", "create", "-q", "-f", "raw", same, "1M")
	config := func(host, file string) {
		tf.Config(t, providerBlock(l, "")+idleVM(l, name).with(hcl{
			"host": quote(host), "run_strategy": quote("Halted"),
			"disks": fmt.Sprintf(`{ quorum = { file = %q, format = "raw", shareable = true } }`, file),
		}).String())
	}
	config("kvm1", apart)
	tf.Run(t, "apply")
	config("kvm2", apart)
	expect(t, tf.Fail(t, "apply"), `disk "quorum"`, "is shareable", "disks.quorum.shareable")
	if err := onHosts(t, l, name, "shut off", "")(nil); err != nil {
		t.Error(err)
	}
	config("kvm1", same)
	tf.Run(t, "apply")
	config("kvm2", same)
	tf.Run(t, "apply")
	if err := onHosts(t, l, name, "", "shut off")(nil); err != nil {
		t.Error(err)
	}
	noChanges(t, tf)
	destroyAndCheck(t, l, tf, name)
}
