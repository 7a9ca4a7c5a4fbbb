package virtualmachine_test

import (
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccVirtualMachine_hostWithoutLocks: nothing is changed on a host whose libvirt has no secret driver, which keeps
// the locks. The error says what to install.
func TestAccVirtualMachine_hostWithoutLocks(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	tf, name, own := acctest.NewCLI(t), lab.Name(t), l.StartHost(t)
	config := func(app string) {
		t.Helper()
		tf.Config(t, acctest.Block{Lab: l, Hosts: []acctest.Host{{Of: own}}}.String()+
			idleVM(l, name).with(hcl{"run_strategy": quote("Halted"), "labels": `{ app = "` + app + `" }`}).String())
	}
	config("web")
	tf.Run(t, "apply")

	restart := l.KillLibvirtd(t, own)
	l.Run(t, own.Name, "sh", "-ec", `drivers=$(echo /usr/lib/*/libvirt/connection-driver)
		cp -r $drivers /run/drivers && rm /run/drivers/libvirt_driver_secret.so && mount --bind /run/drivers $drivers`)
	restart()
	config("db")
	expect(t, tf.Fail(t, "apply"), "has no secret driver", "Host: "+own.Name, "libvirt-daemon-driver-secret")
	if err := contains(l.Virsh(t, own.Name, "metadata", name, "urn:virtfleet:1"), "web"); err != nil {
		t.Errorf("changed without a lock: %v", err)
	}

	// Such a host has no record of where a VM was moved to: a VM that it lost is gone, and would be created.
	kept := l.Virsh(t, own.Name, "dumpxml", "--inactive", name)
	l.Virsh(t, own.Name, "undefine", name)
	expect(t, tf.Fail(t, "plan"), "No host can take the VM", "has no secret driver")
	l.Run(t, own.Name, "sh", "-ec", "cat >/run/kept.xml <<'END'\n"+kept+"\nEND")
	l.Virsh(t, own.Name, "define", "/run/kept.xml")

	restart = l.KillLibvirtd(t, own)
	l.Run(t, own.Name, "sh", "-ec", "umount /usr/lib/*/libvirt/connection-driver")
	restart()
	tf.Run(t, "apply")
	if out, empty := tf.Empty(t); !empty {
		t.Errorf("left to do:\n%s", out)
	}
	tf.Run(t, "destroy")
	if l.Has(t, own.Name, "list", name) {
		t.Error("it is left")
	}
}
