package virtualmachine_test

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/kdomanski/iso9660"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccVirtualMachine_writtenHeader: what a guest writes into its raw volume doesn't decide how QEMU opens the volume
// for the next VM, nor whether Terraform replaces it.
func TestAccVirtualMachine_writtenHeader(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	tf := acctest.NewCLI(t)
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	path := "/var/lib/libvirt/images/" + name
	labels := "{}"
	config := func(disk string) {
		text := providerBlock(l, "") + fmt.Sprintf("resource \"virtfleet_volume\" \"data\" {\n  name = %q\n"+
			"  pool = \"default\"\n  host = \"kvm1\"\n  size = \"1Mi\"\n  format = \"raw\"\n}\n", name)
		if disk != "" {
			text += idleVM(l, name).with(hcl{
				"host": quote("kvm1"), "run_strategy": quote("Halted"), "labels": labels,
				"disks": "{ " + disk + " }",
			}).String()
		}
		tf.Config(t, text)
	}
	config("")
	tf.Run(t, "apply")
	l.Run(t, "kvm1", "sh", "-c", fmt.Sprintf("qemu-img create -q -u -f qcow2 -F raw -b /etc/shadow %[1]s.header 1M && "+
		"dd if=%[1]s.header of=%[1]s conv=notrunc status=none && rm %[1]s.header", path))
	l.RefreshPool(t, "kvm1")
	if xml := l.Virsh(t, "kvm1", "vol-dumpxml", "--pool", "default", name); !strings.Contains(xml, "/etc/shadow") {
		t.Fatalf("libvirt doesn't take it for an image: %s", xml)
	}
	noChanges(t, tf)

	const why = `begins like a qcow2 image on top of /etc/shadow`
	config("data = { volume = virtfleet_volume.data.id }")
	expect(t, tf.Fail(t, "plan"), why, `format = "raw"`, `format = "qcow2"`)
	config(fmt.Sprintf("data = { file = %q }", path))
	expect(t, tf.Fail(t, "plan"), why)
	config("data = { volume = virtfleet_volume.data.id, format = \"raw\" }")
	tf.Run(t, "apply")
	isRaw := func() {
		t.Helper()
		if xml := l.Virsh(t, "kvm1", "dumpxml", name); !strings.Contains(xml, `type='raw'`) {
			t.Errorf("the disk isn't raw: %s", xml)
		}
		noChanges(t, tf)
	}
	isRaw()

	// A VM that has the volume keeps its format, also without declaring it, and under another key.
	labels = `{ app = "web" }`
	for _, disk := range []string{
		"data = { volume = virtfleet_volume.data.id }", "logs = { volume = virtfleet_volume.data.id }",
		fmt.Sprintf("logs = { file = %q }", path), fmt.Sprintf("data = { file = %q }", path),
		"data = { volume = virtfleet_volume.data.id }",
	} {
		config(disk)
		tf.Run(t, "apply")
		isRaw()
	}
	destroyAndCheck(t, l, tf, name)
}

// TestAccVirtualMachine_cdromInPool: libvirt calls the format of a CD image "iso", which QEMU's driver of libvirt
// doesn't know. A VM with such a medium starts.
func TestAccVirtualMachine_cdromInPool(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	tf := acctest.NewCLI(t)
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	medium, err := iso9660.NewWriter()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = medium.Cleanup() })
	var content bytes.Buffer
	if err := medium.WriteTo(&content, "medium"); err != nil {
		t.Fatal(err)
	}
	path := l.Image(t, "kvm1", name+".iso", "raw", int64(content.Len()))
	if err := os.WriteFile(l.Host("kvm1").Path(path), content.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	l.RefreshPool(t, "kvm1")
	if xml := l.Virsh(t, "kvm1", "vol-dumpxml", "--pool", "default", name+".iso"); !strings.Contains(xml, "'iso'") {
		t.Fatalf("libvirt doesn't take it for a medium: %s", xml)
	}
	tf.Config(t, providerBlock(l, "")+idleVM(l, name).with(hcl{
		"host": quote("kvm1"), "disks": fmt.Sprintf(`{ cd = { file = %q, device = "cdrom" } }`, path),
	}).String())
	tf.Run(t, "apply")
	if err := onHosts(t, l, name, "running", "")(nil); err != nil {
		t.Error(err)
	}
	noChanges(t, tf)
	destroyAndCheck(t, l, tf, name)
}
