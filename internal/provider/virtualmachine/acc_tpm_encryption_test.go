package virtualmachine_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccTPM_encrypted: swtpm encrypts the state of a TPM with a secret of the host. A host that lacks the secret isn't
// given the VM; a move brings the secret to it, if that is possible. Another secret in the definition is drift.
func TestAccTPM_encrypted(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	tf := acctest.NewCLI(t)
	const (
		unknown = "6a9ae2dc-22f3-4d0c-a8d8-0a9b2f1dca77"
		known   = "virtfleet_secret.tpm.id"
		at      = "because of devices.tpm.encryption_secret"
	)
	block := acctest.Config(l) + fmt.Sprintf(`
resource "virtfleet_secret" "tpm" {
  usage    = "vtpm"
  usage_id = %q
  value_wo = "correct horse"
  private  = false
  hosts    = ["kvm1"]
}
`, name)
	config := func(host, secret string, change hcl) {
		t.Helper()
		devices := `{ tpm = {} }`
		if secret != "" {
			devices = fmt.Sprintf(`{ tpm = { encryption_secret = %s } }`, secret)
		}
		tf.Config(t, block+idleVM(l, name).with(hcl{"host": quote(host), "devices": devices}).with(change).String())
	}
	opens := func(host string) {
		t.Helper()
		id := strings.TrimSpace(l.Virsh(t, host, "domuuid", name))
		if out := l.Run(t, host, "pgrep", "-af", "swtpm socket.*/"+id+"/"); !strings.Contains(out, "--key") {
			t.Errorf("swtpm doesn't encrypt: %s", out)
		}
	}

	// The plan refuses a secret that its host lacks, of a new VM and of one that exists.
	config("kvm1", quote(unknown), nil)
	expect(t, tf.Fail(t, "plan"), "No host can take the VM", at, `host "kvm1": it has no secret `+unknown+
		", which its TPM is opened with", "virtfleet_secret")
	config("kvm1", "", hcl{"run_strategy": quote("Halted")})
	tf.Run(t, "apply")
	config("kvm1", quote(unknown), hcl{"run_strategy": quote("Halted")})
	expect(t, tf.Fail(t, "plan"), "Host can't take the change", at, "it has no secret "+unknown)

	config("kvm1", known, nil)
	tf.Run(t, "apply")
	uuid := l.SecretUUID(t, "kvm1", name)
	defined := func(host string) {
		t.Helper()
		for _, flag := range []string{"", "--inactive"} {
			xml := l.Run(t, host, "sh", "-c", "virsh dumpxml "+flag+" "+name)
			if !strings.Contains(xml, "<encryption secret='"+uuid+"'/>") {
				t.Errorf("on %s it is\n%s", host, xml)
			}
		}
	}
	defined("kvm1")
	opens("kvm1")
	noChanges(t, tf)

	tf.Run(t, "state", "rm", address)
	tf.Run(t, "import", address, name)
	state, _ := tf.State(t, address)
	if is := attributeAt(state, "devices.tpm.encryption_secret"); is != uuid {
		t.Errorf("it is imported with %v", is)
	}
	tf.Run(t, "apply") // What only the configuration has.
	noChanges(t, tf)

	// The running VM keeps its secret; that of the definition is put right.
	l.Define(t, "kvm1", strings.Replace(l.Virsh(t, "kvm1", "dumpxml", "--inactive", name), uuid, unknown, 1))
	expectDiffers(t, tf.Plan(t)[address], []edit{{seen: "devices.tpm.encryption_secret"}})
	tf.Run(t, "apply")
	defined("kvm1")
	noChanges(t, tf)
	config("kvm1", quote(""), nil)
	expect(t, tf.Fail(t, "plan"), "Change needs a restart",
		"devices.tpm.encryption_secret: The TPM's state is opened with its secret when the VM starts.")

	// A move brings the secret, unless the target has another one of that usage.
	file := "/var/lib/libvirt/" + name + ".xml"
	l.Run(t, "kvm2", "sh", "-c", fmt.Sprintf("echo \"<secret><usage type='vtpm'><name>%s</name></usage></secret>\" >%s "+
		"&& virsh secret-define %[2]s && rm %[2]s", name, file))
	config("kvm2", known, nil)
	expect(t, tf.Fail(t, "plan"), "TPMNotMigratable", "its TPM is opened with secret "+uuid, "no such secret",
		"another secret", "virtfleet_secret")
	l.Virsh(t, "kvm2", "secret-undefine", l.SecretUUID(t, "kvm2", name))
	expect(t, tf.Run(t, "apply"), "Secrets will be copied to the target first", uuid)
	defined("kvm2")
	opens("kvm2")
	if value := l.Virsh(t, "kvm2", "secret-get-value", "--plain", uuid); value != "correct horse" {
		t.Error("the secret on kvm2 has another value")
	}
	noChanges(t, tf)

	// A VM that is off isn't moved with it.
	config("kvm2", known, hcl{"run_strategy": quote("Halted")})
	tf.Run(t, "apply")
	config("kvm1", known, hcl{"run_strategy": quote("Halted")})
	expect(t, tf.Fail(t, "plan"), "TPMNotMigratable", "it is encrypted with a secret of the host")
	config("kvm2", known, nil)
	tf.Run(t, "apply") // It starts with the state that it came with.
	opens("kvm2")
	noChanges(t, tf)
	destroyAndCheck(t, l, tf, name)
	for _, host := range []string{"kvm1", "kvm2"} {
		if left := l.Virsh(t, host, "secret-list"); strings.Contains(left, name) {
			t.Errorf("host %s still has the secret: %s", host, left)
		}
	}
}
