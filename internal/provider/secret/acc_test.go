package secret_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	uid "github.com/google/uuid"
	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"
	"github.com/hashicorp/terraform-plugin-testing/tfjsonpath"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

func TestMain(m *testing.M) { acctest.Main(m) }

const address = "virtfleet_secret.this"

// written begins the warning that a host gets the value in the configuration without a new version.
const written = "Value in the configuration is written: "

func config(l *lab.Lab, id, more string) string {
	return acctest.Config(l) + fmt.Sprintf(`
resource "virtfleet_secret" "this" {
  usage    = "ceph"
  usage_id = %q
  %s
}
`, id, more)
}

// define defines a secret of a host without this provider.
func define(t *testing.T, l *lab.Lab, host, id, uuid string) {
	t.Helper()
	l.Run(t, host, "sh", "-c", fmt.Sprintf("echo \"<secret ephemeral='no' private='no'><uuid>%s</uuid><usage "+
		"type='ceph'><name>%s</name></usage></secret>\" >/run/%[2]s.xml && virsh secret-define /run/%[2]s.xml && "+
		"rm /run/%[2]s.xml", uuid, id))
}

// begin leaves on a host what a run leaves that is killed before it has set the value of the secret.
func begin(t *testing.T, l *lab.Lab, host, id, uuid string) {
	t.Helper()
	l.Run(t, host, "sh", "-c", fmt.Sprintf("echo \"<secret ephemeral='yes' private='no'><uuid>%s</uuid>"+
		"<description>virtfleet is creating this secret</description><usage type='ceph'><name>%s</name></usage></secret>\" "+
		">/run/%[2]s.xml && virsh secret-define /run/%[2]s.xml && rm /run/%[2]s.xml", uuid, id))
}

