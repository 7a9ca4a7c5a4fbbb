package secret_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// passphrase is a secret of the usage volume.
func passphrase(id, more string) string {
	return fmt.Sprintf("resource %q \"this\" {\n  usage = \"volume\"\n  usage_id = %q\n  %s\n}\n", "virtfleet_secret", id,
		more)
}

// encryptedVM is a VM that is off, whose disk the secret opens.
func encryptedVM(name, secret string) string {
	return fmt.Sprintf(`<domain type="qemu"><name>%[1]s</name><memory unit="MiB">32</memory>
		<os><type>hvm</type></os><devices><disk type="file"><driver name="qemu" type="qcow2"/>
		<source file="/var/lib/libvirt/%[1]s"><encryption format="luks"><secret type="passphrase" uuid="%[2]s"/>
		</encryption></source><target dev="vda" bus="virtio"/></disk></devices></domain>`, name, secret)
}

func secretID(t *testing.T, c *acctest.CLI) string {
	t.Helper()
	attributes, _ := c.State(t, address)
	return fmt.Sprint(attributes["id"])
}

// TestAccSecret_passphraseUnknown: while a host can't tell whether its VMs need the passphrase, no host loses it.
func TestAccSecret_passphraseUnknown(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	id, own := lab.Name(t), l.StartHost(t)
	block := func(uri string) string {
		return acctest.Block{Lab: l, Settings: `on_unreachable = "keep"`, Hosts: []acctest.Host{
			{Of: l.Host("kvm1")}, {Of: own, URI: uri},
		}}.String()
	}
	config := passphrase(id, `value_wo = "hush"`)
	c := acctest.NewCLI(t)
	c.Config(t, block("")+config)
	c.Run(t, "apply")
	uuid := secretID(t, c)
	l.Define(t, own.Name, encryptedVM(id, uuid))
	refusesTo := func(command string, words ...string) {
		t.Helper()
		out := c.Fail(t, command)
		for _, word := range words {
			if !strings.Contains(out, word) {
				t.Errorf("%q isn't in %s", word, out)
			}
		}
		for _, host := range []string{"kvm1", own.Name} {
			if l.SecretUUID(t, host, id) != uuid {
				t.Errorf("host %s has lost the secret", host)
			}
		}
	}

	refuses := func(words ...string) {
		t.Helper()
		refusesTo("destroy", words...)
	}

	c.Config(t, block("")+passphrase(id, `value_wo = "hush"
  hosts = ["kvm1"]`))
	refusesTo("apply", "Secret is in use", "passphrase of encrypted disks of virtual machine "+id,
		"Keep the host in hosts", "The apply fails while these VMs are there")

	c.Config(t, block("qemu+ssh://root@"+own.Address+":9/system")+config)
	refuses("is unknown whether the secret is the passphrase", own.Name, "removed from no host", "fenced = true")

	// A host that doesn't tell about its storage pools tells about its VMs.
	restart := l.KillLibvirtd(t, own)
	l.Run(t, own.Name, "sh", "-ec", `drivers=/usr/lib/*/libvirt/connection-driver
		cp -r $drivers /run/drivers && rm /run/drivers/libvirt_driver_storage.so && mount --bind /run/drivers $drivers`)
	restart()
	if out, err := l.TryVirsh(t, own.Name, "pool-list"); err == nil {
		t.Fatalf("the host lists its storage pools: %s", out)
	}
	c.Config(t, block("")+config)
	refuses("Secret is in use", "passphrase of encrypted disks of virtual machine "+id)

	l.Virsh(t, own.Name, "undefine", id)
	c.Run(t, "destroy")
	for _, host := range []string{"kvm1", own.Name} {
		if left := l.SecretUUID(t, host, id); left != "" {
			t.Errorf("host %s has secret %s", host, left)
		}
	}
}

