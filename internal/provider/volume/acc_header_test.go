package volume_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// writtenHeaders are scripts that write to a raw file of 10 MiB what a guest may: anything, which begins like an image
// of another size, or like LUKS.
var writtenHeaders = map[string]string{
	"smaller": writtenHeader("qemu-img create -q -f qcow2 $1.header 512K"),
	"larger":  writtenHeader("qemu-img create -q -f qcow2 $1.header 64M"),
	// qemu-img measures how fast the CPU derives keys, and fails by chance if other processes use the CPU meanwhile.
	"luks": writtenHeader("for i in $(seq 100); do qemu-img create -q --object secret,id=key,data=x -f luks " +
		"-o key-secret=key,iter-time=10 $1.header 8M && break; done"),
}

func writtenHeader(create string) string {
	return "head -c 10485760 /dev/urandom | dd of=$1 conv=notrunc bs=1M status=none; " + create +
		"; dd if=$1.header of=$1 conv=notrunc bs=64K count=1 status=none; rm $1.header"
}

// userOfRaw is a VM whose disk is a raw file.
func userOfRaw(name, file string) string {
	return fmt.Sprintf("<domain type='qemu'><name>%s</name><memory unit='MiB'>16</memory>"+
		"<os><type>hvm</type></os><devices><disk type='file'><driver name='qemu' type='raw'/><source file='%s'/>"+
		"<target dev='vdb' bus='virtio'/></disk></devices></domain>", name, file)
}

// TestAccVolume_writtenHeader: what a guest writes into its raw volume doesn't decide about the volume's size: neither
// the header of an image of another size nor that of LUKS makes the plan resize it, and growing it keeps every byte,
// without a VM, with one that is off, and with one that runs.
func TestAccVolume_writtenHeader(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	for header, write := range writtenHeaders {
		t.Run(header, func(t *testing.T) {
			t.Parallel()
			tf := acctest.NewCLI(t)
			name := lab.Name(t)
			l.RemoveDomain(t, name)
			file := "/var/lib/libvirt/" + name + "/data"
			config := func(size string) {
				tf.Config(t, acctest.OneHost(l)+pool(name)+volume(fmt.Sprintf(
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
			run(write)
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

			l.Define(t, "kvm1", userOfRaw(name, file))
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
			l.Run(t, "kvm1", "rmdir", "/var/lib/libvirt/"+name)
		})
	}
}

// TestAccVolume_copyOfWrittenHeader: a copy of a raw volume has the same bytes, whatever the guest of the VM that has
// the volume has written into it. It may be larger. A copy in another format is refused: libvirt would convert it. So
// is a copy while that VM runs: it could be torn.
func TestAccVolume_copyOfWrittenHeader(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	for header, write := range writtenHeaders {
		t.Run(header, func(t *testing.T) {
			t.Parallel()
			tf := acctest.NewCLI(t)
			name := lab.Name(t)
			l.RemoveDomain(t, name)
			at := "/var/lib/libvirt/" + name
			copied := func(name, says string) string {
				return fmt.Sprintf("resource \"virtfleet_volume\" %[1]q {\n  name = %[1]q\n"+
					"  pool = virtfleet_storage_pool.this.name\n  host = \"kvm1\"\n"+
					"  copy_of = virtfleet_volume.this.id\n  %[2]s\n}\n", name, says)
			}
			config := func(copies ...string) {
				tf.Config(t, acctest.OneHost(l)+pool(name)+volume("size = \"10Mi\"\nhost = \"kvm1\"\nformat = \"raw\"")+
					strings.Join(copies, ""))
			}
			config()
			tf.Run(t, "apply")
			l.Run(t, "kvm1", "sh", "-ec", write, "sh", at+"/data")
			l.Define(t, "kvm1", userOfRaw(name, at+"/data"))

			same := copied("same", `format = "raw"`)
			larger := copied("larger", "format = \"raw\"\nsize = \"12Mi\"\npreallocation = \"full\"")
			l.Virsh(t, "kvm1", "start", name)
			config(same)
			out := strings.Join(strings.Fields(tf.Fail(t, "apply")), " ")
			for _, want := range []string{
				"Volume to copy is in use", "may write while the volume is copied", "Shut that VM down",
			} {
				if !strings.Contains(out, want) {
					t.Errorf("a copy of what a guest writes to is refused without %q:\n%s", want, out)
				}
			}
			l.Run(t, "kvm1", "test", "!", "-e", at+"/same")
			l.Virsh(t, "kvm1", "destroy", name)

			config(same, larger)
			tf.Run(t, "apply")
			l.Run(t, "kvm1", "cmp", at+"/data", at+"/same")
			l.Run(t, "kvm1", "sh", "-ec", "{ cat $1/data; head -c 2097152 /dev/zero; } | cmp - $1/larger", "sh", at)
			l.Virsh(t, "kvm1", "pool-refresh", name)
			if out, ok := tf.Empty(t); !ok {
				t.Errorf("the plan isn't empty:\n%s", out)
			}

			config(same, larger, copied("other", ""))
			if out := tf.Fail(t, "apply"); !strings.Contains(out, `format = "raw"`) {
				t.Errorf("a copy in another format is refused with:\n%s", out)
			}
			l.Run(t, "kvm1", "test", "!", "-e", at+"/other")

			l.Virsh(t, "kvm1", "undefine", name)
			tf.Run(t, "destroy")
			l.Run(t, "kvm1", "rmdir", at)
		})
	}
}