// TestAccSecret: one UUID on every host, a value that is written and never read, repair where it is missing.
func TestAccSecret(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	silent := acctest.Block{Lab: l, Hosts: []acctest.Host{
		{Of: l.Host("kvm1")},
		{Of: l.Host("kvm2")},
		{Name: "silent", URI: "qemu+ssh://root@" + l.Host("kvm1").Address + ":9/system"},
	}}.String()
	without := func(answers, doesnt string) string {
		return acctest.Block{Lab: l, Settings: `on_unreachable = "keep"`, Hosts: []acctest.Host{
			{Of: l.Host(answers)},
			{Name: doesnt, URI: "qemu+ssh://root@" + l.Host(doesnt).Address + ":9/system"},
		}}.String()
	}
	id, otherUUID := lab.Name(t), uid.NewString()
	on := func(want string, hosts ...string) resource.TestCheckFunc {
		return func(*terraform.State) error {
			for _, host := range []string{"kvm1", "kvm2"} {
				have := l.SecretUUID(t, host, id)
				if wanted := strings.Contains(strings.Join(hosts, " "), host); wanted != (have != "") {
					return fmt.Errorf("host %s has secret %q", host, have)
				}
				if have == "" {
					continue
				}
				if have != l.SecretUUID(t, hosts[0], id) {
					return fmt.Errorf("host %s has another UUID", host)
				}
				if value := l.Virsh(t, host, "secret-get-value", "--plain", have); value != want {
					return fmt.Errorf("the value on host %s differs", host)
				}
			}
			return nil
		}
	}
	described := func(host, want, more string) resource.TestCheckFunc {
		return func(*terraform.State) error {
			xml := l.Virsh(t, host, "secret-dumpxml", l.SecretUUID(t, host, id))
			_, description, _ := strings.Cut(xml, "<description>")
			if description, _, _ = strings.Cut(description, "</description>"); description != want ||
				!strings.Contains(xml, more) {
				return fmt.Errorf("host %s has %s", host, xml)
			}
			return nil
		}
	}
	update := plancheck.ResourceActionUpdate
	open := func(more string) string { return config(l, id, "private = false\n"+more) }
	last := open("value_wo = \"last\"\nvalue_wo_version = \"4\"\nhosts = [\"kvm2\"]")
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: acctest.Factories(t),
		CheckDestroy:             on(""),
		Steps: []resource.TestStep{
			{Config: open(""), ExpectError: regexp.MustCompile(`value_wo`)},
			{
				Config:   open("value_base64_wo = \"***\"\nhosts = [\"kvm1\"]"),
				PlanOnly: true, ExpectError: regexp.MustCompile(`isn't Base64`),
			},
			{
				Config: open("value_base64_wo = \"***\"\nhosts = [\"kvm1\"]"), ExpectError: regexp.MustCompile(`isn't Base64`),
			},
			{ // If one host has another secret of that usage, none gets this one.
				PreConfig:   func() { define(t, l, "kvm2", id, otherUUID) },
				Config:      open("value_wo = \"hush\""),
				ExpectError: regexp.MustCompile(`(?s)Host:\s+kvm2.*import \{`),
			},
			{
				PreConfig: func() {
					if left := l.SecretUUID(t, "kvm1", id); left != "" {
						t.Errorf("host kvm1 has secret %s of the create that failed", left)
					}
					l.Virsh(t, "kvm2", "secret-undefine", otherUUID)
				},
				Config:      open(fmt.Sprintf("value_wo = %q\nhosts = [\"kvm1\"]", strings.Repeat("x", 70_000))),
				ExpectError: regexp.MustCompile(`Unable\s+to\s+create\s+secret`), // libvirt sends no more than 64 KiB.
			},
			{
				PreConfig: func() {
					if left := l.SecretUUID(t, "kvm1", id); left != "" {
						t.Errorf("host kvm1 has secret %s, whose value couldn't be set", left)
					}
				},
				Config: open("value_wo = \"hush\"\nhosts = [\"kvm1\"]"), Check: on("hush", "kvm1"),
				ConfigStateChecks: []statecheck.StateCheck{
					statecheck.ExpectKnownValue(address, tfjsonpath.New("value_wo"), knownvalue.Null()),
				},
			},
			{ // The only value isn't removed while the host that is to have it doesn't answer.
				Config: strings.Replace(open("value_wo = \"hush\"\nhosts = [\"kvm2\"]"), acctest.Config(l),
					without("kvm1", "kvm2"), 1),
				ExpectError: regexp.MustCompile(`no\s+other\s+host\s+has\s+the\s+secret`),
			},
			{ // Nor does another host get another value while the one that has it doesn't answer.
				Config: strings.Replace(open("value_wo = \"typed again\"\nhosts = [\"kvm2\"]"), acctest.Config(l),
					without("kvm2", "kvm1"), 1),
				ExpectError: regexp.MustCompile(`the\s+value\s+is\s+unknown\s+while\s+host\s+"kvm1"`),
			},
			{ // Another value in the configuration isn't written without another version, to a new host neither.
				Config:           open("value_wo = \"typed again\"\ndescription = \"for Ceph\""),
				ConfigPlanChecks: acctest.Action(address, update), Check: on("hush", "kvm1", "kvm2"),
			},
			{
				Config:           open("value_base64_wo = \"bm93\"\nvalue_wo_version = \"2\""),
				ConfigPlanChecks: acctest.Action(address, update), Check: on("now", "kvm1", "kvm2"),
			},
			{
				ResourceName: address, ImportState: true, ImportStateId: "ceph/" + id, ImportStateVerify: true,
				ImportStateVerifyIgnore: []string{"value_wo_version"},
			},
			{
				PreConfig:        func() { l.Virsh(t, "kvm2", "secret-undefine", l.SecretUUID(t, "kvm2", id)) },
				Config:           open("value_wo = \"typed again\"\nvalue_wo_version = \"2\""),
				ConfigPlanChecks: acctest.Action(address, update), Check: on("now", "kvm1", "kvm2"),
			},
			{ // Without its value, it counts as missing.
				PreConfig: func() {
					uuid := l.SecretUUID(t, "kvm2", id)
					l.Virsh(t, "kvm2", "secret-undefine", uuid)
					begin(t, l, "kvm2", id, uuid)
				},
				Config:           open("value_wo = \"typed again\"\nvalue_wo_version = \"2\""),
				ConfigPlanChecks: acctest.Action(address, update),
				Check:            resource.ComposeTestCheckFunc(on("now", "kvm1", "kvm2"), described("kvm2", "", "ephemeral='no'")),
			},
			{
				Config:           open("value_wo = \"now\"\nvalue_wo_version = \"2\"\ndescription = \"for Ceph\""),
				ConfigPlanChecks: acctest.Action(address, update), Check: described("kvm2", "for Ceph", "ephemeral='no'"),
			},
			{ // Another description, by hand, is drift. The value stays.
				PreConfig:        func() { define(t, l, "kvm2", id, l.SecretUUID(t, "kvm1", id)) },
				Config:           open("value_wo = \"typed again\"\nvalue_wo_version = \"2\"\ndescription = \"for Ceph\""),
				ConfigPlanChecks: acctest.Action(address, update),
				Check: resource.ComposeTestCheckFunc(on("now", "kvm1", "kvm2"),
					described("kvm2", "for Ceph", "ephemeral='no'")),
			},
			{
				Config: open("value_wo = \"now\"\nvalue_wo_version = \"2\"") + strings.Replace(strings.TrimPrefix(
					open("value_wo = \"other\""), acctest.Config(l)), `"this"`, `"other"`, 1),
				ExpectError: regexp.MustCompile(`(?s)import \{\s+to = virtfleet_secret\.this\s+id = "ceph/`),
			},
			{
				Config:           open("value_wo = \"now\"\nvalue_wo_version = \"2\"\nhosts = [\"kvm2\"]"),
				ConfigPlanChecks: acctest.Action(address, update), Check: on("now", "kvm2"),
			},
			{ // A VM that moved has brought a copy to a host outside of hosts: it gets a new value, and goes with the rest.
				PreConfig:        func() { define(t, l, "kvm1", id, l.SecretUUID(t, "kvm2", id)) },
				Config:           open("value_wo = \"later\"\nvalue_wo_version = \"3\"\nhosts = [\"kvm2\"]"),
				ConfigPlanChecks: acctest.Action(address, update), Check: on("later", "kvm1", "kvm2"),
			},
			{ // A host that can't tell whether it has a copy may keep a former value: that one isn't forgotten.
				Config:      strings.Replace(last, acctest.Config(l), silent, 1),
				ExpectError: regexp.MustCompile(`(?s)brought\s+a\s+copy.*silent.*fenced\s+=\s+true`),
			},
			{ // The former version writes its value to the hosts that have the new one.
				Config:           open("value_wo = \"later\"\nvalue_wo_version = \"3\"\nhosts = [\"kvm2\"]"),
				ConfigPlanChecks: acctest.Action(address, update), Check: on("later", "kvm1", "kvm2"),
			},
			{Config: last, ConfigPlanChecks: acctest.Action(address, update), Check: on("last", "kvm1", "kvm2")},
		},
	})
}

