package volume_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/hostset"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// cephPool declares a pool in Ceph, named "ceph", and the secret with which hosts log in.
func cephPool(ceph *lab.Ceph, name string) string {
	return fmt.Sprintf(`
resource "virtfleet_secret" "ceph" {
  usage            = "ceph"
  usage_id         = %[1]q
  value_base64_wo  = %[2]q
  value_wo_version = "1"
}
resource "virtfleet_storage_pool" "ceph" {
  name   = "%[1]s-ceph"
  type   = "rbd"
  source = {
    name  = %[3]q
    hosts = [{ name = %[4]q, port = %[5]d }]
    auth  = { type = "ceph", username = %[6]q, secret = virtfleet_secret.ceph.id }
  }
}
`, name, ceph.Key, ceph.Pool, ceph.Host, ceph.Port, ceph.Username)
}

// inCeph declares a volume in Ceph.
func inCeph(key, says string) string {
	return fmt.Sprintf("resource \"virtfleet_volume\" %[1]q {\n  name = %[1]q\n"+
		"  pool = virtfleet_storage_pool.ceph.name\n  %[2]s\n}\n", key, says)
}

// imageOf declares an image with that content, which is in a qcow2 file.
func imageOf(t *testing.T, content []byte) string {
	t.Helper()
	raw, file := filepath.Join(t.TempDir(), "raw"), filepath.Join(t.TempDir(), "qcow2")
	if err := os.WriteFile(raw, content, 0o600); err != nil {
		t.Fatal(err)
	}
	convert := exec.CommandContext(t.Context(), "qemu-img", "convert", "-O", "qcow2", raw, file)
	if out, err := convert.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return fmt.Sprintf("resource \"virtfleet_image\" \"base\" {\n  name = \"base\"\n"+
		"  pool = virtfleet_storage_pool.this.name\n  source = { file = %q }\n}\n", file)
}

// sparse returns content with a hole, and with data at its end. Its length isn't that of objects in Ceph.
func sparse() []byte {
	content := make([]byte, 45<<20+512)
	random := rand.NewChaCha8([32]byte{})
	_, _ = random.Read(content[:5<<20])
	_, _ = random.Read(content[len(content)-1<<20:])
	return content
}

// inCephIs checks the content of an image in Ceph: that content, and zeros up to that size.
func inCephIs(t *testing.T, ceph *lab.Ceph, image string, content []byte, size int) {
	t.Helper()
	is := []byte(ceph.RBD(t, "export", "--no-progress", ceph.Pool+"/"+image, "-"))
	if len(is) != size || !bytes.Equal(is[:len(content)], content) || len(bytes.Trim(is[len(content):], "\x00")) > 0 {
		t.Errorf("image %s in Ceph has other content than its source: %d bytes, want %d", image, len(is), size)
	}
}

// createOn creates a domain on a host with an image in Ceph as its disk. Its guest never runs. The host has the secret
// of cephPool.
func createOn(t *testing.T, l *lab.Lab, host, name string, ceph *lab.Ceph, image string) {
	t.Helper()
	vm := filepath.Join(t.TempDir(), "vm.xml")
	if err := os.WriteFile(vm, fmt.Appendf(nil, "<domain type='qemu'><name>%s</name><memory unit='MiB'>32</memory>"+
		"<os><type>hvm</type></os><devices><disk type='network'><driver name='qemu' type='raw'/>"+
		"<source protocol='rbd' name='%s/%s'><host name='%s' port='%d'/><auth username='%s'>"+
		"<secret type='ceph' uuid='%s'/></auth></source><target dev='vda' bus='virtio'/></disk></devices></domain>", name,
		ceph.Pool, image, ceph.Host, ceph.Port, ceph.Username, l.SecretUUID(t, host, name)), 0o600); err != nil {
		t.Fatal(err)
	}
	l.Virsh(t, host, "create", vm, "--paused")
}

// noCopier checks that no domain is left on a host that copied a volume.
func noCopier(t *testing.T, l *lab.Lab, host string) {
	t.Helper()
	if all := l.Virsh(t, host, "list", "--all", "--name"); strings.Contains(all, "virtfleet-copy-") {
		t.Errorf("host %s has %s", host, all)
	}
}

