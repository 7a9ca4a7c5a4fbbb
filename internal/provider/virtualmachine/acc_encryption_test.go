package virtualmachine_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

// encryptedStorage is a pool, and a secret with a passphrase on some hosts.
func encryptedStorage(l *lab.Lab, name, secretOn string) string {
	return providerBlock(l, "") + fmt.Sprintf(`
resource "virtfleet_storage_pool" "vms" {
  name   = %[1]q
  type   = "dir"
  target = { path = "/var/lib/libvirt/%[1]s" }
}
resource "virtfleet_secret" "luks" {
  usage            = "volume"
  usage_id         = %[1]q
  value_wo         = "correct horse"
  value_wo_version = "1"
  hosts            = %[2]s
}
`, name, secretOn)
}

// TestAccVirtualMachine_encryptedOwnDisk: an overlay is made encrypted with its VM, grows under it, moves with it while
// it runs and while it is off, and goes with it. A host that lacks the secret is given it before the VM arrives, unless
// it has another one in its place. Its guest reads everywhere what it wrote.
// The VM's name begins with a digit, and with such a name libvirt makes no encrypted volume.
func TestAccVirtualMachine_encryptedOwnDisk(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := "1" + lab.Name(t)
	image := imageFile(t)
	storage := func(secretOn string) string {
		return encryptedStorage(l, name, secretOn) + fmt.Sprintf(`
resource "virtfleet_image" "base" {
  name   = "base"
  pool   = virtfleet_storage_pool.vms.name
  source = { file = %q }
}
`, image)
	}
	config := func(secretOn, host, size, strategy string) string {
		return storage(secretOn) + guest(l, name).with(hcl{
			"host": quote(host), "run_strategy": quote(strategy), "guest_agent": "{ enabled = true }",
			"termination_grace_period": quote("1m0s"), "disks": fmt.Sprintf(`{ root = {
				pool = virtfleet_storage_pool.vms.name, image = virtfleet_image.base.id, size = %q
				encryption = { secret = virtfleet_secret.luks.id }
			} }`, size),
		}).String()
	}
	const readable, text = "\n  private          = false", "a secret of the guest"
	const one, other = `["kvm1"]` + readable, `["kvm2"]` + readable
	file := func(s *terraform.State) string {
		return s.RootModule().Resources[address].Primary.Attributes["disks.root.path"]
	}
	encrypted := func(host string) resource.TestCheckFunc {
		return func(s *terraform.State) error {
			return errors.Join(
				contains(l.Run(t, host, "qemu-img", "info", "-U", file(s)), "encrypted: yes", "backing file: "),
				contains(l.Virsh(t, host, "dumpxml", "--inactive", name), "<encryption format='luks'"))
		}
	}
	guestSees := func(host, script, want string) resource.TestCheckFunc {
		return func(*terraform.State) error {
			return contains(outputInGuest(t, l, host, name, script), want)
		}
	}
	broughtTo := func(host string) resource.TestCheckFunc {
		return func(s *terraform.State) error {
			id := s.RootModule().Resources["virtfleet_secret.luks"].Primary.ID
			if value := l.Virsh(t, host, "secret-get-value", "--plain", id); value != "correct horse" {
				return fmt.Errorf("the secret on %s has another value", host)
			}
			return nil
		}
	}
	disk := ""
	const read = "head -c 21 /dev/vda"
	story(t, l, []string{name}, resource.TestStep{
		Config:      config(one, "kvm2", "48Mi", "Always"),
		ExpectError: inOrder(`host "kvm2"`, "it has no secret", "virtfleet_secret"),
	}, resource.TestStep{
		Config: config(one, "kvm1", "48Mi", "Always"), ConfigPlanChecks: changes(plancheck.ResourceActionCreate),
		ConfigStateChecks: []statecheck.StateCheck{know("status", exactly("Running"))},
		Check: resource.ComposeTestCheckFunc(encrypted("kvm1"),
			guestSees("kvm1", "until [ -b /dev/vda ]; do sleep 0.1; done; "+
				"printf '"+text+"' | dd of=/dev/vda conv=notrunc,fsync 2>/dev/null; "+read, text),
			func(s *terraform.State) error {
				if out := l.Run(t, "kvm1", "sh", "-c", "grep -c '"+text+"' "+file(s)+" || true"); strings.TrimSpace(out) != "0" {
					return errors.New("the file has what the guest wrote in plain text")
				}
				return nil
			}),
	}, resource.TestStep{
		ResourceName: address, ImportState: true, ImportStateVerify: true, ImportStateId: name,
		ImportStateVerifyIgnore: readWhereDeclared("run_strategy", "timeouts", "status_reason", "host"),
	}, resource.TestStep{
		PreConfig: func() {
			file := "/var/lib/libvirt/" + name + ".xml"
			l.Run(t, "kvm2", "sh", "-c", fmt.Sprintf("echo \"<secret><usage type='volume'><volume>%s</volume>"+
				"</usage></secret>\" >%s && virsh secret-define %[2]s && rm %[2]s", name, file))
		},
		Config:      config(one, "kvm2", "48Mi", "Always"),
		ExpectError: inOrder("DisksNotLiveMigratable", "no such secret", "another secret", "virtfleet_secret"),
	}, resource.TestStep{
		PreConfig: func() {
			l.Run(t, "kvm2", "sh", "-c", "virsh secret-undefine $(virsh -q secret-list | awk '/"+name+"/ { print $1 }')")
		},
		Config: config(one, "kvm1", "64Mi", "Always"), ConfigPlanChecks: changes(plancheck.ResourceActionUpdate),
		Check: guestSees("kvm1", "cat /sys/block/vda/size", fmt.Sprint(64<<20/512)),
	}, resource.TestStep{
		// A run was killed before it had set the secret's value there.
		PreConfig: func() {
			file := "/var/lib/libvirt/" + name + ".xml"
			id := l.SecretUUID(t, "kvm1", name)
			l.Run(t, "kvm2", "sh", "-c", fmt.Sprintf("echo \"<secret ephemeral='yes'><uuid>%s</uuid><description>virtfleet is "+
				"creating this secret</description><usage type='volume'><volume>%s</volume></usage></secret>\" >%s && "+
				"virsh secret-define %[3]s && rm %[3]s", id, name, file))
		},
		Config: config(one, "kvm2", "64Mi", "Always"), ConfigPlanChecks: changes(plancheck.ResourceActionUpdate),
		ConfigStateChecks: []statecheck.StateCheck{know("current_host", exactly("kvm2"))},
		Check:             resource.ComposeTestCheckFunc(encrypted("kvm2"), guestSees("kvm2", read, text), broughtTo("kvm2")),
	}, resource.TestStep{
		// Then only kvm2 has the secret.
		Config: config(other, "kvm2", "64Mi", "Halted"),
		Check: func(*terraform.State) error {
			if left := l.Virsh(t, "kvm1", "secret-list"); strings.Contains(left, name) {
				return fmt.Errorf("kvm1 still has the secret: %s", left)
			}
			return nil
		},
	}, resource.TestStep{
		Config: strings.Replace(config(other, "kvm2", "64Mi", "Halted"), "secret = virtfleet_secret.luks.id",
			`secret = ""`, 1),
		ExpectError: inOrder("Disk would be created again", "encryption"),
	}, resource.TestStep{
		Config: config(other, "kvm2", "80Mi", "Halted"), ExpectError: inOrder("Disk can't grow while the VM is off"),
	}, resource.TestStep{
		Config: config(other, "kvm1", "64Mi", "Halted"), ConfigPlanChecks: changes(plancheck.ResourceActionUpdate),
		ConfigStateChecks: []statecheck.StateCheck{
			know("current_host", exactly("kvm1")), know("location.left_volumes", knownvalue.ListExact(nil)),
		},
		Check: resource.ComposeTestCheckFunc(encrypted("kvm1"), broughtTo("kvm1"), func(s *terraform.State) error {
			disk = file(s)
			return nil
		}),
	}, resource.TestStep{
		// The disk has got another passphrase, as the guide says. The VM starts first, and then its disk grows.
		PreConfig: func() {
			changePassphrase(t, l, "kvm1", disk, "driver=qcow2", "correct horse", "battery staple")
			setPassphrase(t, l, "kvm1", name, "battery staple")
		},
		Config: config(one, "kvm1", "80Mi", "Always"),
		Check: resource.ComposeTestCheckFunc(guestSees("kvm1", read, text),
			guestSees("kvm1", "cat /sys/block/vda/size", fmt.Sprint(80<<20/512))),
	}, resource.TestStep{
		Config: storage(one),
		Check: func(*terraform.State) error {
			for _, host := range []string{"kvm1", "kvm2"} {
				if left := volumes(t, l, host, name); len(left) != 1 || left[0] != "base" {
					return fmt.Errorf("host %s has %q", host, left)
				}
			}
			return nil
		},
	})
	for _, host := range []string{"kvm1", "kvm2"} {
		if left := l.Virsh(t, host, "secret-list"); strings.Contains(left, name) {
			t.Errorf("host %s still has the secret: %s", host, left)
		}
	}
}

