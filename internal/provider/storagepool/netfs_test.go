package storagepool_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccStoragePool_netfs: two hosts mount the volume of a file server. A volume that is created there is one file for
// both. A pool that was stopped by hand is mounted again, and a destroy unmounts it and leaves what others wrote.
func TestAccStoragePool_netfs(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	g := l.Gluster(t, name)
	at := "/var/lib/libvirt/" + name
	hosts := []string{"kvm1", "kvm2"}
	var uses []acctest.Host
	for _, host := range hosts {
		uses = append(uses, acctest.Host{Of: l.Host(host)})
	}
	block := acctest.Block{Lab: l, Hosts: uses}.String()
	config := func(size string) string {
		return block + fmt.Sprintf(`
resource "virtfleet_storage_pool" "vms" {
  name       = %[1]q
  type       = "netfs"
  target     = { path = %[2]q }
  source     = { hosts = [{ name = %[3]q }], dir = "/%[4]s", format = "glusterfs" }
  on_destroy = "delete"
}
resource "virtfleet_volume" "data" {
  name   = "data"
  pool   = virtfleet_storage_pool.vms.name
  size   = %[5]q
  format = "raw"
}
`, name, at, g.Host, g.Volume, size)
	}
	mounted := func(size int64) resource.TestCheckFunc {
		return func(*terraform.State) error {
			for _, host := range hosts {
				if fs := l.Run(t, host, "findmnt", "--noheadings", "--output", "FSTYPE", at); !strings.Contains(fs, "glusterfs") {
					return fmt.Errorf("%s: at %s there is %q", host, at, fs)
				}
				if has := l.Virsh(t, host, "vol-list", name); !strings.Contains(has, at+"/data") {
					return fmt.Errorf("%s: the volumes are %s", host, has)
				}
			}
			// Each host remembers for a second how large the file was, so that the server is asked.
			if info, err := os.Stat(g.Path("data")); err != nil || info.Size() != size {
				return fmt.Errorf("on the server there is %v, %w", info, err)
			}
			return nil
		}
	}
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: acctest.Factories(t),
		CheckDestroy: func(*terraform.State) error {
			for _, host := range hosts {
				if pools := l.Virsh(t, host, "pool-list", "--all", "--name"); strings.Contains(pools, name) {
					return fmt.Errorf("%s: there are %q", host, pools)
				}
				if mounts := l.Run(t, host, "cat", "/proc/mounts"); strings.Contains(mounts, at) {
					return fmt.Errorf("%s: it is still mounted: %s", host, mounts)
				}
				if l.Run(t, host, "sh", "-c", "test -e "+at+" && echo there || echo gone") != "gone\n" {
					return fmt.Errorf("%s: the directory is there", host)
				}
			}
			if _, err := os.Stat(g.Path("data")); !os.IsNotExist(err) {
				return fmt.Errorf("the volume is still on the server: %w", err)
			}
			if _, err := os.Stat(g.Path("other")); err != nil {
				return err
			}
			return nil
		},
		Steps: []resource.TestStep{
			{Config: config("1Mi"), Check: mounted(1 << 20)},
			{
				ResourceName: "virtfleet_storage_pool.vms", ImportState: true, ImportStateId: name, ImportStateVerify: true,
				ImportStateVerifyIgnore: []string{"target", "autostart", "build", "on_destroy"},
			},
			{
				PreConfig: func() {
					acctest.ImportGenerated(t, block, map[string]string{"virtfleet_storage_pool.vms": name})
					if err := os.WriteFile(g.Path("other"), []byte("of others"), 0o600); err != nil {
						t.Fatal(err)
					}
					for _, host := range hosts {
						l.Virsh(t, host, "pool-destroy", name)
					}
				},
				Config: config("1Mi"), Check: mounted(1 << 20),
				ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{
					plancheck.ExpectResourceAction("virtfleet_storage_pool.vms", plancheck.ResourceActionUpdate),
					plancheck.ExpectResourceAction("virtfleet_volume.data", plancheck.ResourceActionNoop),
				}},
			},
			{Config: config("2Mi"), Check: mounted(2 << 20)},
		},
	})
}