// TestAccSecret_stays: the value is nowhere in the state nor in the log. Secrets of hosts outside of hosts stay: no
// move brings a private one.
func TestAccSecret_stays(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	c := acctest.NewCLI(t)
	const value = "correct-horse-battery"
	id := lab.Name(t)
	c.Config(t, config(l, id, fmt.Sprintf("value_wo = %q\nhosts = [\"kvm1\"]", value)))
	trace := c.Trace()
	c.Run(t, "apply")
	for _, file := range []string{trace, filepath.Join(c.Dir, "terraform.tfstate")} {
		said, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range strings.Split(string(said), "\n") {
			if strings.Contains(line, value) {
				t.Errorf("%s has the value: %.300s", filepath.Base(file), line)
			}
		}
	}
	if out, empty := c.Empty(t); !empty {
		t.Errorf("the plan isn't empty: %s", out)
	}
	c.Config(t, config(l, id, "value_wo = \"typed again\"\nhosts = [\"kvm1\", \"kvm2\"]"))
	if out := c.Run(t, "plan"); !strings.Contains(out, written+"ceph/"+id) || strings.Contains(out, "kvm1 lacks") ||
		!strings.Contains(out, "Host kvm2 lacks") {
		t.Error(out)
	}
	own := l.SecretUUID(t, "kvm1", id)
	define(t, l, "kvm2", id, own)
	c.Run(t, "destroy")
	if l.SecretUUID(t, "kvm1", id) != "" || l.SecretUUID(t, "kvm2", id) != own {
		t.Errorf("destroyed in hosts, kvm1 has %q, and kvm2 outside of it %q", l.SecretUUID(t, "kvm1", id),
			l.SecretUUID(t, "kvm2", id))
	}
	l.Virsh(t, "kvm2", "secret-undefine", own)
}