// formatLUKS encrypts a block device or a file of a host. qemu-img measures how fast the CPU derives keys, and gives up
// by chance where another process has the CPU meanwhile: it is asked again.
func formatLUKS(t *testing.T, l *lab.Lab, host, path, size, passphrase string) {
	t.Helper()
	var err error
	for range 20 {
		if _, err = l.Host(host).Run(t.Context(), "qemu-img", "create", "-q", "--object", "secret,id=s,data="+passphrase,
			"-f", "luks", "-o", "key-secret=s,iter-time=10", path, size); err == nil {
			return
		}
	}
	t.Fatal(err)
}

// setPassphrase gives a secret of a host another value, as by hand.
func setPassphrase(t *testing.T, l *lab.Lab, host, usageID, passphrase string) {
	t.Helper()
	l.Virsh(t, host, "secret-set-value", l.SecretUUID(t, host, usageID), "--base64",
		base64.StdEncoding.EncodeToString([]byte(passphrase)))
}

// changePassphrase does with a file or block device what the guide about encrypted disks says, with keys that are
// derived fast. As in formatLUKS, qemu-img is asked again.
func changePassphrase(t *testing.T, l *lab.Lab, host, file, driver, from, to string) {
	t.Helper()
	l.Run(t, host, "sh", "-ec", `
cd "$(mktemp -d)"
printf %s "$3" >old
printf %s "$4" >new
in=encrypt.
[ "$2" = driver=qcow2 ] || in=
again() { for _ in 1 2 3 4 5 6 7 8; do if "$@"; then return; fi; done; false; }
again qemu-img amend --object secret,id=old,file=old --object secret,id=new,file=new \
  -o ${in}state=active,${in}new-secret=new,${in}iter-time=10 --image-opts $2,${in}key-secret=old,file.filename=$1
again qemu-img amend --object secret,id=old,file=old --object secret,id=new,file=new \
  -o ${in}state=inactive,${in}old-secret=old --image-opts $2,${in}key-secret=new,file.filename=$1`,
		"sh", file, driver, from, to)
}