// TestAccSecret_replacedPassphrase: a passphrase isn't replaced by what the configuration has, unless a new
// value_wo_version says that this is the passphrase.
func TestAccSecret_replacedPassphrase(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	id := lab.Name(t)
	c := acctest.NewCLI(t)
	config := func(id, more string) {
		t.Helper()
		c.Config(t, acctest.OneHost(l)+passphrase(id, more))
	}
	config(id, `value_wo = "hush"`)
	c.Run(t, "apply")
	uuid := secretID(t, c)
	l.Define(t, "kvm1", encryptedVM(id, uuid))
	refused := func(out string) {
		t.Helper()
		for _, word := range []string{id, "passphrase of encrypted disks", "value_wo_version"} {
			if !strings.Contains(out, word) {
				t.Errorf("%q isn't in %s", word, out)
			}
		}
		l.Virsh(t, "kvm1", "secret-dumpxml", uuid)
	}
	const lost = "Passphrase may be lost"
	for _, change := range []func(){
		func() { config(id, "value_wo = \"typed again\"\nprivate = false") },
		func() { config(id+"-2", `value_wo = "typed again"`) },
	} {
		change()
		out := c.Fail(t, "plan")
		if refused(out); !strings.Contains(out, lost) {
			t.Error(out)
		}
	}

	// Terraform tells no plan that it replaces what is tainted.
	config(id, `value_wo = "typed again"`)
	c.Run(t, "taint", address)
	refused(c.Fail(t, "apply"))
	c.Run(t, "untaint", address)
	refused(c.Fail(t, "apply", "-replace="+address))
	if out, empty := c.Empty(t); !empty {
		t.Error(out)
	}

	config(id, "value_wo = \"hush\"\nvalue_wo_version = \"1\"\nprivate = false")
	out := c.Run(t, "apply")
	if !strings.Contains(out, "Passphrase of disks is replaced") || strings.Contains(out, lost) {
		t.Error(out)
	}
	now := secretID(t, c)
	if value := l.Virsh(t, "kvm1", "secret-get-value", "--plain", now); now == uuid || value != "hush" {
		t.Errorf("secret %s, which was %s, has another value", now, uuid)
	}
	if out, empty := c.Empty(t); !empty {
		t.Error(out)
	}
	l.Define(t, "kvm1", encryptedVM(id+"-now", now))
	out = c.Fail(t, "apply", "-replace="+address)
	if !strings.Contains(out, id+"-now") || l.SecretUUID(t, "kvm1", id) != now {
		t.Error(out)
	}

	// The first version after an import doesn't say that the value is the passphrase, the next one does.
	imported := acctest.NewCLI(t)
	again := func(value, version, private string) {
		t.Helper()
		imported.Config(t, acctest.OneHost(l)+passphrase(id, fmt.Sprintf("value_wo = %q\nvalue_wo_version = %q\nprivate = %s",
			value, version, private))+fmt.Sprintf("import {\n  to = %s\n  id = \"volume/%s\"\n}\n", address, id))
	}
	again("typed again", "1", "true")
	if out := imported.Fail(t, "plan"); !strings.Contains(out, lost) {
		t.Error(out)
	}
	for _, step := range []struct{ version, says, value string }{
		{"1", "Passphrase is kept", "hush"}, {"2", "Passphrase of disks is replaced", "typed again"},
	} {
		again("typed again", step.version, "false")
		if out := imported.Run(t, "apply"); !strings.Contains(out, step.says) {
			t.Errorf("%q isn't in %s", step.says, out)
		}
		if value := l.Virsh(t, "kvm1", "secret-get-value", "--plain", now); value != step.value {
			t.Errorf("version %s: the value is %q", step.version, value)
		}
		if out, empty := imported.Empty(t); !empty {
			t.Errorf("version %s: %s", step.version, out)
		}
	}
	l.Virsh(t, "kvm1", "undefine", id+"-now")
	l.Virsh(t, "kvm1", "undefine", id)
	c.Run(t, "destroy")
	if left := l.SecretUUID(t, "kvm1", id); left != "" {
		t.Errorf("host kvm1 has secret %s", left)
	}
}

// TestAccSecret_keptData: a secret isn't destroyed together with a VM whose disk or TPM state stays and can't be read
// without the secret.
func TestAccSecret_keptData(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	c := acctest.NewCLI(t)
	config := func(disk, tpm string) {
		t.Helper()
		c.Config(t, acctest.OneHost(l)+passphrase(name, `value_wo = "hush"`)+fmt.Sprintf(`
resource "virtfleet_secret" "tpm" {
  usage    = "vtpm"
  usage_id = %[1]q
  value_wo = "hush"
}
resource "virtfleet_virtual_machine" "this" {
  name         = %[1]q
  type         = "qemu"
  run_strategy = "Halted"
  memory       = { size = "64Mi" }
  disks = {
    data = { pool = "default", size = "8Mi", encryption = { secret = virtfleet_secret.this.id }, on_destroy = %[2]q }
  }
  devices    = { tpm = { encryption_secret = virtfleet_secret.tpm.id } }
  on_destroy = { tpm_state = %[3]q }
}
`, name, disk, tpm))
	}
	config("keep", "keep")
	c.Run(t, "apply")
	const stays = "Data that is kept needs the secret"
	out := c.Fail(t, "destroy")
	for _, word := range []string{
		"disks.data (/var/lib/libvirt/images/", "the state of the TPM of virtual machine " + name, "terraform state rm",
	} {
		if !strings.Contains(out, word) {
			t.Errorf("%q isn't in %s", word, out)
		}
	}
	if strings.Count(out, stays) != 2 {
		t.Error(out)
	}
	for _, usage := range []string{address, "virtfleet_secret.tpm"} {
		attributes, _ := c.State(t, usage)
		l.Virsh(t, "kvm1", "secret-dumpxml", fmt.Sprint(attributes["id"]))
	}
	l.Virsh(t, "kvm1", "dominfo", name)
	config("delete", "keep")
	c.Run(t, "apply")
	if out := c.Fail(t, "destroy"); strings.Count(out, stays) != 1 || !strings.Contains(out, "the state of the TPM") {
		t.Error(out)
	}
	config("delete", "delete")
	c.Run(t, "apply")
	if out, empty := c.Empty(t); !empty {
		t.Error(out)
	}
	if out := c.Run(t, "destroy"); strings.Contains(out, stays) {
		t.Error(out)
	}
	for _, list := range []string{"secret-list", "list --all", "vol-list default"} {
		if left := l.Virsh(t, "kvm1", strings.Fields(list)...); strings.Contains(left, name) {
			t.Errorf("left: %s", left)
		}
	}
}
