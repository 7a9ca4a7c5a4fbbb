package virtualmachine_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccVirtualMachine_plannedObjects: what a VM needs on its host may come with the same apply, whether its name is
// known in the plan or not: networks, bridges, storage pools and secrets, for a new VM and for one that moves. How QEMU
// is edited by hand to authenticate to a server is drift, which the next apply repairs.
func TestAccVirtualMachine_plannedObjects(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	bridge := "vb" + name[len(name)-6:]
	config := func(hosts, host, interfaces string) string {
		return acctest.Config(l) + fmt.Sprintf(`
resource "virtfleet_network" "lan" {
  name    = "%[1]s-lan"
  hosts   = %[2]s
  bridge  = %[3]q
  forward = { mode = "isolated" }
}
resource "virtfleet_network" "any" {
  name    = "%[1]s-any"
  hosts   = %[2]s
  forward = { mode = "isolated" }
}
resource "virtfleet_storage_pool" "vms" {
  name   = %[1]q
  type   = "dir"
  hosts  = %[2]s
  target = { path = "/var/lib/libvirt/%[1]s" }
}
resource "virtfleet_secret" "ceph" {
  usage            = "ceph"
  usage_id         = %[1]q
  hosts            = %[2]s
  value_wo         = "secret"
  value_wo_version = "1"
}
`, name, hosts, bridge) + tinyVM(name).with(hcl{
			"host": quote(host), "run_strategy": quote("Halted"), "interfaces": interfaces,
			"disks": `{
				root = { pool = virtfleet_storage_pool.vms.name, size = "1Mi" }
				data = { network = {
					protocol = "rbd", name = "vms/data", hosts = ["192.0.2.1"]
					auth = { username = "admin", secret = virtfleet_secret.ceph.id }
				} }
			}`,
		}).String()
	}
	const both = `lan = { network = virtfleet_network.lan.name }
		direct = { bridge = virtfleet_network.lan.bridge }`
	has := func(host string, parts ...string) resource.TestCheckFunc {
		return func(*terraform.State) error { return contains(l.Virsh(t, host, "dumpxml", name), parts...) }
	}
	const unedited, anotherSecret = "<auth username='admin'>", "5a1bb6ff-3f0b-4c5e-9d3a-000000000002"
	// byHand has an edit of the definition repaired.
	byHand := func(edit func(xml string) string) resource.TestStep {
		return resource.TestStep{
			PreConfig: func() {
				l.Virsh(t, "kvm2", "define", writeDeviceXML(t, edit(l.Virsh(t, "kvm2", "dumpxml", "--inactive", name))))
			},
			Config:           config(`["kvm1", "kvm2"]`, "kvm2", "{\n"+both+"\n}"),
			ConfigPlanChecks: changes(plancheck.ResourceActionUpdate),
			Check: func(s *terraform.State) error {
				return has("kvm2", unedited, "uuid='"+s.RootModule().Resources["virtfleet_secret.ceph"].Primary.ID+"'")(s)
			},
		}
	}
	uuidOfSecret := regexp.MustCompile(`(<secret type='ceph' uuid=')[^']*`)
	story(t, l, []string{name}, resource.TestStep{
		Config: config(`["kvm1"]`, "kvm1", "{\n"+both+"\nany = { bridge = virtfleet_network.any.bridge }\n}"),
		ConfigPlanChecks: changes(plancheck.ResourceActionCreate,
			plancheck.ExpectUnknownValue(address, acctest.At("interfaces.any.bridge"))),
		Check: has("kvm1", `bridge='`+bridge+`'`, `network='`+name+`-lan'`, `bridge='virbr`),
	}, resource.TestStep{
		Config:           config(`["kvm1"]`, "kvm1", "{\n"+both+"\n}"),
		ConfigPlanChecks: changes(plancheck.ResourceActionUpdate),
	}, resource.TestStep{
		Config: config(`["kvm1"]`, "kvm2", "{\n"+both+"\n}"),
		ExpectError: inOrder(`host "kvm2" has no storage pool`, `host "kvm2" has no such secret`,
			`host "kvm2" has no network`, `host "kvm2" has no bridge`),
	}, resource.TestStep{
		Config:           config(`["kvm1", "kvm2"]`, "kvm2", "{\n"+both+"\n}"),
		ConfigPlanChecks: changes(plancheck.ResourceActionUpdate, planned("current_host", exactly("kvm2"))),
		Check:            has("kvm2", `bridge='`+bridge+`'`, `network='`+name+`-lan'`, "/var/lib/libvirt/"+name+"/"),
	}, byHand(func(xml string) string {
		return strings.Replace(xml, unedited, "<auth username='other'>", 1)
	}), byHand(func(xml string) string {
		return uuidOfSecret.ReplaceAllString(xml, "${1}"+anotherSecret)
	}))
}
