package virtualmachine_test

import (
	"errors"
	"fmt"
	"regexp"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccVirtualMachine_mediumOnSATA: a VM that boots from SATA has the medium in a drive on SATA, which gets another
// medium while the VM runs. So has a VM whose disks take all places on IDE.
func TestAccVirtualMachine_mediumOnSATA(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	full := name + "-full"
	config := func(data string) string {
		return acctest.OneHost(l) + fmt.Sprintf(`
resource "virtfleet_storage_pool" "vms" {
  name   = %[1]q
  type   = "dir"
  target = { path = "/var/lib/libvirt/%[1]s" }
}
`, name) + guest(l, name).with(hcl{
			"host": quote("kvm1"), "profile": quote("windows-10"), "termination_grace_period": quote("0s"),
			"disks":      `{ root = { pool = virtfleet_storage_pool.vms.name, size = "16Mi" } }`,
			"cloud_init": fmt.Sprintf(`{ user_data = "#cloud-config\n# %s\n" }`, data),
		}).String() + idleVM(l, full).with(hcl{
			"host": quote("kvm1"), "machine_type": quote("pc"),
			"disks": `{ for key in ["a", "b", "d", "e"] : key => {
				pool = virtfleet_storage_pool.vms.name, size = "1Mi", bus = "ide"
			} }`,
			"cloud_init": `{ user_data = "#cloud-config\n" }`,
		}).named("full")
	}
	before := ""
	drive := func(*terraform.State) error {
		for _, of := range [][]string{{"--details"}, {"--details", "--inactive"}} {
			list := l.Virsh(t, "kvm1", append([]string{"domblklist", name}, of...)...)
			found := regexp.MustCompile(`cdrom +sdb +(\S+cloud-init\S+)`).FindStringSubmatch(list)
			if found == nil || found[1] == before {
				return fmt.Errorf("%s: there are\n%s", of, list)
			}
		}
		if err := contains(l.Virsh(t, "kvm1", "domstate", full), "running"); err != nil {
			return err
		}
		return errors.Join(
			contains(l.Virsh(t, "kvm1", "dumpxml", name), "dev='sda' bus='sata'", "dev='sdb' bus='sata'"),
			contains(l.Virsh(t, "kvm1", "dumpxml", full), "dev='hdd' bus='ide'", "dev='sda' bus='sata'"))
	}
	story(t, l, []string{name, full}, resource.TestStep{
		Config: config("one"), ConfigPlanChecks: changes(plancheck.ResourceActionCreate), Check: drive,
	}, resource.TestStep{
		PreConfig: func() {
			list := l.Virsh(t, "kvm1", "domblklist", name, "--details")
			before = regexp.MustCompile(`\S+cloud-init\S+`).FindString(list)
		},
		Config: config("two"), ConfigPlanChecks: changes(plancheck.ResourceActionUpdate), Check: drive,
	})
}
