package virtualmachine_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccVirtualMachine_iscsi: QEMU and the storage pool authenticate to an iSCSI target with a secret of the host. If
// its value is wrong, neither leaves anything that blocks the next apply. A VM moves to where the secret is,
// and nowhere else, while its guest keeps what it has written to the disk.
func TestAccVirtualMachine_iscsi(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	san := l.ISCSI(t, name, 16<<20)
	portal := fmt.Sprintf("%s:%d", san.Host, san.Port)
	password, version := "other-than-let-in", "1"
	base := func(hosts string) string {
		return providerBlock(l, "") + fmt.Sprintf(`
resource "virtfleet_secret" "chap" {
  usage            = "iscsi"
  usage_id         = %[1]q
  value_wo         = %[2]q
  value_wo_version = %[8]q
  hosts            = %[3]s
}
resource "virtfleet_storage_pool" "san" {
  name  = %[1]q
  type  = "iscsi-direct"
  hosts = %[3]s
  source = {
    hosts     = [{ name = %[4]q, port = %[5]d }]
    devices   = [%[6]q]
    initiator = "iqn.2026-01.org.virtfleet.lab:hosts"
    auth      = { type = "chap", username = %[7]q, secret = virtfleet_secret.chap.id }
  }
}
`, name, password, hosts, san.Host, san.Port, san.IQN, san.Username, version)
	}
	first := "iqn.2026-01.org.virtfleet.lab:vm-" + name
	second := first + "-renamed"
	vm := idleVM(l, name)
	config := func(host, secretOn, initiator string) string {
		return base(secretOn) + vm.with(hcl{
			"host": quote(host), "update_policy": quote("Restart"), "devices": consoleOf(name),
			"disks": fmt.Sprintf(`{ root = {
				network = {
					protocol  = "iscsi", name = "%s/1", hosts = [%q]
					auth      = { username = %q, secret = virtfleet_secret.chap.id }
					initiator = %q
				}
				cache = "none", format = "raw"
			} }`, san.IQN, portal, san.Username, initiator),
		}).String()
	}
	const one, both = `["kvm1"]`, `["kvm1", "kvm2"]`
	runs := func(host, initiator string) resource.TestCheckFunc {
		defined := look(t, l, host, name, "<auth username='"+san.Username+"'>", "<secret type='iscsi'",
			"<iqn name='"+initiator+"'/>")
		return resource.ComposeTestCheckFunc(defined, func(*terraform.State) error {
			return errors.Join(contains(l.Virsh(t, host, "domblkinfo", name, "vda"), fmt.Sprint(16<<20)),
				contains(l.Virsh(t, host, "vol-list", name), "unit:0:0:1"),
				contains(san.Sessions(t), initiator+" "))
		})
	}
	// nothing is left of a pool or a VM that the target didn't let in.
	nothing := func() {
		for _, list := range []string{"pool-list", "list"} {
			if left := l.Virsh(t, "kvm1", list, "--all", "--name"); strings.Contains(left, name) {
				t.Errorf("left on kvm1: %s", left)
			}
		}
	}
	wrongPool, wrongVM := base(one), config("kvm1", one, first)
	password, version = san.Password, "2"
	created := config("kvm1", one, first)
	password, version = "another-one", "3"
	broken := config("kvm1", one, first)
	password, version = san.Password, "4"
	idle, idleElsewhere := config("kvm1", one, first), config("kvm2", one, first)
	vm = keeperOfData(l, name) // It boots when it logs in by its second name.
	story(t, l, []string{name}, resource.TestStep{
		PreConfig: func() {
			out, err := l.Host("kvm1").Run(t.Context(), "qemu-img", "info", "iscsi://"+portal+"/"+san.IQN+"/1")
			if err == nil || !strings.Contains(err.Error(), "Authentication failure") {
				t.Fatalf("the target lets in everyone: %s, %v", out, err)
			}
		},
		Config: wrongPool, ExpectError: inOrder(`Unable to create storage pool "`+name, "Authentication failure",
			"Host: kvm1", "source.auth.username", "virtfleet_secret", "value_wo_version"),
	}, resource.TestStep{
		PreConfig: nothing,
		Config:    wrongVM, ExpectError: inOrder("Unable to create virtual machine",
			"nothing of it was left on the host", "Authentication failure", "Virtual machine: "+name, "Host: kvm1"),
	}, resource.TestStep{
		PreConfig: nothing,
		Config:    created, ConfigPlanChecks: changes(plancheck.ResourceActionCreate),
		ConfigStateChecks: []statecheck.StateCheck{know("status", exactly("Running"))},
		Check:             runs("kvm1", first),
	}, resource.TestStep{
		ResourceName: address, ImportState: true, ImportStateVerify: true, ImportStateId: name,
		ImportStateVerifyIgnore: readWhereDeclared("run_strategy", "timeouts", "status_reason", "host", "update_policy"),
	}, resource.TestStep{
		// A pool that exists and can't log in any more stays, and starts when it can again. The VM runs on.
		PreConfig: func() { l.Virsh(t, "kvm1", "pool-destroy", name) },
		Config:    broken, ExpectError: inOrder(`Unable to update storage pool "`+name, "Authentication failure",
			"Host: kvm1", "value_wo_version"),
	}, resource.TestStep{
		PreConfig: func() {
			if is := l.Virsh(t, "kvm1", "pool-info", name); !strings.Contains(is, "inactive") {
				t.Errorf("the pool that couldn't log in is %s", is)
			}
		},
		Config: idle, ConfigPlanChecks: changes(plancheck.ResourceActionNoop), Check: runs("kvm1", first),
	}, resource.TestStep{
		// Another name by which the VM logs in is drift.
		PreConfig: func() {
			acctest.ImportGenerated(t, providerBlock(l, ""), map[string]string{"virtfleet_storage_pool.san": name})
			xml := l.Virsh(t, "kvm1", "dumpxml", "--inactive", "--security-info", name)
			l.Virsh(t, "kvm1", "define", writeDeviceXML(t, strings.Replace(xml, first, first+"-by-hand", 1)))
		},
		Config: idle, ConfigPlanChecks: changes(plancheck.ResourceActionUpdate),
		Check: runs("kvm1", first),
	}, resource.TestStep{
		Config:      idleElsewhere,
		ExpectError: inOrder("DisksNotLiveMigratable", "no such secret", "virtfleet_secret"),
	}, resource.TestStep{
		Config: config("kvm1", both, second), ConfigPlanChecks: changes(plancheck.ResourceActionUpdate),
		Check: resource.ComposeTestCheckFunc(runs("kvm1", second), keepsData(t, l, "kvm1", name, true)),
	}, resource.TestStep{
		Config: config("kvm2", both, second), ConfigPlanChecks: changes(plancheck.ResourceActionUpdate),
		ConfigStateChecks: []statecheck.StateCheck{know("current_host", exactly("kvm2"))},
		Check:             resource.ComposeTestCheckFunc(runs("kvm2", second), keepsData(t, l, "kvm2", name, false)),
	})
}

// keeperOfData is a VM whose guest writes to its first disk, and says again and again whether it still holds that. Its
// console has to be that of consoleOf.
func keeperOfData(l *lab.Lab, name string) hcl {
	return vmWithKernelWords(l, name, "noagent", "data").with(hcl{"termination_grace_period": quote("0s")})
}

// consoleOf are the devices of a VM whose guest is heard.
func consoleOf(name string) string {
	return fmt.Sprintf("{ serials = { log = { type = \"file\", path = %q } } }", lab.ConsoleLog(name))
}

// keepsData wants that the guest on a host reads what it has written, and that it has booted there, or not.
func keepsData(t *testing.T, l *lab.Lab, host, name string, booted bool) resource.TestCheckFunc {
	t.Helper()
	return func(*terraform.State) error {
		l.AwaitData(t, host, name)
		if said := l.Run(t, host, "cat", lab.ConsoleLog(name)); strings.Contains(said, lab.GuestUp) != booted {
			return fmt.Errorf("the guest on %s said %s; want it booted there: %t", host, said, booted)
		}
		return nil
	}
}
