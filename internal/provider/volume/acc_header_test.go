package volume_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccVolume_writtenHeader: what a guest writes into its raw volume doesn't decide about the volume's size: neither
// the header of an image of another size nor that of LUKS makes the plan resize it, and growing it keeps every byte,
// without a VM, with one that is off, and with one that runs.
func TestAccVolume_writtenHeader(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	for header, write := range map[string]string{
		"smaller": "qemu-img create -q -f qcow2 $1.header 512K",
		"larger":  "qemu-img create -q -f qcow2 $1.header 64M",
		"luks":    "qemu-img create -q --object secret,id=key,data=x -f luks -o key-secret=key,iter-time=10 $1.header 8M",
	} {
		t.Run(header, func(t *testing.T) {
			t.Parallel()
			tf := acctest.NewCLI(t)
			name := lab.Name(t)
			l.RemoveDomain(t, name)
			file := "/var/lib/libvirt/" + name + "/data"
			config := func(size string) {
				tf.Config(t, acctest.Config(l)+pool(name)+volume(fmt.Sprintf(
					"size = %q\nhost = \"kvm1\"\nformat = \"raw\"", size)))
			}
			run := func(script string) string {
				return strings.TrimSpace(l.Run(t, "kvm1", "sh", "-ec", script, "sh", file))
			}
			empty := func() {
				t.Helper()
				if out, ok := tf.Empty(t); !ok {
					t.Errorf("the plan isn't empty:\n%s", out)
				}
			}
			config("10Mi")
			tf.Run(t, "apply")
			run("head -c 10485760 /dev/urandom | dd of=$1 conv=notrunc bs=1M status=none; " + write +
				"; dd if=$1.header of=$1 conv=notrunc bs=64K count=1 status=none; rm $1.header")
			l.Virsh(t, "kvm1", "pool-refresh", name)
			actual := fmt.Sprintf("<capacity unit='bytes'>%d<", 10<<20)
			if xml := l.Virsh(t, "kvm1", "vol-dumpxml", "--pool", name, "data"); strings.Contains(xml, actual) {
				t.Fatalf("libvirt doesn't take it for something else: %s", xml)
			}
			empty()
			const sum = "head -c 10485760 $1 | sha256sum"
			written := run(sum)
			// grows asks libvirt to read the volume again, as any other tool may at any time.
			grows := func(mebibytes int) {
				t.Helper()
				l.Virsh(t, "kvm1", "pool-refresh", name)
				config(fmt.Sprintf("%dMi", mebibytes))
				tf.Run(t, "apply")
				if run(sum) != written {
					t.Errorf("growing it to %d MiB has changed what was in it", mebibytes)
				}
				if size := run("stat -c %s $1"); size != fmt.Sprint(mebibytes<<20) {
					t.Errorf("the file has %s bytes, want %d MiB", size, mebibytes)
				}
				empty()
			}
			shrinks := func(size string) {
				t.Helper()
				config(size)
				if out := tf.Fail(t, "plan"); !strings.Contains(out, "never shrink") {
					t.Errorf("a smaller size is refused with:\n%s", out)
				}
			}
			shrinks("9Mi")
			grows(12)

			l.Define(t, "kvm1", fmt.Sprintf("<domain type='qemu'><name>%s</name><memory unit='MiB'>16</memory>"+
				"<os><type>hvm</type></os><devices><disk type='file'><driver name='qemu' type='raw'/><source file='%s'/>"+
				"<target dev='vdb' bus='virtio'/></disk></devices></domain>", name, file))
			grows(14)
			l.Virsh(t, "kvm1", "start", name)
			grows(16)
			shrinks("15Mi")
			// Another tool grows it after the state was read.
			l.Virsh(t, "kvm1", "blockresize", name, "vdb", "32M")
			config("20Mi")
			if out := tf.Fail(t, "apply", "-refresh=false"); !strings.Contains(out, "never shrinks") {
				t.Errorf("the larger volume is refused with:\n%s", out)
			}
			if run(sum) != written || run("stat -c %s $1") != fmt.Sprint(32<<20) {
				t.Error("the volume has changed")
			}
			config("32Mi")
			tf.Run(t, "apply")
			empty()
			l.Virsh(t, "kvm1", "destroy", name)
			l.Virsh(t, "kvm1", "undefine", name)
			tf.Run(t, "destroy")
			for _, host := range []string{"kvm1", "kvm2"} {
				l.Run(t, host, "rmdir", "/var/lib/libvirt/"+name)
			}
		})
	}
}
