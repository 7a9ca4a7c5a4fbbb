package virtualmachine_test

import (
	"os"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccVsock_hostLacksIt: libvirt accepts a vsock device, and only QEMU's start or the plug needs the host's. The
// plan of a VM that runs refuses it, as far as the host can be asked for files; a VM that is off gets a warning.
// Without SSH the apply fails, and the next start doesn't have the device either.
func TestAccVsock_hostLacksIt(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	own := l.StartHost(t)
	l.Listen(t, own, nil)
	_, err := os.Stat(domain.VhostVsock)
	has := err == nil
	tf, name := acctest.NewCLI(t), lab.Name(t)
	const vsock = `{ vsock = { cid = 77 } }`
	overSSH := acctest.Block{Lab: l, Hosts: []acctest.Host{{Of: own}}}.String()
	overTCP := acctest.Block{Lab: l, Hosts: []acctest.Host{
		{Of: own, URI: "qemu+tcp://" + own.Address + "/system"},
	}}.String()
	idle := idleVM(l, name)
	off := idle.with(hcl{"run_strategy": quote("Halted")})
	refused := func(beginning string) {
		t.Helper()
		if has {
			tf.Run(t, "plan")
			return
		}
		expect(t, tf.Fail(t, "plan"), "Error: "+beginning, "because of devices.vsock",
			`host "`+own.Name+`": it has no device "/dev/vhost-vsock"`, `"modprobe vhost_vsock"`)
	}
	tf.Config(t, overSSH+idle.with(hcl{"devices": vsock}).String())
	refused("No host can take the VM")

	tf.Config(t, overSSH+off.with(hcl{"devices": vsock}).String())
	const warning = "Warning: File not found on the host"
	if out := tf.Run(t, "apply"); strings.Contains(out, warning) == has {
		t.Errorf("the host has the device: %t\n%s", has, out)
	} else if !has {
		expect(t, out, "devices.vsock, which needs /dev/vhost-vsock", `host "`+own.Name+`" has no such device`)
	}
	noChanges(t, tf)
	if err := contains(l.Virsh(t, own.Name, "dumpxml", name), `<cid auto='no' address='77'`); err != nil {
		t.Error(err)
	}
	tf.Config(t, overSSH+idle.with(hcl{"devices": `{ vsock = { model = "none" } }`}).String())
	tf.Run(t, "apply")
	if err := lacks(t, l, own.Name, name, "<vsock")(nil); err != nil {
		t.Error(err)
	}

	tf.Config(t, overSSH+idle.with(hcl{"devices": vsock}).String())
	refused("Host can't take the change")
	tf.Config(t, overTCP+idle.with(hcl{"devices": vsock}).String())
	if has {
		tf.Run(t, "apply")
		noChanges(t, tf)
	} else {
		expect(t, tf.Fail(t, "apply"), "Unable to update virtual machine", "Changing devices.vsock of the running VM",
			"unable to open vhost-vsock device")
		if err := contains(l.Virsh(t, own.Name, "dumpxml", "--inactive", name), "<vsock"); err == nil {
			t.Error("the next start has the device that the running VM was refused")
		}
		if plan := tf.Run(t, "plan"); !strings.Contains(plan, "+ vsock") {
			t.Errorf("the next plan doesn't try again: %s", plan)
		}
	}
	tf.Config(t, overSSH+idle.String())
	tf.Run(t, "apply")
	noChanges(t, tf)
	tf.Run(t, "destroy")
	if left := l.Virsh(t, own.Name, "list", "--all", "--name"); strings.Contains(left, name) {
		t.Errorf("the host still has %s", left)
	}
}
