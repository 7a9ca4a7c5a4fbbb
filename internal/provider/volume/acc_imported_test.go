package volume_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccVolume_importedEncrypted: the configuration that Terraform generates for an encrypted volume names the secret
// that libvirt knows, or that a VM opens the volume with. If neither does, the secret is declared later. The volume
// stays the same, also if its encryption isn't declared.
func TestAccVolume_importedEncrypted(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	tf := acctest.NewCLI(t)
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	file := "/var/lib/libvirt/" + name + "/data"
	base := acctest.OneHost(l) + pool(name) + fmt.Sprintf(`
resource "virtfleet_secret" "luks" {
  usage            = "volume"
  usage_id         = %q
  value_wo         = "correct horse"
  value_wo_version = "1"
}
`, name)
	encrypted := volume("size = \"8Mi\"\nformat = \"raw\"\nencryption = { secret = virtfleet_secret.luks.id }")
	tf.Config(t, base+encrypted)
	tf.Run(t, "apply")
	state, _ := tf.State(t, "virtfleet_secret.luks")
	uuid := fmt.Sprint(state["id"])
	inode := l.Run(t, "kvm1", "stat", "-c", "%i %W", file)
	// No VM has the volume, and the plan says all the same what a new value of the secret does to it.
	tf.Config(t, strings.Replace(base, `"1"`, `"2"`, 1)+encrypted)
	out := tf.Run(t, "plan")
	for _, want := range []string{"Volume keeps its passphrase", "value_wo_version of its virtfleet_secret is new"} {
		if !strings.Contains(out, want) {
			t.Errorf("the plan of another passphrase doesn't say %q: %s", want, out)
		}
	}
	empty := func() {
		t.Helper()
		if out, ok := tf.Empty(t); !ok {
			t.Errorf("the plan isn't empty:\n%s", out)
		}
	}
	// generate imports the volume with a configuration that Terraform generates, and returns that.
	generate := func() string {
		t.Helper()
		tf.Run(t, "state", "rm", address)
		to := filepath.Join(tf.Dir, "generated.tf")
		tf.Config(t, base+fmt.Sprintf("import {\n  to = %s\n  id = \"%s/data\"\n}\n", address, name))
		if actions := tf.Actions(t, "-generate-config-out="+to); actions[address] != "no-op" {
			t.Fatalf("the import does %q", actions[address])
		}
		tf.Run(t, "apply")
		empty()
		generated, err := os.ReadFile(to)
		if err == nil {
			err = os.Remove(to)
		}
		if err != nil {
			t.Fatal(err)
		}
		return string(generated)
	}
	// applied applies a change of the state alone.
	applied := func(declared string) {
		t.Helper()
		tf.Config(t, base+declared)
		if actions := tf.Actions(t); actions[address] != "update" {
			t.Fatalf("the plan does %q", actions[address])
		}
		tf.Run(t, "apply")
		empty()
	}
	const none = "encryption    = null"
	named := fmt.Sprintf("encryption = {\n    secret = %q\n  }", uuid)

	if generated := generate(); !strings.Contains(generated, named) {
		t.Errorf("libvirt knows the secret %s, and Terraform generates:\n%s", uuid, generated)
	}
	l.Virsh(t, "kvm1", "pool-refresh", name)
	generated := generate()
	if !strings.Contains(generated, none) {
		t.Errorf("no secret is known, and Terraform generates:\n%s", generated)
	}
	applied(strings.Replace(generated, none, "encryption = { secret = virtfleet_secret.luks.id }", 1))

	l.Define(t, "kvm1", fmt.Sprintf("<domain type='qemu'><name>%s</name><memory unit='MiB'>16</memory>"+
		"<os><type>hvm</type></os><devices><disk type='file'><driver name='qemu' type='raw'/><source file='%s'>"+
		"<encryption format='luks'><secret type='passphrase' uuid='%s'/></encryption></source>"+
		"<target dev='vda' bus='virtio'/></disk></devices></domain>", name, file, uuid))
	generated = generate()
	if !strings.Contains(generated, named) {
		t.Errorf("a VM has the volume with the secret %s, and Terraform generates:\n%s", uuid, generated)
	}
	applied(volume("size = \"8Mi\"\nformat = \"raw\""))
	if now := l.Run(t, "kvm1", "stat", "-c", "%i %W", file); now != inode {
		t.Errorf("the volume is another one: %s, was %s", now, inode)
	}
	l.Virsh(t, "kvm1", "undefine", name)
	tf.Run(t, "destroy")
	l.Run(t, "kvm1", "rmdir", "/var/lib/libvirt/"+name)
}