// TestAccVolume_ceph: QEMU copies an image, a volume that is based on it, and a volume of Ceph into volumes in Ceph,
// byte by byte, also into larger ones. Ceph has no snapshot of them, so they can be removed. A volume that is to be
// thick grows, too, although Ceph makes it thin.
func TestAccVolume_ceph(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	ceph := l.Ceph(t, name)
	content := sparse()
	base := acctest.Block{Lab: l, Hosts: []acctest.Host{{Of: l.Host("kvm1")}}}.String() + pool(name) +
		cephPool(ceph, name) + imageOf(t, content)
	const full = "image = virtfleet_image.base.id\nclone = \"full\"\n"
	all := inCeph("same", full) + inCeph("larger", full+`size = "64Mi"`) + `
resource "virtfleet_volume" "overlay" {
  name  = "overlay"
  pool  = virtfleet_storage_pool.this.name
  image = virtfleet_image.base.id
}
` + inCeph("based", "copy_of = virtfleet_volume.overlay.id") + inCeph("copy", "copy_of = virtfleet_volume.larger.id") +
		inCeph("thick", `preallocation = "full"`+"\nsize = \"8Mi\"")
	tf := acctest.NewCLI(t)
	tf.Config(t, base+inCeph("same", "image = virtfleet_image.base.id"))
	if out := tf.Fail(t, "apply"); !strings.Contains(out, `set clone to "full"`) {
		t.Errorf("the plan of an overlay in Ceph says: %s", out)
	}
	tf.Config(t, base+all)
	tf.Run(t, "apply")
	inCephIs(t, ceph, "same", content, len(content))
	inCephIs(t, ceph, "based", content, len(content)+512) // libvirt rounds the size of qcow2 up to KiB.
	for _, larger := range []string{"larger", "copy"} {
		inCephIs(t, ceph, larger, content, 64<<20)
	}
	var is struct {
		Images []struct {
			Used int `json:"used_size"`
		}
	}
	used := ceph.RBD(t, "du", "--format", "json", ceph.Pool+"/larger")
	if err := json.Unmarshal([]byte(used), &is); err != nil || len(is.Images) != 1 || is.Images[0].Used > 32<<20 {
		t.Errorf("holes occupy space in Ceph: %s, %v", used, err)
	}
	noCopier(t, l, "kvm1")
	if out, empty := tf.Empty(t); !empty {
		t.Errorf("the plan isn't empty: %s", out)
	}
	all = strings.ReplaceAll(all, `"8Mi"`, `"12Mi"`)
	tf.Config(t, base+all)
	tf.Run(t, "apply")
	inCephIs(t, ceph, "thick", nil, 12<<20)
	// The guest of a VM that runs may write to its disk.
	createOn(t, l, "kvm1", name, ceph, "larger")
	tf.Config(t, base+all+inCeph("late", "copy_of = virtfleet_volume.larger.id"))
	if out := tf.Fail(t, "apply"); !strings.Contains(out, "so it may write while the volume is copied") {
		t.Errorf("the copy of a disk of a VM that runs: %s", out)
	}
	l.Virsh(t, "kvm1", "destroy", name)
	if has := strings.Fields(ceph.RBD(t, "ls", ceph.Pool)); slices.Contains(has, "late") {
		t.Errorf("Ceph has %s", has)
	}
	tf.Run(t, "destroy", "-target=virtfleet_volume.overlay")
	tf.Run(t, "destroy")
	if left := ceph.RBD(t, "ls", ceph.Pool); left != "" {
		t.Errorf("Ceph still has %s", left)
	}
}

// TestAccVolume_interruptedElsewhere: a volume of storage that hosts share isn't imported through one of them while
// another one has the record that a run was creating it, nor while that host doesn't answer.
func TestAccVolume_interruptedElsewhere(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	ceph := l.Ceph(t, name)
	first, second := l.StartHost(t), l.StartHost(t)
	// The volume is found through the first of these.
	hosts := acctest.Block{Lab: l, Hosts: []acctest.Host{{Of: first}, {Of: second}}}.String()
	base := hosts + cephPool(ceph, name)
	tf := acctest.NewCLI(t)
	tf.Config(t, base)
	tf.Run(t, "apply")
	conn, err := libvirt.Open(libvirt.Config{Name: second.Name, URI: second.SocketURI()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	record := hostset.Creation{Kind: "volume", Name: name + "-ceph/root"}
	if err := record.Begin(t.Context(), conn, `{"format":"raw","bytes":1048576}`); err != nil {
		t.Fatal(err)
	}
	l.Virsh(t, first.Name, "vol-create-as", name+"-ceph", "root", "1M")
	imports := acctest.NewCLI(t)
	imports.Config(t, hosts+fmt.Sprintf(`
resource "virtfleet_volume" "root" {
  name = "root"
  pool = "%[1]s-ceph"
  size = "1Mi"
}
import {
  to = virtfleet_volume.root
  id = "%[1]s-ceph/root"
}
`, name))
	if out := imports.Fail(t, "plan"); !strings.Contains(out, "may lack a part of its content") ||
		!strings.Contains(out, fmt.Sprintf("on host %q", second.Name)) {
		t.Errorf("the import says: %s", out)
	}
	restore := l.KillLibvirtd(t, second)
	out := imports.Fail(t, "plan")
	for _, want := range []string{
		"Unable to import volume", "has the storage pool and can't be asked. A run may have been interrupted",
		"while it created the volume through that host", "fenced = true", "Host: " + second.Name,
	} {
		if !strings.Contains(out, want) {
			t.Errorf("the import while a host doesn't answer doesn't say %q: %s", want, out)
		}
	}
	restore()
	if err := record.End(t.Context(), conn); err != nil {
		t.Fatal(err)
	}
	imports.Run(t, "apply")
	if out, empty := imports.Empty(t); !empty {
		t.Errorf("the plan isn't empty: %s", out)
	}
	imports.Run(t, "destroy")
	tf.Run(t, "destroy")
	if left := ceph.RBD(t, "ls", ceph.Pool); left != "" {
		t.Errorf("Ceph still has %s", left)
	}
}
