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
)

// TestAccVirtualMachine_ceph: an RBD image is made and grown through a storage pool with cephx, a VM runs from it, and
// moves while it runs, to a host that gets the secret with it. Then the secret and the pool are on that host, too.
func TestAccVirtualMachine_ceph(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	ceph := l.Ceph(t, name)
	base := func(hosts string) string {
		return providerBlock(l, "") + fmt.Sprintf(`
resource "virtfleet_secret" "ceph" {
  usage            = "ceph"
  usage_id         = %[1]q
  value_base64_wo  = %[2]q
  value_wo_version = "1"
  private          = false
  hosts            = %[7]s
}
resource "virtfleet_storage_pool" "ceph" {
  name  = %[1]q
  type  = "rbd"
  hosts = %[7]s
  source = {
    name  = %[3]q
    hosts = [{ name = %[4]q, port = %[5]d }]
    auth  = { type = "ceph", username = %[6]q, secret = virtfleet_secret.ceph.id }
  }
}
`, name, ceph.Key, ceph.Pool, ceph.Host, ceph.Port, ceph.Username, hosts)
	}
	const one, both = `["kvm1"]`, `["kvm1", "kvm2"]`
	config := func(host, size string) string {
		return base(one) + fmt.Sprintf(`
resource "virtfleet_volume" "root" {
  name = "root"
  pool = virtfleet_storage_pool.ceph.name
  size = %q
}
`, size) + idleVM(l, name).with(hcl{
			"host": quote(host),
			"disks": fmt.Sprintf(`{ root = {
				network = {
					protocol = "rbd", name = "%s/${virtfleet_volume.root.name}", hosts = ["%s:%d"]
					auth     = { username = %q, secret = virtfleet_secret.ceph.id }
				}
				cache = "none", format = "raw"
			} }`, ceph.Pool, ceph.Host, ceph.Port, ceph.Username),
		}).String()
	}
	byID := base(one) + idleVM(l, name).with(hcl{"disks": fmt.Sprintf(`{ root = { volume = "%s/root" } }`, name)}).String()
	has := func(host string, mib int) resource.TestCheckFunc {
		return func(*terraform.State) error {
			return errors.Join(contains(l.Virsh(t, host, "domblkinfo", name, "vda"), fmt.Sprint(mib<<20)),
				contains(ceph.RBD(t, "info", ceph.Pool+"/root"), fmt.Sprintf("size %d MiB", mib)))
		}
	}
	story(t, l, []string{name}, resource.TestStep{
		Config: base(one),
	}, resource.TestStep{
		// What is in a pool of RBD images is no file.
		PreConfig: func() {
			ceph.RBD(t, "create", "--size", "1M", ceph.Pool+"/root")
			l.Virsh(t, "kvm1", "pool-refresh", name)
		},
		Config: byID, ExpectError: inOrder("network", `protocol = "rbd"`, `"`+ceph.Pool+`/root"`),
	}, resource.TestStep{
		PreConfig: func() {
			ceph.RBD(t, "rm", ceph.Pool+"/root")
			l.Virsh(t, "kvm1", "pool-refresh", name)
		},
		Config: config("kvm1", "16Mi"), ConfigPlanChecks: changes(plancheck.ResourceActionCreate),
		ConfigStateChecks: []statecheck.StateCheck{know("status", exactly("Running"))},
		Check: resource.ComposeTestCheckFunc(has("kvm1", 16), look(t, l, "kvm1", name,
			"<auth username='libvirt'>", "<secret type='ceph'")),
	}, resource.TestStep{
		Config: config("kvm1", "32Mi"), Check: has("kvm1", 32),
	}, resource.TestStep{
		Config: config("kvm2", "32Mi"), ConfigPlanChecks: changes(plancheck.ResourceActionUpdate),
		ConfigStateChecks: []statecheck.StateCheck{know("current_host", exactly("kvm2"))},
		Check: resource.ComposeTestCheckFunc(has("kvm2", 32), func(s *terraform.State) error {
			id := s.RootModule().Resources["virtfleet_secret.ceph"].Primary.ID
			if value := l.Virsh(t, "kvm2", "secret-get-value", id); strings.TrimSpace(value) != ceph.Key {
				return errors.New("the secret on kvm2 has another value")
			}
			return nil
		}),
	}, resource.TestStep{
		Config: base(both), Check: func(*terraform.State) error {
			if left := ceph.RBD(t, "ls", ceph.Pool); left != "" {
				return fmt.Errorf("the pool still has %s", left)
			}
			return contains(l.Virsh(t, "kvm2", "pool-info", name), "running")
		},
	})
}