// TestAccSecret_usages: secrets for TLS and for virtual TPMs are created, imported as declared, changed and destroyed.
func TestAccSecret_usages(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	id, usages := lab.Name(t), []string{"tls", "vtpm"}
	config := func(value string) string {
		all := acctest.OneHost(l)
		for _, usage := range usages {
			all += fmt.Sprintf("resource \"virtfleet_secret\" %[1]q {\n  usage = %[1]q\n  usage_id = %[2]q\n  private = false\n"+
				"  value_wo = \"%[1]s-%[3]s\"\n  value_wo_version = %[3]q\n}\n", usage, id, value)
		}
		return all
	}
	imports := ""
	for _, usage := range usages {
		imports += fmt.Sprintf("import {\n  to = virtfleet_secret.%[1]s\n  id = \"%[1]s/%s\"\n}\n", usage, id)
	}
	c, other := acctest.NewCLI(t), acctest.NewCLI(t)
	ids := map[string]string{}
	has := func(value string) {
		t.Helper()
		for _, usage := range usages {
			attributes, _ := c.State(t, "virtfleet_secret."+usage)
			uuid := fmt.Sprint(attributes["id"])
			if before := ids[usage]; before != "" && before != uuid {
				t.Errorf("%s: secret %s is %s now", usage, before, uuid)
			}
			ids[usage] = uuid
			xml := l.Virsh(t, "kvm1", "secret-dumpxml", uuid)
			if !strings.Contains(xml, "<usage type='"+usage+"'>") || !strings.Contains(xml, "<name>"+id+"</name>") {
				t.Errorf("%s: %s", usage, xml)
			}
			if got := l.Virsh(t, "kvm1", "secret-get-value", "--plain", uuid); got != usage+"-"+value {
				t.Errorf("%s: the value isn't the one of version %s", usage, value)
			}
		}
		if out, empty := c.Empty(t); !empty {
			t.Errorf("version %s: %s", value, out)
		}
	}
	c.Config(t, config("1"))
	c.Run(t, "apply")
	has("1")
	other.Config(t, config("1")+imports)
	if out := other.Run(t, "plan"); !strings.Contains(out, "2 to import, 0 to add, 2 to change, 0 to destroy") ||
		strings.Count(out, "+ value_wo_version") != 2 { // No host knows the version.
		t.Error(out)
	}
	c.Config(t, config("2"))
	c.Run(t, "apply")
	has("2")
	c.Run(t, "destroy")
	if left := l.Virsh(t, "kvm1", "secret-list"); strings.Contains(left, id) {
		t.Errorf("left: %s", left)
	}
}

