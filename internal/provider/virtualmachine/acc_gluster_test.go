package virtualmachine_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccVirtualMachine_gluster: two hosts get a pool on a Gluster volume, a VM writes to a disk there, and reads it on
// the other host after a move. A wrong server or volume is refused by the apply, and leaves no pool.
func TestAccVirtualMachine_gluster(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	g := l.Gluster(t, name)
	g.CreateImage(t, "root.qcow2", "qcow2", 16<<20)
	const pool = "virtfleet_storage_pool.gluster"
	on := func(server, volume string) string {
		return providerBlock(l, "") + fmt.Sprintf(`
resource "virtfleet_storage_pool" "gluster" {
  name   = %q
  type   = "gluster"
  source = { name = %q, hosts = [{ name = %q }], dir = "/" }
}
`, name, volume, server)
	}
	base := on(g.Host, g.Volume)
	volume := func(file, size string) string {
		return fmt.Sprintf(`
resource "virtfleet_volume" "root" {
  name = %q
  pool = virtfleet_storage_pool.gluster.name
  size = %q
}
`, file, size)
	}
	imported := volume("root.qcow2", "16Mi") + fmt.Sprintf(`
import {
  to = virtfleet_volume.root
  id = "%s/root.qcow2"
}
`, name)
	vm := func(host, file string) string {
		return base + guest(l, name).with(hcl{
			"host": quote(host), "guest_agent": "{ enabled = true }", "termination_grace_period": quote("1m0s"),
			"disks": fmt.Sprintf(`{ root = {
				network = {
					protocol = "gluster", name = "${virtfleet_storage_pool.gluster.source.name}/%s", hosts = ["%s:24007"]
				}
				cache = "none", format = "qcow2"
			} }`, file, g.Host),
		}).String()
	}
	config := func(host, size string) string {
		return vm(host, "${virtfleet_volume.root.name}") + volume("root.qcow2", size)
	}
	const read, text = "head -c 13 /dev/vda", "over the wire"
	sees := func(host, script string) resource.TestCheckFunc {
		return resource.ComposeTestCheckFunc(look(t, l, host, name, "protocol='gluster'"), func(*terraform.State) error {
			return errors.Join(contains(outputInGuest(t, l, host, name, script), text),
				contains(l.Virsh(t, host, "pool-info", name), "running"),
				contains(l.Virsh(t, host, "vol-list", name), "root.qcow2"))
		})
	}
	gone := func() {
		for _, host := range []string{"kvm1", "kvm2"} {
			if pools := l.Virsh(t, host, "pool-list", "--all", "--name"); strings.Contains(pools, name) {
				t.Errorf("host %s has %s", host, pools)
			}
		}
	}
	update := resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{
		plancheck.ExpectResourceAction(pool, plancheck.ResourceActionUpdate),
		plancheck.ExpectResourceAction(address, plancheck.ResourceActionNoop),
	}}
	story(t, l, []string{name}, resource.TestStep{
		Config: on(g.Host, "nosuch"), ExpectError: inOrder("Unable to create storage pool", "gluster://"+g.Host+"/nosuch/"),
	}, resource.TestStep{
		PreConfig:   gone, // No Gluster server is at the address of a host.
		Config:      on(l.Host("kvm1").Address, g.Volume),
		ExpectError: inOrder("Unable to create storage pool", "not connected"),
	}, resource.TestStep{
		PreConfig: gone, Config: base,
	}, resource.TestStep{
		Config: vm("kvm1", "root.qcow2") + imported,
		Check: sees("kvm1", "until [ -b /dev/vda ]; do sleep 0.1; done; "+
			"printf '"+text+"' | dd of=/dev/vda conv=notrunc,fsync 2>/dev/null; "+read),
	}, resource.TestStep{
		// It is removed with the resource, but not while the VM has it as a disk.
		Config: vm("kvm1", "root.qcow2"), ExpectError: inOrder("in use", name),
	}, resource.TestStep{
		Config: vm("kvm1", "root.qcow2") + volume("other.qcow2", "1Mi"), PlanOnly: true,
		ExpectError: inOrder("Unable to create volume", "gluster", "import it"),
	}, resource.TestStep{
		Config: config("kvm1", "32Mi"), Check: sees("kvm1", "blockdev --getsize64 /dev/vda; "+read),
	}, resource.TestStep{
		ResourceName: pool, ImportState: true, ImportStateVerify: true, ImportStateId: name,
		ImportStateVerifyIgnore: []string{"autostart"},
	}, resource.TestStep{
		ResourceName: address, ImportState: true, ImportStateVerify: true, ImportStateId: name,
		ImportStateVerifyIgnore: readWhereDeclared("run_strategy", "timeouts", "status_reason", "host"),
	}, resource.TestStep{
		PreConfig: func() {
			acctest.ImportGenerated(t, providerBlock(l, ""), map[string]string{pool: name})
			l.Virsh(t, "kvm1", "pool-destroy", name)
		},
		Config: config("kvm1", "32Mi"), ConfigPlanChecks: update, Check: sees("kvm1", read),
	}, resource.TestStep{
		Config: config("kvm2", "32Mi"), ConfigPlanChecks: changes(plancheck.ResourceActionUpdate),
		ConfigStateChecks: []statecheck.StateCheck{know("current_host", exactly("kvm2"))}, Check: sees("kvm2", read),
	}, resource.TestStep{
		Config: providerBlock(l, ""), Check: func(*terraform.State) error {
			gone()
			if _, err := os.Stat(g.Path("root.qcow2")); !errors.Is(err, os.ErrNotExist) {
				return fmt.Errorf("the removed volume is still there: %w", err)
			}
			return nil
		},
	})
}
