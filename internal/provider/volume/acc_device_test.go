package volume_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccVolume_onDevice: libvirt can't grow a volume that is a device, which the plan says. What it says to do by hand
// brings the larger disk to the running guest. The type that a partition was declared with stays.
func TestAccVolume_onDevice(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	tf := acctest.NewCLI(t)
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	device := l.LoopDevice(t, "kvm1", name, 64<<20)
	partition := filepath.Base(device) + "p1"
	config := func(size string) {
		tf.Config(t, acctest.OneHost(l)+fmt.Sprintf(`
resource "virtfleet_storage_pool" "this" {
  name   = %[1]q
  type   = "disk"
  build  = true
  target = { path = "/dev" }
  source = { devices = [%[2]q], format = "gpt" }
}

resource "virtfleet_volume" "this" {
  name   = %[3]q
  pool   = virtfleet_storage_pool.this.name
  size   = %[4]q
  format = "linux"
}
`, name, device, partition, size))
	}
	says := func(out string, wants ...string) {
		t.Helper()
		out = strings.Join(strings.Fields(out), " ")
		for _, want := range wants {
			if !strings.Contains(out, want) {
				t.Errorf("Terraform doesn't say %q in:\n%s", want, out)
			}
		}
	}
	disk := func(mebibytes int) {
		t.Helper()
		if info := l.Virsh(t, "kvm1", "domblkinfo", name, "vdb"); !strings.Contains(info, fmt.Sprint(mebibytes<<20)) {
			t.Errorf("the guest's disk: %s; want %d MiB", info, mebibytes)
		}
	}
	at := "/dev/" + partition
	extend := func(mebibytes int) {
		const resize = `start=$(parted -sm $1 unit B print | sed -n "s/^1:\([0-9]*\)B.*/\1/p")
echo Yes | parted ---pretend-input-tty $1 unit B resizepart 1 $((start + $2 - 1))B`
		l.Run(t, "kvm1", "sh", "-ec", resize, "sh", device, fmt.Sprint(mebibytes<<20))
		l.Virsh(t, "kvm1", "pool-refresh", name)
	}
	config("8Mi")
	tf.Run(t, "apply")
	if is, tainted := tf.State(t, address); tainted || is["format"] != "linux" {
		t.Errorf("the format is %v; tainted: %t", is["format"], tainted)
	}
	acctest.ImportGenerated(t, acctest.OneHost(l), map[string]string{
		"virtfleet_storage_pool.this": name, address: name + "/" + partition,
	})
	l.Define(t, "kvm1", fmt.Sprintf("<domain type='qemu'><name>%s</name><memory unit='MiB'>16</memory>"+
		"<os><type>hvm</type></os><devices><disk type='block'><driver name='qemu' type='raw'/><source dev='%s'/>"+
		"<target dev='vdb' bus='virtio'/></disk></devices></domain>", name, at))
	l.Virsh(t, "kvm1", "start", name)

	config("12Mi")
	says(tf.Fail(t, "plan"), "libvirt can't grow the devices", "lvextend", "virsh pool-refresh "+name,
		fmt.Sprintf("virsh blockresize <vm> %s %dB", at, 12<<20))
	extend(12)
	l.Virsh(t, "kvm1", "blockresize", name, at, fmt.Sprintf("%dB", 12<<20))
	disk(12)
	if out, empty := tf.Empty(t); !empty {
		t.Errorf("the plan isn't empty:\n%s", out)
	}
	// An apply that knows nothing of what was done by hand tells the guest.
	extend(16)
	config("16Mi")
	tf.Run(t, "apply", "-refresh=false")
	disk(16)

	l.Virsh(t, "kvm1", "destroy", name)
	l.Virsh(t, "kvm1", "undefine", name)
	tf.Run(t, "state", "rm", address) // libvirt can't remove such a partition.
	l.Run(t, "kvm1", "parted", "-s", device, "rm", "1")
	l.Virsh(t, "kvm1", "pool-refresh", name)
	tf.Run(t, "destroy")
	if l.Has(t, "kvm1", "pool-list", name) {
		t.Error("the pool is left")
	}
}