// TestAccSecret_passphrase: a secret isn't destroyed while it is the passphrase of a VM's disk. It can be replaced, by
// one of which a new version says that it has the passphrase.
func TestAccSecret_passphrase(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	id := lab.Name(t)
	config := func(more string) string {
		return acctest.OneHost(l) + fmt.Sprintf("resource \"virtfleet_secret\" \"this\" {\n  usage = \"volume\"\n"+
			"  usage_id = %q\n  %s\n}\n", id, more)
	}
	c := acctest.NewCLI(t)
	secretID := func() string {
		attributes, _ := c.State(t, address)
		return fmt.Sprint(attributes["id"])
	}
	c.Config(t, config(`value_wo = "hush"`))
	c.Run(t, "apply")
	before := secretID()
	l.Define(t, "kvm1", fmt.Sprintf(`<domain type="qemu"><name>%[1]s</name><memory unit="MiB">32</memory>
		<os><type>hvm</type></os><devices><disk type="file"><driver name="qemu" type="qcow2"/>
		<source file="/var/lib/libvirt/%[1]s"><encryption format="luks"><secret type="passphrase" uuid="%[2]s"/>
		</encryption></source><target dev="vda" bus="virtio"/></disk></devices></domain>`, id, before))
	if out := c.Fail(t, "destroy"); !strings.Contains(out, "passphrase of encrypted disks of") ||
		!strings.Contains(out, id) || !strings.Contains(out, "without it, data that stays can't be read") {
		t.Error(out)
	}
	l.Virsh(t, "kvm1", "secret-dumpxml", before)
	const replaced = "Passphrase of disks is replaced"
	c.Config(t, config("value_wo = \"hush\"\ndescription = \"of the disk\""))
	if out := c.Run(t, "apply"); strings.Contains(out, replaced) || strings.Contains(out, written) {
		t.Error(out)
	}

	// Removed by hand, it is created again with the UUID by which the VM knows it. The plan names the VM: it can't tell
	// whether the value is the one of the disk.
	l.Virsh(t, "kvm1", "secret-undefine", before)
	if out := c.Run(t, "apply"); !strings.Contains(out, written+"volume/"+id) ||
		!strings.Contains(out, "used by virtual machine "+id) || !strings.Contains(out, "0 added, 1 changed, 0 destroyed") {
		t.Error(out)
	}
	l.Virsh(t, "kvm1", "secret-dumpxml", before)
	if out, empty := c.Empty(t); !empty || secretID() != before {
		t.Errorf("secret %s is %s now: %s", before, secretID(), out)
	}

	c.Config(t, config("value_wo = \"loud\"\nvalue_wo_version = \"1\"\ndescription = \"of the disk\""))
	if out := c.Run(t, "plan"); !strings.Contains(out, replaced) || !strings.Contains(out, id) {
		t.Error(out)
	}
	c.Config(t, config("value_wo = \"hush\"\nvalue_wo_version = \"1\"\nprivate = false"))
	if out := c.Run(t, "apply"); !strings.Contains(out, replaced) {
		t.Error(out)
	}
	if now := secretID(); now == before {
		t.Errorf("%s wasn't replaced", now)
	}
	if out, empty := c.Empty(t); !empty {
		t.Error(out)
	}
	l.Virsh(t, "kvm1", "undefine", id)
	c.Run(t, "destroy")
	if left := l.Virsh(t, "kvm1", "secret-list"); strings.Contains(left, id) {
		t.Errorf("left: %s", left)
	}
}

