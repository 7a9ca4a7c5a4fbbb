package storagepool_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"
	"github.com/hashicorp/terraform-plugin-testing/tfjsonpath"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/storage"
)

// sources are what pools of every type need, as the guide to storage pools says.
var sources = map[string]string{
	"dir": `target = { path = "/srv/vms" }`,
	"fs": `target = { path = "/srv/fs" }
		source = { devices = ["/dev/sdb1"], format = "ext4" }`,
	"netfs": `target = { path = "/srv/nfs" }
		source = { hosts = [{ name = "nas.example.net" }], dir = "/export", format = "nfs" }`,
	"logical": `source = { name = "vg", devices = ["/dev/sdc"] }`,
	"disk": `target = { path = "/dev" }
		source = { devices = ["/dev/sdd"], format = "gpt" }`,
	"iscsi": `target = { path = "/dev/disk/by-path" }
		source = {
			hosts = [{ name = "san.example.net", port = 3260 }], devices = ["iqn.2026-01.net.example:vms"]
			auth  = { type = "chap", username = "me", secret = "s" }
		}`,
	"iscsi-direct": `source = {
			hosts     = [{ name = "san.example.net" }], devices = ["iqn.2026-01.net.example:vms"]
			initiator = "iqn.2026-01.net.example:me"
		}`,
	"rbd": `source = {
			name = "vms", hosts = [{ name = "mon1.example.net" }, { name = "mon2.example.net" }]
			auth = { type = "ceph", username = "libvirt", secret = "s" }
		}`,
	"gluster": `source = { name = "vms", hosts = [{ name = "nas.example.net" }], dir = "/" }`,
	"zfs":     `source = { name = "tank", devices = ["/dev/sde"] }`,
	"scsi": `target = { path = "/dev/disk/by-path" }
		source = { adapter = { type = "scsi_host", name = "scsi_host0" } }`,
	"mpath": `target = { path = "/dev/mapper" }`,
}

// TestStoragePool_everyTypeIsPlanned: what the guide says that each type needs makes a plan.
func TestStoragePool_everyTypeIsPlanned(t *testing.T) {
	t.Parallel()
	acctest.NeedsTerraform(t)
	config := acctest.Local("")
	for _, kind := range storage.PoolTypes() {
		config += fmt.Sprintf("resource \"virtfleet_storage_pool\" %[1]q {\n  name = %[1]q\n  type = %[1]q\n  %[2]s\n}\n",
			kind, sources[kind])
	}
	resource.UnitTest(t, resource.TestCase{
		ProtoV6ProviderFactories: acctest.Factories(t),
		Steps:                    []resource.TestStep{{Config: config, PlanOnly: true, ExpectNonEmptyPlan: true}},
	})
}

// TestAccStoragePool_onDevices: a filesystem and a volume group are made on block devices, once, and their pools are
// started, imported and started again. Other data is never overwritten. The volume group goes with its pool where it
// is told to, the filesystem stays.
func TestAccStoragePool_onDevices(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	device := l.LoopDevice(t, "kvm1", name+"-fs", 32<<20)
	group := l.LoopDevice(t, "kvm1", name+"-lvm", 32<<20)
	at := "/var/lib/libvirt/" + name
	base := acctest.Block{Lab: l, Hosts: []acctest.Host{{Of: l.Host("kvm1")}}}.String()
	fs := func(key, device, format string) string {
		return fmt.Sprintf(`
resource "virtfleet_storage_pool" %[1]q {
  name   = "%[2]s-%[1]s"
  type   = "fs"
  build  = true
  target = { path = "%[3]s-%[1]s" }
  source = { devices = [%[4]q], format = %[5]q }
}
`, key, name, at, device, format)
	}
	others := fmt.Sprintf(`
resource "virtfleet_volume" "data" {
  name = "data"
  pool = virtfleet_storage_pool.fs.name
  size = "1Mi"
}
resource "virtfleet_storage_pool" "logical" {
  name       = "%[1]s-logical"
  type       = "logical"
  build      = true
  source     = { name = %[1]q, devices = [%[2]q] }
  on_destroy = "delete"
}
resource "virtfleet_storage_pool" "mpath" {
  name   = "%[1]s-mpath"
  type   = "mpath"
  target = { path = "/dev/mapper" }
}
`, name, group)
	kinds := []string{"fs", "logical", "mpath"}
	on := func(command string, args ...string) string { return l.Run(t, "kvm1", command, args...) }
	active := func(*terraform.State) error {
		for _, kind := range kinds {
			if info := l.Virsh(t, "kvm1", "pool-info", name+"-"+kind); !strings.Contains(info, "running") {
				return fmt.Errorf("%s: %s", kind, info)
			}
		}
		if where := on("findmnt", "--noheadings", "--output", "FSTYPE", at+"-fs"); !strings.Contains(where, "ext4") {
			return fmt.Errorf("at %s-fs there is %q", at, where)
		}
		if groups := on("vgs", "--noheadings", "--options", "vg_name"); !strings.Contains(groups, name) {
			return fmt.Errorf("there are %q", groups)
		}
		return nil
	}
	imported := func(kind string, unread ...string) resource.TestStep {
		return resource.TestStep{
			ResourceName: "virtfleet_storage_pool." + kind, ImportState: true, ImportStateId: name + "-" + kind,
			ImportStateVerify: true,
			// What a pool has besides what is declared, and what only the configuration knows.
			ImportStateVerifyIgnore: append(unread, "target", "autostart", "build", "on_destroy"),
		}
	}
	config := base + fs("fs", device, "ext4") + others
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: acctest.Factories(t),
		CheckDestroy: func(*terraform.State) error {
			if pools := l.Virsh(t, "kvm1", "pool-list", "--all", "--name"); strings.Contains(pools, name) {
				return fmt.Errorf("there are %q", pools)
			}
			if groups := on("vgs", "--noheadings", "--options", "vg_name"); strings.Contains(groups, name) {
				return fmt.Errorf("there are %q", groups)
			}
			if is := on("blkid", "--probe", device); !strings.Contains(is, `TYPE="ext4"`) {
				return fmt.Errorf("on %s there is %q", device, is)
			}
			on("rmdir", at+"-fs")
			return nil
		},
		Steps: []resource.TestStep{
			{
				Config: config, Check: active,
				ConfigStateChecks: []statecheck.StateCheck{statecheck.ExpectKnownValue("virtfleet_storage_pool.logical",
					tfjsonpath.New("host_states"),
					knownvalue.MapExact(map[string]knownvalue.Check{"kvm1": knownvalue.StringExact("active")}))},
			},
			imported("fs"), imported("logical", "source.format"), imported("mpath", "shared"),
			{
				PreConfig: func() {
					for _, kind := range kinds {
						l.Virsh(t, "kvm1", "pool-destroy", name+"-"+kind)
					}
				},
				Config: config, Check: active,
				ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{
					plancheck.ExpectResourceAction("virtfleet_storage_pool.fs", plancheck.ResourceActionUpdate),
					plancheck.ExpectResourceAction("virtfleet_storage_pool.logical", plancheck.ResourceActionUpdate),
					plancheck.ExpectResourceAction("virtfleet_storage_pool.mpath", plancheck.ResourceActionUpdate),
					plancheck.ExpectResourceAction("virtfleet_volume.data", plancheck.ResourceActionNoop),
				}},
			},
			{Config: config + fs("other", group, "ext4"), ExpectError: regexp.MustCompile("Unable to create storage pool")},
		},
	})
}
