package storagepool_test

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

// TestAccStoragePool_source: a pool that is declared with another device or filesystem has that one mounted on its host
// afterwards. The other one keeps its data, and comes back with it.
func TestAccStoragePool_source(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	host, name := l.Host("kvm1"), lab.Name(t)
	at := "/var/lib/libvirt/" + name
	first := l.LoopDevice(t, host.Name, name+"-1", 16<<20)
	second := l.LoopDevice(t, host.Name, name+"-2", 16<<20)
	l.Run(t, host.Name, "mkdir", at)
	l.Run(t, host.Name, "mkfs.ext4", "-q", first)
	l.Run(t, host.Name, "mkfs.ext2", "-q", second)
	config := func(device, format string) string {
		return acctest.OneHost(l) + fmt.Sprintf(`
resource "virtfleet_storage_pool" "this" {
  name   = %q
  type   = "fs"
  target = { path = %q, permissions = { mode = "0731" } }
  source = { devices = [%q], format = %q }
}
`, name, at, device, format)
	}
	// mounted checks what the host has mounted for the pool, what its libvirt says of that, and which files are there.
	mounted := func(device, format, files string) resource.TestCheckFunc {
		return resource.ComposeTestCheckFunc(
			has(t, l, name, "<device path='"+device+"'/>", host), has(t, l, name, "<format type='"+format+"'/>", host),
			func(*terraform.State) error {
				found := l.Run(t, host.Name, "findmnt", "--noheadings", "--output", "SOURCE,FSTYPE", at)
				if is := strings.Join(strings.Fields(found), " "); is != device+" "+format {
					return fmt.Errorf("at %s there is %q", at, is)
				}
				if live := l.Virsh(t, host.Name, "pool-dumpxml", name); !strings.Contains(live, device) {
					return fmt.Errorf("the pool is active as %s", live)
				}
				if is := strings.TrimSpace(l.Run(t, host.Name, "ls", "-I", "lost+found", at)); is != files {
					return fmt.Errorf("the pool has the files %q", is)
				}
				return nil
			})
	}
	update := acctest.Action("virtfleet_storage_pool.this", plancheck.ResourceActionUpdate)
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: acctest.Factories(t),
		CheckDestroy: func(*terraform.State) error {
			if left := xml(t, l, host, name); left != "" {
				return fmt.Errorf("still there: %s", left)
			}
			l.Run(t, host.Name, "rmdir", at)
			return nil
		},
		Steps: []resource.TestStep{
			{Config: config(first, "ext4"), Check: mounted(first, "ext4", "")},
			{
				PreConfig: func() { l.Run(t, host.Name, "touch", at+"/data") },
				Config:    config(second, "ext2"), ConfigPlanChecks: update, Check: mounted(second, "ext2", ""),
			},
			{Config: config(first, "ext4"), ConfigPlanChecks: update, Check: mounted(first, "ext4", "data")},
		},
	})
}

// TestAccStoragePool_permissions: a directory gets the declared permissions, also if it is there already, or a user has
// changed them by hand. Its files stay. A label fails the plan on a host that has none.
func TestAccStoragePool_permissions(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	host, name := l.Host("kvm1"), lab.Name(t)
	at := "/var/lib/libvirt/" + name
	l.Run(t, host.Name, "mkdir", at)
	l.Run(t, host.Name, "touch", at+"/data")
	config := func(mode, owner, more string) string {
		return acctest.OneHost(l) + fmt.Sprintf(`
resource "virtfleet_storage_pool" "this" {
  name   = %q
  type   = "dir"
  target = { path = %q, permissions = { mode = %q, owner = %q, group = "4321" } }
  %s
}
`, name, at, mode, owner, more)
	}
	is := func(want string) resource.TestCheckFunc {
		return resource.ComposeTestCheckFunc(has(t, l, name, "<path>"+at+"</path>", host), func(*terraform.State) error {
			if is := strings.TrimSpace(l.Run(t, host.Name, "stat", "-c", "%a %u %g", at)); is != want {
				return fmt.Errorf("the directory has mode, owner and group %s, want %s", is, want)
			}
			l.Run(t, host.Name, "test", "-f", at+"/data")
			return nil
		})
	}
	labelled := strings.Replace(config("0731", "1234", ""), "permissions = {", `permissions = { label = "a:b:c:s0", `, 1)
	unlabelled := regexp.MustCompile(`(?s)no\s+security\s+driver\s+selinux.*kvm1.*Remove\s+label`)
	update := acctest.Action("virtfleet_storage_pool.this", plancheck.ResourceActionUpdate)
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: acctest.Factories(t),
		CheckDestroy: func(*terraform.State) error {
			if left := xml(t, l, host, name); left != "" {
				return fmt.Errorf("still there: %s", left)
			}
			l.Run(t, host.Name, "rm", at+"/data")
			l.Run(t, host.Name, "rmdir", at)
			return nil
		},
		Steps: []resource.TestStep{
			{Config: labelled, ExpectError: unlabelled},
			{Config: config("0731", "1234", "build = false"), Check: is("731 1234 4321")},
			{Config: labelled, ExpectError: unlabelled},
			{Config: config("0750", "1235", ""), ConfigPlanChecks: update, Check: is("750 1235 4321")},
			{
				PreConfig: func() {
					l.Run(t, host.Name, "chmod", "0700", at)
					l.Virsh(t, host.Name, "pool-refresh", name)
				},
				Config: config("0750", "1235", ""), ConfigPlanChecks: update, Check: is("750 1235 4321"),
			},
		},
	})
}