// TestAccSecret_ofTPM: a secret isn't destroyed while the TPM of a VM is encrypted with it.
func TestAccSecret_ofTPM(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	id := lab.Name(t)
	config := func(more string) string {
		return acctest.OneHost(l) + fmt.Sprintf("resource \"virtfleet_secret\" \"this\" {\n  usage = \"vtpm\"\n"+
			"  usage_id = %q\n  %s\n}\n", id, more)
	}
	c := acctest.NewCLI(t)
	c.Config(t, config(`value_wo = "hush"`))
	c.Run(t, "apply")
	uuid := l.SecretUUID(t, "kvm1", id)
	l.Define(t, "kvm1", fmt.Sprintf(`<domain type="qemu"><name>%s</name><memory unit="MiB">32</memory>
		<os><type>hvm</type></os><devices><tpm model="tpm-tis"><backend type="emulator" version="2.0">
		<encryption secret="%s"/></backend></tpm></devices></domain>`, id, uuid))
	if out := c.Fail(t, "destroy"); !strings.Contains(out, "Secret is in use") ||
		!strings.Contains(out, "it is the passphrase of the TPM of virtual machine "+id) {
		t.Error(out)
	}
	l.Virsh(t, "kvm1", "secret-dumpxml", uuid)
	c.Config(t, config("value_wo = \"loud\"\nvalue_wo_version = \"1\""))
	if out := c.Run(t, "plan"); !strings.Contains(out, "Passphrase of TPMs is replaced") || !strings.Contains(out, id) {
		t.Error(out)
	}
	c.Config(t, config(`value_wo = "hush"`))
	if out, empty := c.Empty(t); !empty {
		t.Error(out)
	}
	l.Virsh(t, "kvm1", "secret-undefine", uuid) // Nothing is lost any more, although the VM still names it.
	c.Run(t, "destroy")
	l.Virsh(t, "kvm1", "undefine", id)
	if left := l.Virsh(t, "kvm1", "secret-list"); strings.Contains(left, id) {
		t.Errorf("left: %s", left)
	}
}

// TestAccSecret_otherUUIDs: hosts have secrets of one usage with other UUIDs, as after the configuration was applied to
// each of them alone. What the import and the plan say leads to an empty plan, and both secrets keep UUID and value.
func TestAccSecret_otherUUIDs(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	id := lab.Name(t)
	uuids := map[string]string{"kvm1": uid.NewString(), "kvm2": uid.NewString()}
	for host, uuid := range uuids {
		define(t, l, host, id, uuid)
		l.Virsh(t, host, "secret-set-value", uuid, "--base64", "aHVzaA==")
	}
	block := acctest.Block{Lab: l, Hosts: []acctest.Host{{Of: l.Host("kvm1")}, {Of: l.Host("kvm2")}}}.String()
	secret := func(key, more string) string {
		return fmt.Sprintf("resource \"virtfleet_secret\" %q {\n  usage = \"ceph\"\n  usage_id = %q\n  private = false\n"+
			"  value_wo = \"hush\"\n  value_wo_version = \"1\"\n  %s\n}\n", key, id, more)
	}
	says := func(out string, words ...string) {
		t.Helper()
		out = strings.NewReplacer("│", "", "╷", "", "╵", "").Replace(out)
		out = strings.Join(strings.Fields(out), " ")
		for _, word := range words {
			if !strings.Contains(out, word) {
				t.Errorf("%q isn't in %s", word, out)
			}
		}
	}
	const advice = "Declare another virtfleet_secret with the same usage"
	c := acctest.NewCLI(t)
	c.Config(t, block+secret("this", ""))
	says(c.Run(t, "import", address, "ceph/"+id), advice, "with UUID "+uuids["kvm1"], "with UUID "+uuids["kvm2"])
	c.Config(t, block+secret("this", `hosts = ["kvm1", "kvm2"]`))
	says(c.Fail(t, "plan"), advice, "Host: kvm2")
	c.Config(t, block+secret("this", `hosts = ["kvm1"]`)+secret("other", `hosts = ["kvm2"]`))
	c.Run(t, "import", "virtfleet_secret.other", uuids["kvm2"])
	c.Run(t, "apply")
	if out, empty := c.Empty(t); !empty {
		t.Errorf("the plan isn't empty: %s", out)
	}
	for host, uuid := range uuids {
		if is := l.SecretUUID(t, host, id); is != uuid {
			t.Errorf("%s has secret %s, want %s", host, is, uuid)
		}
		if is := l.Virsh(t, host, "secret-get-value", "--plain", uuid); is != "hush" {
			t.Errorf("the value on %s differs", host)
		}
	}
	c.Run(t, "destroy")
	for host := range uuids {
		if is := l.SecretUUID(t, host, id); is != "" {
			t.Errorf("%s still has secret %s", host, is)
		}
	}
}
