package virtualmachine_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/virtualmachine"
)

// TestAccVirtualMachine_transientRenamed: a disk of an imported transient VM gets another key, and later another one.
// The host records it, although there is no definition but what runs, and the guest isn't touched.
func TestAccVirtualMachine_transientRenamed(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	tf := acctest.NewCLI(t)
	l.RemoveDomain(t, name)
	image := l.Image(t, "kvm1", name+".qcow2", "qcow2", 1<<20)
	file := filepath.Join(t.TempDir(), "domain.xml")
	if err := os.WriteFile(file, []byte(fmt.Sprintf(`<domain type="qemu"><name>%s</name><memory unit="MiB">64</memory>
  <os><type arch="x86_64" machine="q35">hvm</type></os><devices>
  <disk type="file" device="disk"><driver name="qemu" type="qcow2"/><source file="%s"/><target dev="vda"/></disk>
  <interface type="user"><model type="virtio"/></interface></devices></domain>`, name, image)), 0o600); err != nil {
		t.Fatal(err)
	}
	l.Virsh(t, "kvm1", "create", file)
	id := l.Virsh(t, "kvm1", "domid", name)
	tf.Config(t, acctest.OneHost(l)+fmt.Sprintf("import {\n  to = %s.this\n  id = %q\n}\n", virtualmachine.TypeName, name))
	generated := filepath.Join(tf.Dir, "generated.tf")
	tf.Run(t, "plan", "-generate-config-out="+generated)
	tf.Run(t, "apply")
	noChanges(t, tf)

	old := "vda = {"
	for _, key := range []string{"root", "boot"} {
		config, err := os.ReadFile(generated)
		if err != nil {
			t.Fatal(err)
		}
		renamed := strings.Replace(string(config), old, key+" = {", 1)
		if renamed == string(config) {
			t.Fatalf("no %q in %s", old, config)
		}
		if err := os.WriteFile(generated, []byte(renamed), 0o600); err != nil {
			t.Fatal(err)
		}
		old = key + " = {"
		tf.Run(t, "apply")
		noChanges(t, tf)
		if text := l.Virsh(t, "kvm1", "metadata", name, "urn:virtfleet:1"); !strings.Contains(text, `"`+key+`"`) &&
			!strings.Contains(text, `'`+key+`'`) {
			t.Errorf("the host doesn't record %q: %s", key, text)
		}
	}
	if now := l.Virsh(t, "kvm1", "domid", name); now != id {
		t.Errorf("it was started again: %s, then %s", id, now)
	}
	l.Virsh(t, "kvm1", "destroy", name)
	destroyAndCheck(t, l, tf, name)
}
