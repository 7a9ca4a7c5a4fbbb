package virtualmachine_test

import (
	"fmt"
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

// TestAccVsock_targetLacksIt: a VM with a vsock device doesn't move to a host without the kernel's device, because it
// can't start there. The plan of the move, the candidates and the plan of a drain say so before anything is done, with
// the words and the remedy of the plan that refuses a new VM there. The VM stays as it is on its host, and moves once
// the target has the device.
func TestAccVsock_targetLacksIt(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	one, two := l.StartHost(t), l.StartHost(t)
	ownDevices(t, l, one, ": >"+domain.VhostVsock)
	ownDevices(t, l, two, "rm -f "+domain.VhostVsock)
	tf, name := acctest.NewCLI(t), lab.Name(t)
	block := acctest.Block{Lab: l, Hosts: []acctest.Host{{Of: one}, {Of: two}}}.String()
	vm := idleVM(l, name).with(hcl{
		"run_strategy": quote("Halted"), "host": quote(one.Name), "devices": `{ vsock = { cid = 77 } }`,
	})
	there := hcl{"host": quote(two.Name)}

	tf.Config(t, block+vm.String())
	if out := tf.Run(t, "apply"); strings.Contains(out, "Warning: File not found on the host") {
		t.Errorf("the host has the device:\n%s", out)
	}
	noChanges(t, tf)

	tf.Config(t, block+vm.with(there).String())
	expect(t, tf.Fail(t, "plan"), "Virtual machine can't be moved: HostResourcesNotAvailable", "devices.vsock",
		`host "`+two.Name+`" has no device "/dev/vhost-vsock"`, `"modprobe vhost_vsock"`, "or remove vsock")
	blockersEverywhere(t, tf, block, vm, one.Name, two.Name,
		fmt.Sprintf(`HostResourcesNotAvailable: host %q has no device "/dev/vhost-vsock"`, two.Name))
	if err := contains(l.Virsh(t, one.Name, "dumpxml", name), `<cid auto='no' address='77'`); err != nil {
		t.Error(err)
	}

	l.Run(t, two.Name, "touch", domain.VhostVsock)
	tf.Config(t, block+vm.with(there).String())
	tf.Run(t, "apply")
	noChanges(t, tf)
	if err := contains(l.Virsh(t, two.Name, "dumpxml", name), `<cid auto='no' address='77'`); err != nil {
		t.Error(err)
	}
	destroyAndCheck(t, l, tf, name)
}

// ownDevices gives a host of the test's own a /dev of its own, in which the command then changes files. A plain file
// does for a device that no QEMU opens.
func ownDevices(t *testing.T, l *lab.Lab, on *lab.Host, command string) {
	t.Helper()
	const mount = `mount -t tmpfs none /mnt && mkdir /mnt/upper /mnt/work &&
mount -t overlay none -o lowerdir=/dev,upperdir=/mnt/upper,workdir=/mnt/work /dev && `
	l.Run(t, on.Name, "sh", "-c", mount+command)
}
