package bench

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

const (
	// newVMPool is where the image and the disk are.
	newVMPool = "/var/lib/libvirt/new-vm"
	// newVMImage is the size of the image, and newVMDisk what its guest sees.
	newVMImage, newVMDisk = 64 << 20, 1 << 30
)

// creating has a storage pool, and an image and a VM if there is one of each.
const creating = `terraform {
  required_providers {
    virtfleet = { source = "virtfleet/virtfleet" }
  }
}

variable "hosts" {
  type = map(object({ uri = string, known_hosts = string }))
}

variable "vms" {
  type = number
}

variable "images" {
  type = number
}

provider "virtfleet" {
  hosts = { for name, h in var.hosts : name => { uri = h.uri, ssh = { known_hosts_file = h.known_hosts } } }
  ssh   = { private_key_file = %q, config_file = "none", agent = false }
}

resource "virtfleet_storage_pool" "this" {
  name   = "new-vm"
  type   = "dir"
  target = { path = %q }
}

resource "virtfleet_image" "this" {
  count  = var.images
  name   = "image"
  pool   = virtfleet_storage_pool.this.name
  source = { file = %q }
}

resource "virtfleet_virtual_machine" "this" {
  count  = var.vms
  name   = "new-vm"
  type   = "qemu"
  memory = { size = "128Mi" }
  kernel = { path = %q, initrd = %q, cmdline = %q }
  disks = {
    root = { pool = virtfleet_storage_pool.this.name, image = virtfleet_image.this[count.index].id, size = "%d" }
  }

  guest_agent              = { enabled = true }
  wait_for                 = { guest_agent = true, timeout = "5m" }
  termination_grace_period = "0s"
}
`

// byHand is what an administrator defines for the same VM.
const byHand = `<domain type='qemu'>
  <name>by-hand</name>
  <memory unit='MiB'>128</memory>
  <os><type>hvm</type><kernel>%s</kernel><initrd>%s</initrd><cmdline>%s</cmdline></os>
  <features><acpi/><apic/></features>
  <devices>
    <disk type='file'>
      <driver name='qemu' type='qcow2'/><source file='` + newVMPool + `/by-hand.qcow2'/><target dev='vda' bus='virtio'/>
    </disk>
    <channel type='unix'><target type='virtio' name='org.qemu.guest_agent.0'/></channel>
  </devices>
</domain>
`

// BenchmarkNewVM goes from an image to a guest whose agent answers: by one apply, and by hand with virsh and qemu-img.
// The image is on the operator's side, or on the VM's host already. What Terraform takes without a VM is left out of
// these rows, and counted in another.
func BenchmarkNewVM(b *testing.B) {
	l := lab.Open(b)
	w := newHosts(b, l, 1)
	image, definition := filepath.Join(w.home, "image"), filepath.Join(w.home, "by-hand.xml")
	if err := makeImage(image, newVMImage); err != nil {
		b.Fatal(err)
	}
	w.write(b, definition, fmt.Sprintf(byHand, l.KernelPath(), l.InitrdPath(), lab.GuestCmdline))
	w.variables = map[string]string{"images": "0"}
	w.create(b, fmt.Sprintf(creating, l.PrivateKeyFile(), newVMPool, image, l.KernelPath(), l.InitrdPath(),
		lab.GuestCmdline, int64(newVMDisk)))
	u := &uploader{workspace: w, ssh: w.sshProgram(b)}

	apply := func(images, vms int) time.Duration {
		w.variables["images"], w.vms = fmt.Sprint(images), vms
		return w.run(b, w.direct(), []string{"apply", "-auto-approve"})
	}
	var command, alone, hand, fromHost, handFromHost sample
	for range *rounds {
		idle := apply(0, 0)
		took := apply(1, 1)
		command.add(took)
		alone.add(took - idle)
		apply(1, 0)
		idle = apply(1, 0)
		fromHost.add(apply(1, 1) - idle)
		apply(0, 0)
		whole, fromImage := u.newVM(b, w.hosts[0], image, definition)
		hand.add(whole)
		handFromHost.add(fromImage)
	}
	t := &table{
		title: fmt.Sprintf("from an image of %d MiB to a guest whose agent answers, medians of %d rounds", newVMImage>>20,
			*rounds),
		columns: [2]string{"apply", "virsh and qemu-img"},
	}
	t.ratio("what image and VM add to an apply", &alone, &hand, 1.2)
	t.ratio("what a VM adds to an apply, its image on its host", &fromHost, &handFromHost, 1.1)
	t.ratio("the whole apply, plan included", &command, &hand, 0)
	if err := t.print(os.Stdout); err != nil {
		b.Fatal(err)
	}
}

// newVM creates a VM as an administrator does, and removes it. How long it took until its agent answered is returned:
// all of it, and from when the image was on the host.
func (u *uploader) newVM(
	b *testing.B, h *lab.Host, image, definition string,
) (whole, fromImage time.Duration) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), uploadTimeout)
	defer cancel()
	do := func(name string, args ...string) {
		b.Helper()
		if out, err := exec.CommandContext(ctx, name, args...).CombinedOutput(); err != nil {
			b.Fatalf("%s %v: %v\n%s", name, args, err, out)
		}
	}
	virsh := func(script string) { do("virsh", "--quiet", "--connect", u.uri(h), script) }
	shell := func(script string) { do(u.ssh, "root@"+h.Address, script) }
	start := time.Now()
	virsh(fmt.Sprintf("vol-create-as new-vm by-hand.base %d --format raw; "+
		"vol-upload by-hand.base %s --pool new-vm --sparse", newVMImage, image))
	sent := time.Now()
	shell(fmt.Sprintf("qemu-img create -q -f qcow2 -F raw -b by-hand.base %s/by-hand.qcow2 %d", newVMPool,
		int64(newVMDisk)))
	virsh("define " + definition + "; start by-hand")
	shell(`until virsh qemu-agent-command by-hand '{"execute":"guest-ping"}' >/dev/null 2>&1; do sleep 0.1; done`)
	whole, fromImage = time.Since(start), time.Since(sent)
	virsh("destroy by-hand; undefine by-hand; pool-refresh new-vm; vol-delete by-hand.qcow2 --pool new-vm; " +
		"vol-delete by-hand.base --pool new-vm")
	return whole, fromImage
}
