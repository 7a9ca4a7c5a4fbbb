package storagepool_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"
	"github.com/hashicorp/terraform-plugin-testing/tfjsonpath"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/storage"
)

// secretOfPools is the UUID of a secret that no host has.
const secretOfPools = "6f1f3a5e-6a3e-4b3b-9c53-2d8d4e2f7a10"

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
			hosts = [{ name = "san.example.net" }], devices = ["iqn.2026-01.net.example:vms"]
			auth  = { type = "chap", username = "me", secret = "` + secretOfPools + `" }
		}`,
	"iscsi-direct": `source = {
			hosts     = [{ name = "san.example.net" }], devices = ["iqn.2026-01.net.example:vms"]
			initiator = "iqn.2026-01.net.example:me"
		}`,
	"rbd": `source = {
			name = "vms", hosts = [{ name = "mon1.example.net" }]
			auth = { type = "ceph", username = "libvirt", secret = "` + secretOfPools + `" }
		}`,
	"gluster": `source = { name = "vms", hosts = [{ name = "nas.example.net" }], dir = "/" }`,
	"zfs":     `source = { name = "tank", devices = ["/dev/sde"] }`,
	"scsi": `target = { path = "/dev/disk/by-path" }
		source = { adapter = { type = "scsi_host", name = "scsi_host0" } }`,
	"mpath": `target = { path = "/dev/mapper" }`,
}

// TestStoragePool_everyType: what the guide says that each type needs makes a pool of libvirt's test driver, and a plan
// that is empty afterwards.
func TestStoragePool_everyType(t *testing.T) {
	t.Parallel()
	acctest.NeedsTerraform(t)
	// The test driver forgets everything when there is no connection to it any more.
	h, err := libvirt.Open(libvirt.Config{Name: "local", URI: "test:///default"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	if _, err := h.StoragePools(t.Context()); err != nil {
		t.Fatal(err)
	}
	config := acctest.Local("")
	for _, kind := range storage.PoolTypes() {
		config += fmt.Sprintf("resource \"virtfleet_storage_pool\" %[1]q {\n  name = %[1]q\n  type = %[1]q\n  %[2]s\n}\n",
			kind, sources[kind])
	}
	resource.UnitTest(t, resource.TestCase{
		ProtoV6ProviderFactories: acctest.Factories(t),
		Steps:                    []resource.TestStep{{Config: config}},
	})
}

// TestStoragePool_whatATypeNeeds: what libvirt requires of a new pool of a type and isn't declared is named in the
// plan, but not what isn't known yet. A pool that exists keeps what isn't declared.
func TestStoragePool_whatATypeNeeds(t *testing.T) {
	t.Parallel()
	acctest.NeedsTerraform(t)
	node := filepath.Join(t.TempDir(), "node.xml")
	if err := os.WriteFile(node, []byte(`<node><pool type="netfs"><name>nfs</name><source><host name="nas.example.net"/>`+
		`<dir path="/export"/></source><target><path>/srv/nfs</path></target></pool></node>`), 0o600); err != nil {
		t.Fatal(err)
	}
	config := func(name, says string) string {
		return fmt.Sprintf(`