// TestAccVirtualMachine_encryptedVolume: a VM opens an encrypted volume and an encrypted block device with its secret,
// and with a wrong value of the secret an error names both. Another secret in its definition is drift. A volume without
// encryption fails the plan.
func TestAccVirtualMachine_encryptedVolume(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	loop := l.LoopDevice(t, "kvm1", name, 16<<20)
	formatLUKS(t, l, "kvm1", loop, "8M", "correct horse")
	config := func(size, strategy, disks string) string {
		return encryptedStorage(l, name, `["kvm1"]`) + fmt.Sprintf(`
resource "virtfleet_volume" "plain" {
  name = "plain"
  pool = virtfleet_storage_pool.vms.name
  host = "kvm1"
  size = "1Mi"
}
resource "virtfleet_volume" "data" {
  name       = "data"
  pool       = virtfleet_storage_pool.vms.name
  host       = "kvm1"
  size       = %q
  format     = "raw"
  encryption = { secret = virtfleet_secret.luks.id }
}
`, size) + idleVM(l, name).with(hcl{
			"host": quote("kvm1"), "update_policy": quote("Restart"), "run_strategy": quote(strategy), "disks": disks,
		}).String()
	}
	data := `{
  data  = { volume = virtfleet_volume.data.id, encryption = { secret = virtfleet_secret.luks.id } }
  vault = { block = "` + loop + `", format = "raw", encryption = { secret = virtfleet_secret.luks.id } }
}`
	vault := fmt.Sprintf("  vault = { block = %q, format = \"raw\", "+
		"encryption = { secret = virtfleet_secret.luks.id } }\n", loop)
	set := func(passphrase string) func() { return func() { setPassphrase(t, l, "kvm1", name, passphrase) } }
	const other = "5a1bb6ff-3f0b-4c5e-9d3a-000000000002"
	sees := func(mib int) resource.TestCheckFunc {
		return resource.ComposeTestCheckFunc(look(t, l, "kvm1", name, "<encryption format='luks'"),
			func(s *terraform.State) error {
				secret := s.RootModule().Resources["virtfleet_secret.luks"].Primary.ID
				return errors.Join(
					contains(l.Virsh(t, "kvm1", "dumpxml", "--inactive", name), "<secret type='passphrase' uuid='"+secret+"'/>"),
					contains(l.Virsh(t, "kvm1", "domblkinfo", name, "vda"), fmt.Sprint(mib<<20)),
					contains(l.Virsh(t, "kvm1", "dumpxml", name), "<source dev='"+loop+"'"))
			})
	}
	story(t, l, []string{name}, resource.TestStep{
		Config: config("16Mi", "Always",
			`{ data = { file = "/nowhere", format = "vmdk", encryption = { secret = "luks" } } }`),
		ExpectError: inOrder("raw and qcow2"),
	}, resource.TestStep{
		Config:            config("16Mi", "Always", strings.Replace(data, vault, "", 1)),
		ConfigPlanChecks:  changes(plancheck.ResourceActionCreate),
		ConfigStateChecks: []statecheck.StateCheck{know("status", exactly("Running"))},
	}, resource.TestStep{
		// Someone has written another passphrase to the host.
		PreConfig: set("battery staple"), Config: config("16Mi", "Always", data),
		ExpectError: inOrder("disks.vault", `disk "vault"`, "volume/"+name, "another value_wo_version"),
	}, resource.TestStep{
		PreConfig: set("correct horse"), Config: config("16Mi", "Always", data),
		ConfigPlanChecks: changes(plancheck.ResourceActionUpdate), Check: sees(16),
	}, resource.TestStep{
		ResourceName: address, ImportState: true, ImportStateVerify: true, ImportStateId: name,
		ImportStateVerifyIgnore: readWhereDeclared("run_strategy", "timeouts", "status_reason", "host",
			"update_policy", "disks.data.volume", "disks.data.file", "disks.data.path", "disks.vault.discard",
			"disks.vault.error_policy", "disks.vault.io"),
	}, resource.TestStep{
		PreConfig: func() {
			xml := l.Virsh(t, "kvm1", "dumpxml", "--inactive", name)
			before, after, _ := strings.Cut(xml, "<secret type='passphrase' uuid='")
			l.Virsh(t, "kvm1", "define", writeDeviceXML(t, before+"<secret type='passphrase' uuid='"+other+after[len(other):]))
		},
		Config: config("24Mi", "Always", data), ConfigPlanChecks: changes(plancheck.ResourceActionUpdate), Check: sees(24),
	}, resource.TestStep{
		Config: config("24Mi", "Halted", data),
	}, resource.TestStep{
		PreConfig: set("battery staple"), Config: config("24Mi", "Always", data),
		ExpectError: inOrder("does not start", `disk "data"`, `disk "vault"`, "volume/"+name, "another value_wo_version"),
	}, resource.TestStep{
		// As the guide changes a passphrase.
		PreConfig: func() {
			for _, file := range []string{"/var/lib/libvirt/" + name + "/data", loop} {
				changePassphrase(t, l, "kvm1", file, "driver=luks", "correct horse", "battery staple")
			}
		},
		Config:            config("24Mi", "Always", data),
		ConfigStateChecks: []statecheck.StateCheck{know("status", exactly("Running"))},
	}, resource.TestStep{
		Config: config("24Mi", "Halted", data),
	}, resource.TestStep{
		Config: config("32Mi", "Halted", data), ExpectError: inOrder("is encrypted", "while a VM runs on it", `"volume"`),
	}, resource.TestStep{
		Config:      config("24Mi", "Halted", strings.Replace(data, "volume.data.id", "volume.plain.id", 1)),
		ExpectError: inOrder("isn't encrypted", "virtfleet_volume"),
	})
}