provider "virtfleet" {
  hosts = { local = { uri = "test://%s" } }
}
resource "terraform_data" "source" {
  input = "/export"
}
resource "virtfleet_storage_pool" "nfs" {
  name = %q
  type = "netfs"
  %s
}
`, node, name, says)
	}
	const target = "target = { path = \"/srv/nfs\" }\n"
	refused := func(name, says, want string) resource.TestStep {
		return resource.TestStep{
			Config: config(name, says), PlanOnly: true,
			ExpectError: regexp.MustCompile(`A pool of type "netfs" needs\s+` + want + `\.`),
		}
	}
	resource.UnitTest(t, resource.TestCase{
		ProtoV6ProviderFactories: acctest.Factories(t),
		Steps: []resource.TestStep{
			refused("new", "", `target\.path`),
			refused("new", target, `source\.hosts\s+and\s+source\.dir`),
			refused("new", target+`source = { format = "nfs", dir = terraform_data.source.output }`, `source\.hosts`),
			{
				Config:   config("new", target+`source = terraform_data.source.output == "" ? null : { format = "nfs" }`),
				PlanOnly: true, ExpectNonEmptyPlan: true,
			},
			{
				Config: config("nfs", target) + "import {\n  to = virtfleet_storage_pool.nfs\n  id = \"nfs\"\n}\n",
				Check:  resource.TestCheckResourceAttr("virtfleet_storage_pool.nfs", "source.dir", "/export"),
			},
		},
	})
}

// TestAccStoragePool_everyTypeIsDefined: a host's libvirt has a pool of every type, as virsh defines it. It is imported
// as declared, so the plan changes nothing but that it starts the pool, for which a server or device would be needed.
func TestAccStoragePool_everyTypeIsDefined(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	const target = " --source-dev iqn.2026-01.net.example:vms"
	const path = " --target /dev/disk/by-path"
	define := map[string]string{
		"dir":     "--target /srv/vms",
		"fs":      "--target /srv/fs --source-dev /dev/sdb1 --source-format ext4",
		"netfs":   "--target /srv/nfs --source-host nas.example.net --source-path /export --source-format nfs",
		"logical": "--source-name vg --source-dev /dev/sdc",
		"disk":    "--target /dev --source-dev /dev/sdd --source-format gpt",
		"iscsi": "--source-host san.example.net" + target + path +
			" --auth-type chap --auth-username me --secret-uuid " + secretOfPools,
		"iscsi-direct": "--source-host san.example.net" + target + " --source-initiator iqn.2026-01.net.example:me",
		"rbd": "--source-name vms --source-host mon1.example.net" +
			" --auth-type ceph --auth-username libvirt --secret-uuid " + secretOfPools,
		"gluster": "--source-name vms --source-host nas.example.net --source-path /",
		"zfs":     "--source-name tank --source-dev /dev/sde",
		"scsi":    "--adapter-name scsi_host0" + path,
	}
	var all, config, undefine strings.Builder
	// A host has one pool of type mpath, which may be that of TestAccStoragePool_onDevices.
	kinds := slices.DeleteFunc(storage.PoolTypes(), func(kind string) bool { return kind == "mpath" })
	for _, kind := range kinds {
		fmt.Fprintf(&all, "virsh pool-define-as %s-%s %[2]s %s\n", name, kind, define[kind])
		fmt.Fprintf(&undefine, "virsh pool-undefine %s-%s\n", name, kind)
		fmt.Fprintf(&config, "import {\n  to = virtfleet_storage_pool.%[2]s\n  id = \"%[1]s-%[2]s\"\n}\n"+
			"resource \"virtfleet_storage_pool\" %[2]q {\n  name = \"%[1]s-%[2]s\"\n  type = %[2]q\n  %[3]s\n}\n",
			name, kind, sources[kind])
	}
	t.Cleanup(func() {
		if _, err := l.Host("kvm1").Run(context.WithoutCancel(t.Context()), "sh", "-c", undefine.String()); err != nil {
			t.Error(err)
		}
	})
	l.Run(t, "kvm1", "sh", "-ec", all.String())
	tf := acctest.NewCLI(t)
	tf.Config(t, acctest.OneHost(l)+config.String())
	changes := tf.Plan(t)
	for _, kind := range kinds {
		c := changes["virtfleet_storage_pool."+kind]
		if fmt.Sprint(c.Before["host_states"], c.After["host_states"]) != "map[kvm1:inactive] map[kvm1:active]" {
			t.Errorf("%s: from %v to %v", kind, c.Before["host_states"], c.After["host_states"])
		}
		delete(c.After, "host_states")
		if !isIn(c.After, c.Before) {
			t.Errorf("%s: %v is declared, and %v imported", kind, c.After, c.Before)
		}
	}
}

// isIn says whether an object that was read has what is declared.
func isIn(declared, is any) bool {
	switch declared := declared.(type) {
	case nil:
		return true
	case map[string]any:
		all, ok := is.(map[string]any)
		for name, v := range declared {
			ok = ok && isIn(v, all[name])
		}
		return ok
	case []any:
		all, ok := is.([]any)
		return ok && slices.EqualFunc(declared, all, isIn)
	default:
		return declared == is
	}
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
	foreign := l.LoopDevice(t, "kvm1", name+"-foreign", 32<<20)
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
	on("pvcreate", foreign)
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
			if is := on("blkid", "--probe", foreign); !strings.Contains(is, `TYPE="LVM2_member"`) {
				return fmt.Errorf("on %s there is %q", foreign, is)
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
					ids := map[string]string{}
					for _, kind := range kinds {
						ids["virtfleet_storage_pool."+kind] = name + "-" + kind
					}
					acctest.ImportGenerated(t, base, ids)
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
			// Another filesystem doesn't have the volume.
			{
				Config: base + fs("fs", foreign, "ext4") + others, PlanOnly: true,
				ExpectError: regexp.MustCompile(`Storage pool leaves its volumes`),
			},
			// Nor is the device of another pool, or one with other data, that of a new filesystem.
			{
				Config: config + fs("other", group, "ext4"), PlanOnly: true,
				ExpectError: regexp.MustCompile(`storage pool "` + name + `-logical" has\s+source\.devices`),
			},
			{Config: config + fs("other", foreign, "ext4"), ExpectError: regexp.MustCompile("Unable to create storage pool")},
		},
	})
}
