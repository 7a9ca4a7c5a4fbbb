package volume_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"
	"github.com/hashicorp/terraform-plugin-testing/tfjsonpath"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/hostset"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

func TestMain(m *testing.M) { acctest.Main(m) }

const address = "virtfleet_volume.this"

func TestVolume_refused(t *testing.T) {
	t.Parallel()
	acctest.NeedsTerraform(t)
	step := func(volume, want string) resource.TestStep {
		return resource.TestStep{
			Config: acctest.Local("") + "resource \"virtfleet_volume\" \"this\" {\nname = \"x\"\npool = \"default-pool\"\n" +
				volume + "\n}",
			ExpectError: regexp.MustCompile(want), PlanOnly: true,
		}
	}
	inPool := func(kind, source, says, want string) resource.TestStep {
		return resource.TestStep{
			Config: acctest.Local("") + fmt.Sprintf("resource \"virtfleet_storage_pool\" \"this\" {\nname = \"vms\"\n"+
				"type = %q\nsource = %s\n}\n", kind, source) + volume(says),
			ExpectError: regexp.MustCompile(want), PlanOnly: true,
		}
	}
	// Which hosts get the pool isn't known before the apply. Then nothing is refused.
	undecided := resource.TestStep{
		Config: acctest.Local("") + `
resource "terraform_data" "hosts" {
  input = ["local"]
}
resource "virtfleet_storage_pool" "this" {
  name   = "later"
  type   = "dir"
  target = { path = "/srv/later" }
  hosts  = terraform_data.hosts.output
}
` + volume(`size = "1Mi"`), PlanOnly: true, ExpectNonEmptyPlan: true,
	}
	resource.UnitTest(t, resource.TestCase{
		ProtoV6ProviderFactories: acctest.Factories(t),
		Steps: []resource.TestStep{
			step("", `(?s)[Aa]t least one`),
			step(`size = "1 GB"`, "not a valid quantity"),
			step("size = \"1Gi\"\nclone = \"full\"", `(?s)image`),
			step("image = \"no-id\"", "<pool>/<name>"),
			{
				Config: acctest.Local("") + "resource \"virtfleet_volume\" \"this\" {\nname = \"x\"\npool = \"absent\"\n" +
					"size = \"1Gi\"\n}",
				ExpectError: regexp.MustCompile(
					`(?s)host\s+"local"\s+doesn't\s+have\s+a\s+storage\s+pool\s+"absent".*default-pool.*name\s+attribute.*` +
						`another\s+provider\s+block.*destroy\s+-refresh=false`),
				PlanOnly: true,
			},
			undecided,
			{
				Config: acctest.Local("") + "import {\nto = virtfleet_volume.this\nid = \"default-pool/absent\"\n}\n" +
					"resource \"virtfleet_volume\" \"this\" {\nname = \"absent\"\npool = \"default-pool\"\nsize = \"1Mi\"\n}\n",
				ExpectError: regexp.MustCompile(`(?s)no\s+configured\s+host.*"virsh\s+pool-refresh\s+default-pool"`),
				PlanOnly:    true,
			},
			step("size = \"1Gi\"\nhost = \"nowhere\"", "Unknown host"),
			step("size = \"1Gi\"\nformat = \"raw\"\npreallocation = \"metadata\"", `(?s)is\s+for\s+the\s+format\s+"qcow2"`),
			inPool("logical", `{ name = "vg" }`, "size = \"1Gi\"\npreallocation = \"off\"",
				`(?s)type\s+logical.*preallocation\s+is\s+"off".*set\s+it\s+to\s+"full"`),
			inPool("logical", `{ name = "vg" }`, `image = "default-pool/base"`, `(?s)type\s+logical.*set\s+clone\s+to\s+"full"`),
			inPool("logical", `{ name = "vg" }`, "size = \"1Gi\"\nformat = \"qcow2\"",
				`(?s)\n\s+\d+:\s+format\s+=.*type\s+logical.*format\s+is\s+"qcow2".*leave\s+it\s+out`),
			inPool("rbd", `{ name = "vms", hosts = [{ name = "mon1" }] }`, `image = "default-pool/base"`,
				`(?s)type\s+rbd.*set\s+clone\s+to\s+"full"`),
			inPool("zfs", `{ name = "tank" }`, "image = \"default-pool/base\"\nclone = \"full\"",
				`(?s)can't\s+copy.*"zfs\s+create`),
			step("image = \"default-pool/base\"\npreallocation = \"full\"", `(?s)overlay.*clone\s+=\s+"full"`),
			{
				Config: acctest.Local("") + `resource "virtfleet_volume" "this" {
  name       = "2024-web"
  pool       = "default-pool"
  size       = "1Gi"
  encryption = { secret = "5a1bb6ff-3f0b-4c5e-9d3a-000000000001" }
}`,
				ExpectError: regexp.MustCompile(`(?s)Invalid volume.*"2024-web".*begin\s+with\s+a\s+letter.*another\s+name`),
				PlanOnly:    true,
			},
		},
	})
}

// TestVolume_exists: a new volume is refused if the pool has another one of the name.
func TestVolume_exists(t *testing.T) {
	t.Parallel()
	acctest.NeedsTerraform(t)
	// The test driver forgets everything when there is no connection to it any more.
	h, err := libvirt.Open(libvirt.Config{Name: "local", URI: "test:///default"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	if err := h.CreateVolume(t.Context(), libvirt.NewVolume{
		Pool: "default-pool", Name: "theirs", Document: "<volume><name>theirs</name><capacity>1024</capacity></volume>",
	}); err != nil {
		t.Fatal(err)
	}
	config := func(key, name string) string {
		return fmt.Sprintf("resource \"virtfleet_volume\" %q {\n  name = %q\n  pool = \"default-pool\"\n"+
			"  size = \"1Mi\"\n}\n", key, name)
	}
	resource.UnitTest(t, resource.TestCase{
		ProtoV6ProviderFactories: acctest.Factories(t),
		Steps: []resource.TestStep{
			{
				Config: acctest.Local("") + config("this", "theirs"),
				ExpectError: regexp.MustCompile(`(?s)storage\s+pool\s+"default-pool"\s+has\s+a\s+volume\s+"theirs".*` +
					`import\s+\{\s+to = virtfleet_volume\.this\s+id = "default-pool/theirs"`),
			},
			{Config: acctest.Local("") + config("this", "ours")},
			{Config: acctest.Local("") + config("this", "ours"), Taint: []string{address}}, // It is replaced.
		},
	})
}

// TestVolume_timeouts: each operation ends at the limit that the resource sets, and not at that of a call.
func TestVolume_timeouts(t *testing.T) {
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
	const tooLong = `timeouts\.|its\s+timeout\s+allows`
	step := func(size, timeouts, want string) resource.TestStep {
		s := resource.TestStep{Config: acctest.Local("") + fmt.Sprintf("resource \"virtfleet_volume\" \"this\" {\n"+
			"name = \"timed\"\npool = \"default-pool\"\nsize = %q\ntimeouts = { %s }\n}\n", size, timeouts)}
		if want != "" {
			s.ExpectError = regexp.MustCompile(want)
		}
		return s
	}
	resource.UnitTest(t, resource.TestCase{
		ProtoV6ProviderFactories: acctest.Factories(t),
		Steps: []resource.TestStep{
			step("1Mi", `create = "1ns"`, tooLong),
			step("1Mi", `create = "1h"`, ""),
			step("2Mi", `update = "1ns"`, tooLong),
			step("1Mi", `delete = "1ns"`, ""),
			{
				Config:      acctest.Local(""),
				ExpectError: regexp.MustCompile(tooLong),
			},
			step("1Mi", `delete = "1m"`, ""),
		},
	})
}

// TestVolume_describedAsItIs: the data stays if a default is written down, and if an imported volume is described as it
// was created. What it can't be is an error. Nor does it take a host that it isn't on.
func TestVolume_describedAsItIs(t *testing.T) {
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
	here := acctest.Local("")
	two := strings.Replace(here, "{ local =", "{ other = { uri = \"test:///default\" }, local =", 1)
	pool := "resource \"virtfleet_storage_pool\" \"this\" {\nname = \"described\"\ntype = \"dir\"\n" +
		"target = { path = \"/srv/described\" }\nhosts = [\"local\"]\n}\n"
	full := "preallocation = \"full\"\npermissions = { mode = \"0600\" }\n" +
		"image = \"described/base\"\nclone = \"full\"\nsize = \"1Mi\""
	step := func(does plancheck.ResourceActionType, config string) resource.TestStep {
		return resource.TestStep{
			Config: config,
			ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{
				plancheck.ExpectResourceAction(address, does),
			}},
		}
	}
	update := plancheck.ResourceActionUpdate
	resource.UnitTest(t, resource.TestCase{
		ProtoV6ProviderFactories: acctest.Factories(t),
		Steps: []resource.TestStep{
			step(plancheck.ResourceActionCreate, here+pool+volume(`size = "1Mi"`)),
			step(update, here+pool+volume("size = \"1Mi\"\npreallocation = \"off\"")),
			{
				Config:      two + pool + volume("size = \"1Mi\"\npreallocation = \"off\"\nhost = \"other\""),
				ExpectError: regexp.MustCompile(`(?s)Volumes move with their VMs.*is\s+on\s+host\s+"local"`),
			},
			{
				Config: here + pool + "removed {\nfrom = virtfleet_volume.this\nlifecycle {\ndestroy = false\n}\n}\n",
			},
			{
				Config: here + pool + volume("size = \"1Mi\"") +
					"import {\nto = virtfleet_volume.this\nid = \"described/data\"\n}\n",
			},
			{
				Config: here + pool + volume("size = \"1Mi\"\nimage = \"described/base\""),
				ExpectError: regexp.MustCompile(
					`(?s)Volume would be created again.*was\s+imported,\s+and\s+isn't\s+as\s+image\s+says`),
			},
			step(update, here+pool+volume(full)),
			step(plancheck.ResourceActionNoop, here+pool+volume(full)),
		},
	})
}

// TestVolume_staying: libvirt can't remove a LUN, and grow none, which the plan says. What it says to do instead leaves
// the LUN as it is.
func TestVolume_staying(t *testing.T) {
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
	pool := acctest.Local("") + "resource \"virtfleet_storage_pool\" \"this\" {\nname = \"luns\"\n" +
		"type = \"iscsi-direct\"\nsource = { hosts = [{ name = \"san\" }], devices = [\"iqn.2026-11.net.example:luns\"], " +
		"initiator = \"iqn.2026-11.net.example:h\" }\n}\n"
	removed := "removed {\nfrom = virtfleet_volume.this\nlifecycle {\ndestroy = false\n}\n}\n"
	resource.UnitTest(t, resource.TestCase{
		ProtoV6ProviderFactories: acctest.Factories(t),
		Steps: []resource.TestStep{
			{Config: pool},
			{
				PreConfig: func() {
					if err := h.CreateVolume(t.Context(), libvirt.NewVolume{
						Pool: "luns", Name: "data", Document: "<volume><name>data</name><capacity>1048576</capacity></volume>",
					}); err != nil {
						t.Fatal(err)
					}
				},
				Config: pool + volume(`size = "1Mi"`) + "import {\nto = virtfleet_volume.this\nid = \"luns/data\"\n}\n",
			},
			{Config: pool + volume(`size = "2Mi"`), ExpectError: regexp.MustCompile(`can't\s+grow`), PlanOnly: true},
			{
				Config: pool, PlanOnly: true,
				ExpectError: regexp.MustCompile(`(?s)type\s+iscsi-direct.*libvirt\s+can't\s+remove.*state\s+rm`),
			},
			{Config: pool + removed},
			{
				PreConfig: func() {
					if _, err := h.PoolVolume(t.Context(), "luns", "data"); err != nil {
						t.Errorf("the LUN: %v", err)
					}
				},
				Config: pool, PlanOnly: true,
			},
		},
	})
}

// TestVolume_poolOfOtherStorage: a pool with volumes is not made one of other storage, in which they aren't, neither in
// place nor by a replacement. What may be the same storage is planned, and the volume stays in the state.
func TestVolume_poolOfOtherStorage(t *testing.T) {
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
	for kind, tt := range map[string]struct {
		was, other, change, same string
	}{
		"logical": {
			`source = { name = "vg1" }`, `source = { name = "vg2" }`, `source.name = "vg2"\s+instead\s+of\s+"vg1"`,
			`source = { name = "vg1", devices = ["/dev/sdb"] }`,
		},
		"rbd": {
			`source = { name = "vms", hosts = [{ name = "mon1" }] }`, `source = { name = "other", hosts = [{ name = "mon1" }] }`,
			`source.name = "other"\s+instead\s+of\s+"vms"`,
			`source = { name = "vms", hosts = [{ name = "mon1" }, { name = "mon2" }] }`,
		},
		"fs": {
			"target = { path = \"/srv/fs\" }\nsource = { devices = [\"/dev/sdb1\"] }",
			"target = { path = \"/srv/fs\" }\nsource = { devices = [\"/dev/sdc1\"] }",
			`source.devices\s+=\s+\["/dev/sdc1"\]\s+instead\s+of\s+\["/dev/sdb1"\]`,
			"target = { path = \"/srv/fs\" }\nsource = { devices = [\"/dev/disk/by-id/wwn-0x5\"] }",
		},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			config := func(kind, says string) string {
				return acctest.Local("") + fmt.Sprintf("resource \"virtfleet_storage_pool\" \"this\" {\nname = \"of-%s\"\n"+
					"type = %q\n%s\n}\n", kind, kind, says) + volume(`size = "1Mi"`)
			}
			leaves := func(want string) *regexp.Regexp {
				return regexp.MustCompile(`(?s)Storage pool leaves its volumes.*` + want + `.*create\s+another\s+pool`)
			}
			resource.UnitTest(t, resource.TestCase{
				ProtoV6ProviderFactories: acctest.Factories(t),
				Steps: []resource.TestStep{
					{Config: config(kind, tt.was)},
					{Config: config(kind, tt.other), ExpectError: leaves(tt.change)},
					{
						Config: strings.Replace(config(kind, `target = { path = "/srv/vms" }`), fmt.Sprintf("type = %q", kind),
							`type = "dir"`, 1),
						ExpectError: leaves(`type = "dir"\s+instead\s+of\s+"` + kind + `"`),
					},
					{Config: config(kind, tt.same), PlanOnly: true, ExpectNonEmptyPlan: true},
					{Config: config(kind, tt.was), ConfigPlanChecks: acctest.Action(address, plancheck.ResourceActionNoop)},
				},
			})
		})
	}
}

// xml is a volume of a host as virsh shows it, "" where there is none.
func xml(t *testing.T, l *lab.Lab, host, pool, name string) string {
	t.Helper()
	out, err := l.TryVirsh(t, host, "vol-dumpxml", "--pool", pool, name)
	if err != nil {
		return ""
	}
	return out
}

func pool(name string) string {
	return fmt.Sprintf(`
resource "virtfleet_storage_pool" "this" {
  name   = %[1]q
  type   = "dir"
  target = { path = "/var/lib/libvirt/%[1]s" }
}
`, name)
}

func volume(says string) string {
	return fmt.Sprintf(`
resource "virtfleet_volume" "this" {
  name = "data"
  pool = virtfleet_storage_pool.this.name
  %s
}
`, says)
}

// TestAccVolume: a volume is made where it is asked for, grows and never shrinks, is found on another host, is kept
// while something uses it, and isn't taken for gone while its pool is down.
func TestAccVolume(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	at := "/var/lib/libvirt/" + name
	config := func(says string) string { return acctest.Config(l) + pool(name) + volume(says) }
	vm := fmt.Sprintf("<domain type='qemu'><name>%s</name><uuid>c0ffee00-0000-4000-8000-000000%s</uuid>"+
		"<memory unit='MiB'>16</memory><os><type>hvm</type></os>"+
		"<devices><disk type='file'><driver type='qcow2'/><source file='%s/data'/><target dev='vda' bus='virtio'/></disk>"+
		"</devices></domain>", name, name[len(name)-6:], at)
	has := func(host, want string) resource.TestCheckFunc {
		return func(*terraform.State) error {
			if have := xml(t, l, host, name, "data"); !strings.Contains(have, want) {
				return fmt.Errorf("host %s has %s; want %s", host, have, want)
			}
			return nil
		}
	}
	on := func(host string) []statecheck.StateCheck {
		return []statecheck.StateCheck{
			statecheck.ExpectKnownValue(address, tfjsonpath.New("current_host"), knownvalue.StringExact(host)),
		}
	}
	size := func(n int) string { return fmt.Sprintf("<capacity unit='bytes'>%d</capacity>", n<<20) }
	update, noop := plancheck.ResourceActionUpdate, plancheck.ResourceActionNoop
	exists := regexp.MustCompile(`(?s)import\s+\{\s+to = virtfleet_volume\.this\s+id = "` + name)
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: acctest.Factories(t),
		CheckDestroy: func(*terraform.State) error {
			for _, host := range []string{"kvm1", "kvm2"} {
				if l.Has(t, host, "pool-list", name) {
					return fmt.Errorf("host %s still has the pool", host)
				}
				l.Run(t, host, "rmdir", at) // Which a volume that is left would keep from being removed.
			}
			return nil
		},
		Steps: []resource.TestStep{
			{Config: config(`size = "64Mi"`), ExpectError: regexp.MustCompile(`(?s)kvm1, kvm2.*Set\s+host`)},
			// A file of another program that the pool doesn't know yet stays, however often the volume is applied.
			{
				PreConfig: func() { l.Run(t, "kvm1", "sh", "-c", "yes ours | head -c 1048576 >"+at+"/data") },
				Config:    config("size = \"1Mi\"\nformat = \"raw\"\nhost = \"kvm1\""), ExpectError: exists,
			},
			{Config: config("size = \"1Mi\"\nformat = \"raw\"\nhost = \"kvm1\""), ExpectError: exists},
			// A pool that is full says so, and has no part of the volume.
			{
				PreConfig: func() {
					if have := l.Run(t, "kvm1", "head", "-c", "4", at+"/data"); have != "ours" {
						t.Errorf("the file of another program has %q now", have)
					}
					l.Virsh(t, "kvm1", "vol-delete", "--pool", name, "data")
					l.Run(t, "kvm1", "mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", at)
				},
				// A plan reads no pool again: only the apply sees what other programs have written.
				Config:      config("size = \"1Mi\"\npreallocation = \"full\"\nhost = \"kvm1\""),
				ExpectError: regexp.MustCompile(`(?s)bytes\s+left,\s+and\s+1048576\s+bytes\s+are\s+needed\s+at\s+once`),
			},
			{
				Config: config("size = \"64Mi\"\nhost = \"kvm1\""), ExpectError: regexp.MustCompile(
					`(?s)storage\s+pool\s+"` + name + `"\s+on\s+host\s+"kvm1"\s+became\s+full.*bytes\s+left.*another\s+pool`),
			},
			{
				PreConfig: func() {
					if left := l.Run(t, "kvm1", "ls", "-A", at); left != "" {
						t.Errorf("left in the full pool: %s", left)
					}
					l.Run(t, "kvm1", "umount", at)
				},
				Config: config("size = \"64Mi\"\nhost = \"kvm1\""), ConfigStateChecks: on("kvm1"),
				Check: resource.ComposeTestCheckFunc(has("kvm1", size(64)), has("kvm1", "type='qcow2'")),
			},
			{Config: config("size = \"65536Ki\"\nhost = \"kvm1\""), ConfigPlanChecks: acctest.Action(address, noop)},
			{Config: config("size = \"32Mi\"\nhost = \"kvm1\""), ExpectError: regexp.MustCompile(`never shrink`)},
			{Config: config("size = \"64Mi\"\nhost = \"kvm2\""), ExpectError: regexp.MustCompile(`move with their VMs`)},
			{
				Config: acctest.Block{Lab: l, Hosts: []acctest.Host{
					{Of: l.Host("kvm1"), Settings: "storage_overprovisioning_factor = 1.5"}, {Of: l.Host("kvm2")},
				}}.String() + pool(name) + volume("size = \"900Ti\"\nhost = \"kvm1\""),
				PlanOnly: true, ExpectError: regexp.MustCompile(`(?s)storage\s+pool\s+"` + name +
					`"\s+on\s+host\s+"kvm1".*storage_overprovisioning_factor\s+=\s+1.5.*smaller\s+size`),
			},
			{
				Config: config("size = \"96Mi\"\nhost = \"kvm1\""), ConfigPlanChecks: acctest.Action(address, update),
				Check: has("kvm1", size(96)),
			},
			// Imported by its id and by its path.
			{
				ResourceName: address, ImportState: true, ImportStateId: name + "/data", ImportStateVerify: true,
				ImportStateVerifyIgnore: []string{"host"},
			},
			{
				ResourceName: address, ImportState: true, ImportStateId: at + "/data", ImportStateVerify: true,
				ImportStateVerifyIgnore: []string{"host"},
			},
			// A pool that is down holds what it held.
			{
				PreConfig: func() { l.Virsh(t, "kvm1", "pool-destroy", name) },
				Config:    config("size = \"96Mi\"\nhost = \"kvm1\""), ConfigPlanChecks: acctest.Action(address, noop),
				Check: has("kvm1", size(96)),
			},
			// Found where it has been moved to with the VM that uses it. Another volume of the name isn't taken for it.
			{
				PreConfig: func() { l.Define(t, "kvm1", vm) },
				Config:    config("size = \"96Mi\"\nhost = \"kvm1\""), ConfigPlanChecks: acctest.Action(address, noop),
			},
			{
				PreConfig: func() {
					l.Virsh(t, "kvm1", "undefine", name)
					l.Virsh(t, "kvm1", "vol-delete", "--pool", name, "data")
					l.Virsh(t, "kvm2", "vol-create-as", name, "data", "96M", "--format", "qcow2")
				},
				Config:      config("size = \"96Mi\"\nhost = \"kvm1\""),
				ExpectError: regexp.MustCompile(`(?s)Host\s+"kvm1".*Host\s+"kvm2".*state\s+rm.*kvm2/` + name + `/data`),
			},
			{
				PreConfig: func() { l.Define(t, "kvm2", vm) },
				Config:    config("size = \"96Mi\"\nhost = \"kvm1\""), ConfigPlanChecks: acctest.Action(address, noop),
				ConfigStateChecks: on("kvm2"),
			},
			{
				ResourceName: address, ImportState: true, ImportStateId: name + "/data", ImportStateVerify: true,
				ImportStateVerifyIgnore: []string{"host"},
			},
			{
				ResourceName: address, ImportState: true, ImportStateId: at + "/data", ImportStateVerify: true,
				ImportStateVerifyIgnore: []string{"host"},
			},
			// Kept while a definition uses it, here through a symbolic link.
			{
				PreConfig: func() {
					l.Run(t, "kvm2", "ln", "-s", at, at+"-link")
					l.Define(t, "kvm2", strings.Replace(vm, at, at+"-link", 1))
				},
				Config: acctest.Config(l) + pool(name), ExpectError: regexp.MustCompile(`(?s)` + name + `.*uses\s+it`),
			},
			{
				PreConfig: func() {
					l.Virsh(t, "kvm2", "undefine", name)
					l.Run(t, "kvm2", "rm", at+"-link")
				},
				Config: config("size = \"96Mi\"\nhost = \"kvm1\""), ConfigPlanChecks: acctest.Action(address, noop),
			},
			// Removed by hand, it is made again.
			{
				PreConfig:         func() { l.Virsh(t, "kvm2", "vol-delete", "--pool", name, "data") },
				Config:            config("size = \"96Mi\"\nhost = \"kvm1\""),
				ConfigPlanChecks:  acctest.Action(address, plancheck.ResourceActionCreate),
				ConfigStateChecks: on("kvm1"),
			},
			// Grown by hand, it has what it has.
			{
				PreConfig: func() { l.Virsh(t, "kvm1", "vol-resize", "--pool", name, "data", "112M") },
				Config:    config("size = \"96Mi\"\nhost = \"kvm1\""), ExpectError: regexp.MustCompile(`has\s+112Mi`),
			},
			{Config: config("size = \"112Mi\"\nhost = \"kvm1\""), ConfigPlanChecks: acctest.Action(address, noop)},
		},
	})
}

// TestAccVolume_interrupted: a volume that a killed run was creating is created again, and can't be imported before. So
// is one whose creation took long, if its run gave up recently. If that was long ago, the volume is kept, and the user
// decides: without the record, it can be imported.
func TestAccVolume_interrupted(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	tf := acctest.NewCLI(t)
	name := lab.Name(t)
	file := "/var/lib/libvirt/" + name + "/data"
	base := acctest.Block{Lab: l, Hosts: []acctest.Host{{Of: l.Host("kvm1")}}}.String() + pool(name)
	declared := base + volume(`size = "64Mi"`)
	imported := declared + fmt.Sprintf("import {\n  to = %s\n  id = \"%s/data\"\n}\n", address, name)
	tf.Config(t, base)
	tf.Run(t, "apply")
	host, err := libvirt.Open(libvirt.Config{Name: "kvm1", URI: l.Host("kvm1").SocketURI()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = host.Close() })
	record := hostset.Creation{Kind: "volume", Name: name + "/data"}
	// ended leaves what a run leaves that began at a time, and was killed, or gave up if that is a time.
	ended := func(began, gaveUp time.Time) {
		t.Helper()
		text := fmt.Sprintf(`{"began":%q,"given_up":%q,"format":"qcow2","bytes":%d,"empty":true}`,
			began.UTC().Format(time.RFC3339), gaveUp.UTC().Format(time.RFC3339), 64<<20)
		if err := record.Begin(t.Context(), host, text); err != nil {
			t.Fatal(err)
		}
	}
	noRecord := func() {
		t.Helper()
		if text, err := record.Begun(t.Context(), host); text != "" || err != nil {
			t.Errorf("the record of the creation is %q, %v", text, err)
		}
	}
	inode := func() string { return l.Run(t, "kvm1", "stat", "-c", "%i %W", file) }
	empty := func() {
		t.Helper()
		if out, empty := tf.Empty(t); !empty {
			t.Errorf("the plan isn't empty: %s", out)
		}
	}
	l.Virsh(t, "kvm1", "vol-create-as", name, "data", "64M", "--format", "qcow2")
	before := inode()
	ended(time.Now(), time.Time{})
	tf.Config(t, imported)
	if out := tf.Fail(t, "apply"); !strings.Contains(out, "may lack a part of its content") {
		t.Errorf("the import says: %s", out)
	}
	tf.Config(t, declared)
	tf.Run(t, "apply")
	if now := inode(); now == before {
		t.Errorf("the volume wasn't created again: %s", now)
	}
	noRecord()
	empty()

	longAgo := time.Now().Add(-2 * time.Hour)
	tf.Run(t, "state", "rm", address)
	before = inode()
	ended(longAgo, time.Now())
	tf.Run(t, "apply")
	if now := inode(); now == before {
		t.Errorf("the volume whose creation took long wasn't created again: %s", now)
	}
	noRecord()
	empty()

	tf.Run(t, "state", "rm", address)
	before = inode()
	ended(longAgo, longAgo)
	if out := tf.Fail(t, "apply"); !strings.Contains(out, record.UsageID()) {
		t.Errorf("the apply says: %s", out)
	}
	tf.Config(t, imported)
	if out := tf.Fail(t, "apply"); !strings.Contains(out, "may lack a part of its content") {
		t.Errorf("the import says: %s", out)
	}
	if err := record.End(t.Context(), host); err != nil {
		t.Fatal(err)
	}
	tf.Run(t, "apply")
	if now := inode(); now != before {
		t.Errorf("the volume is another one: %s, was %s", now, before)
	}
	empty()
	tf.Run(t, "destroy")
	l.Run(t, "kvm1", "rmdir", "/var/lib/libvirt/"+name)
}

// otherFormats are formats that libvirt passes on to qemu-img.
var otherFormats = []string{"vmdk", "vdi", "vpc", "qed", "qcow"}

// onDisk checks what QEMU says of the volumes of 8 MiB of TestAccVolume_madeFrom: their formats, their owners, and what
// is preallocated of them.
func onDisk(t *testing.T, l *lab.Lab, at string) resource.TestCheckFunc {
	t.Helper()
	const size = 8 << 20
	info := func(volume, command string, into any) error {
		said := l.Run(t, "kvm1", "qemu-img", command, "--output=json", at+"/"+volume)
		return json.Unmarshal([]byte(said), into)
	}
	return func(*terraform.State) error {
		for _, format := range otherFormats {
			var is struct {
				Format string
				Size   int64 `json:"virtual-size"`
			}
			if err := info(format, "info", &is); err != nil || is.Format != format || is.Size < size {
				return fmt.Errorf("volume %s is of format %s with %d bytes: %w", format, is.Format, is.Size, err)
			}
		}
		for volume, want := range map[string]struct{ tables, data bool }{
			"thin": {}, "tables": {tables: true}, "fat": {tables: true, data: true},
			"fatcopy": {tables: true, data: true},
		} {
			var is struct {
				Total     int   `json:"total-clusters"`
				Allocated int   `json:"allocated-clusters"`
				Bytes     int64 `json:"actual-size"`
			}
			if err := errors.Join(info(volume, "check", &is), info(volume, "info", &is)); err != nil {
				return err
			}
			if (is.Allocated == is.Total) != want.tables || (is.Bytes >= size) != want.data {
				return fmt.Errorf("volume %s has %d of %d clusters, and takes %d bytes", volume, is.Allocated, is.Total, is.Bytes)
			}
		}
		has := strings.TrimSpace(l.Run(t, "kvm1", "stat", "-c", "%a %u %g %b", at+"/thick"))
		if has != "640 1234 4321 16384" {
			return fmt.Errorf("volume thick has mode, owner, group and blocks %q", has)
		}
		return nil
	}
}

// TestAccVolume_madeFrom: an overlay of an image, a copy of its own, a copy of another volume, an encrypted one, one of
// each format and preallocation, and what doesn't fit.
func TestAccVolume_madeFrom(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	base := acctest.Block{Lab: l, Hosts: []acctest.Host{{Of: l.Host("kvm1")}}}.String() + pool(name)
	made := func(key, says string) string {
		return fmt.Sprintf("resource \"virtfleet_volume\" %[1]q {\n  name = %[1]q\n"+
			"  pool = virtfleet_storage_pool.this.name\n  %[2]s\n}\n", key, says)
	}
	image := fmt.Sprintf("image = \"%s/base\"", name)
	all := made("overlay", image) + made("larger", image+"\nsize = \"40Mi\"") +
		made("full", image+"\nclone = \"full\"\nsize = \"48Mi\"") +
		made("thick", "size = \"8Mi\"\nformat = \"raw\"\npreallocation = \"full\"\n"+
			`permissions = { mode = "0640", owner = "1234", group = "4321" }`) +
		made("odd", `size = "8000001"`) + made("thin", `size = "8Mi"`) +
		made("tables", "size = \"8Mi\"\npreallocation = \"metadata\"") +
		made("fat", "size = \"8Mi\"\npreallocation = \"full\"") +
		made("fatcopy", "copy_of = virtfleet_volume.thin.id\npreallocation = \"full\"") +
		made("copy", "copy_of = virtfleet_volume.thick.id") +
		made("twin", "copy_of = virtfleet_volume.full.id") + fmt.Sprintf(`
resource "virtfleet_secret" "luks" {
  count            = 2
  usage            = "volume"
  usage_id         = "%s-${count.index}"
  value_wo         = "correct horse"
  value_wo_version = "1"
}
`, name)
	luks := made("luks", "size = \"16Mi\"\nformat = \"raw\"\nencryption = { secret = virtfleet_secret.luks[0].id }")
	for _, format := range otherFormats {
		all += made(format, fmt.Sprintf("size = \"8Mi\"\nformat = %q", format))
	}
	// generated are the volumes that are imported with the configuration that Terraform generates, too.
	generated := map[string]string{}
	for _, key := range slices.Concat(
		[]string{"overlay", "larger", "full", "thick", "odd", "fat", "copy", "luks"}, otherFormats,
	) {
		generated["virtfleet_volume."+key] = name + "/" + key
	}
	grown := strings.Replace(all, "8000001", "9000001", 1)
	keyed := strings.Replace(luks, "luks[0]", "luks[1]", 1)
	upper := made("upper", "image = virtfleet_volume.full.id")
	inode := func() string { return l.Run(t, "kvm1", "stat", "-c", "%i %W", "/var/lib/libvirt/"+name+"/luks") }
	var encrypted string
	has := func(volume string, wants ...string) resource.TestCheckFunc {
		return func(*terraform.State) error {
			have := xml(t, l, "kvm1", name, volume)
			for _, want := range wants {
				if !strings.Contains(have, want) {
					return fmt.Errorf("%s is %s; want %s", volume, have, want)
				}
			}
			return nil
		}
	}
	lacks := func(volume, what string) resource.TestCheckFunc {
		return func(*terraform.State) error {
			if have := xml(t, l, "kvm1", name, volume); strings.Contains(have, what) {
				return fmt.Errorf("%s is %s; it shouldn't have %s", volume, have, what)
			}
			return nil
		}
	}
	size := func(n int) string { return fmt.Sprintf("<capacity unit='bytes'>%d</capacity>", n<<20) }
	// A copy has the content of the image, depends on no other file, and reads as zeros behind the image's end.
	copied := func(volume string) resource.TestCheckFunc {
		return func(*terraform.State) error {
			of, file := "/var/lib/libvirt/"+name+"/base", "/var/lib/libvirt/"+name+"/"+volume
			if info := l.Run(t, "kvm1", "qemu-img", "info", file); strings.Contains(info, "backing file") {
				return fmt.Errorf("%s is based on another file: %s", volume, info)
			}
			// It fails where the content differs, or what only the larger one has isn't zero.
			same := l.Run(t, "kvm1", "qemu-img", "compare", "-f", "qcow2", "-F", "qcow2", of, file)
			if !strings.Contains(same, "Images are identical.") {
				return fmt.Errorf("%s: %s", volume, same)
			}
			if read := l.Run(t, "kvm1", "qemu-io", "-r", "-f", "qcow2", "-c", "read -P 7 1M 2M", "-c", "read -P 9 31M 1M",
				file); strings.Contains(read, "failed") {
				return fmt.Errorf("%s doesn't have what the image has: %s", volume, read)
			}
			return nil
		}
	}
	rebase := func(onto string) {
		l.Run(t, "kvm1", "qemu-img", "rebase", "-u", "-f", "qcow2", "-F", "qcow2", "-b", "/var/lib/libvirt/"+name+"/"+onto,
			"/var/lib/libvirt/"+name+"/overlay")
		l.Virsh(t, "kvm1", "pool-refresh", name)
	}
	overlayStays := acctest.Action("virtfleet_volume.overlay", plancheck.ResourceActionNoop)
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: acctest.Factories(t),
		CheckDestroy: func(*terraform.State) error {
			at := "/var/lib/libvirt/" + name
			l.Run(t, "kvm1", "rm", at+"/base", at+"/second", at+"/third")
			l.Run(t, "kvm1", "rmdir", at)
			if secrets := l.Virsh(t, "kvm1", "secret-list"); strings.Contains(secrets, name) {
				return fmt.Errorf("left: %s", secrets)
			}
			return nil
		},
		Steps: []resource.TestStep{
			{Config: base},
			{
				PreConfig: func() {
					l.Virsh(t, "kvm1", "vol-create-as", name, "base", "32M", "--format", "qcow2")
					l.Run(t, "kvm1", "qemu-io", "-f", "qcow2", "-c", "write -q -P 7 1M 2M", "-c", "write -q -P 9 31M 1M",
						"/var/lib/libvirt/"+name+"/base")
				},
				Config: base + all + luks,
				Check: resource.ComposeTestCheckFunc(
					copied("full"), copied("twin"), has("twin", size(48)),
					has("overlay", size(32), "/base</path>"), has("larger", size(40), "/base</path>"), has("full", size(48)),
					has("thick", size(8), "<allocation unit='bytes'>8388608<", "<mode>0640</mode>"), has("copy", size(8)),
					has("luks", size(16), "luks"), has("odd", "<capacity unit='bytes'>8000512<"),
					onDisk(t, l, "/var/lib/libvirt/"+name),
				),
			},
			// One that has all the data itself, as after a move that copies it whole, is the same volume.
			{
				PreConfig: func() {
					acctest.ImportGenerated(t, acctest.OneHost(l), generated)
					l.Run(t, "kvm1", "qemu-img", "rebase", "-f", "qcow2", "-b", "", "/var/lib/libvirt/"+name+"/larger")
					l.Virsh(t, "kvm1", "pool-refresh", name)
				},
				Config: base + grown + luks, Check: resource.ComposeTestCheckFunc(
					has("larger", size(40)), lacks("larger", "/base</path>"), has("odd", "<capacity unit='bytes'>9000448<"),
				),
				ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{
					plancheck.ExpectResourceAction("virtfleet_volume.larger", plancheck.ResourceActionNoop),
				}},
			},
			// One that another tool has based on something else isn't planned to be created again.
			{
				PreConfig: func() {
					l.Virsh(t, "kvm1", "vol-create-as", name, "second", "32M", "--format", "qcow2")
					rebase("second")
				},
				Config:      base + grown + luks,
				ExpectError: regexp.MustCompile(`(?s)would be created again.*set\s+image\s+=\s+"` + name + `/second"`),
			},
			{
				Config: base + strings.Replace(grown, name+"/base", name+"/second", 1) + luks, ConfigPlanChecks: overlayStays,
				Check: has("overlay", "/second</path>"),
			},
			{
				PreConfig: func() {
					l.Virsh(t, "kvm1", "vol-create-as", name, "third", "32M", "--format", "qcow2")
					rebase("third")
				},
				Config:      base + strings.Replace(grown, name+"/base", name+"/second", 1) + luks,
				ExpectError: regexp.MustCompile(`(?s)would be created again.*set\s+image\s+=\s+"` + name + `/third"`),
			},
			{
				PreConfig: func() { rebase("base") },
				Config:    base + grown + luks, ConfigPlanChecks: overlayStays, Check: has("overlay", "/base</path>"),
			},
			{
				Config:      base + grown + luks + made("small", image+"\nsize = \"16Mi\""),
				ExpectError: regexp.MustCompile(`Volume too small`),
			},
			{
				Config:      base + grown + luks + made("huge", "size = \"900Ti\"\npreallocation = \"full\""),
				ExpectError: regexp.MustCompile(`(?s)bytes\s+left.*another\s+pool`),
			},
			// libvirt grows an encrypted volume that no VM uses only with a secret that it finds by its path.
			{
				Config: base + grown + strings.Replace(luks, "16Mi", "24Mi", 1), PlanOnly: true,
				ExpectError: regexp.MustCompile(
					`(?s)is\s+encrypted.*a\s+VM\s+runs\s+on\s+it.*usage_id\s+"/var/lib/libvirt/` + name + `/luks"`),
			},
			// With another secret, an encrypted volume is the same.
			{
				PreConfig: func() { encrypted = inode() },
				Config:    base + grown + keyed,
				ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{
					plancheck.ExpectResourceAction("virtfleet_volume.luks", plancheck.ResourceActionUpdate),
				}},
			},
			{
				Config: base + grown + upper +
					"removed {\nfrom = virtfleet_volume.luks\nlifecycle {\ndestroy = false\n}\n}\n",
				Check: has("upper", size(48), "/full</path>"),
			},
			// An encrypted volume that is imported is described, and keeps its data.
			{
				Config: base + grown + upper + keyed +
					fmt.Sprintf("import {\nto = virtfleet_volume.luks\nid = \"%s/luks\"\n}\n", name),
				ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{
					plancheck.ExpectResourceAction("virtfleet_volume.luks", plancheck.ResourceActionUpdate),
				}},
				Check: func(*terraform.State) error {
					if now := inode(); now != encrypted {
						return fmt.Errorf("the encrypted volume is another one: %s, was %s", now, encrypted)
					}
					return nil
				},
			},
			// What is based on a volume keeps it from being removed.
			{
				PreConfig: func() {
					l.Virsh(t, "kvm1", "vol-create-as", name, "stray", "64M", "--format", "qcow2", "--backing-vol", "full",
						"--backing-vol-format", "qcow2")
				},
				Config: base, ExpectError: regexp.MustCompile(`based\s+on\s+it`),
			},
			{
				PreConfig: func() { l.Virsh(t, "kvm1", "vol-delete", "--pool", name, "stray") },
				Config:    base,
			},
		},
	})
}

// TestAccVolume_growsOnline: a guest that runs has the larger disk at once. While a job runs on the disk, QEMU refuses
// to grow it: the apply of an earlier plan says so, and each plan.
func TestAccVolume_growsOnline(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	config := func(size string) string {
		return acctest.OneHost(l) + pool(name) + volume(fmt.Sprintf("size = %q\nhost = \"kvm1\"", size))
	}
	vm := fmt.Sprintf("<domain type='qemu'><name>%[1]s</name><memory unit='MiB'>16</memory><os><type>hvm</type></os>"+
		"<devices><disk type='file'><driver name='qemu' type='qcow2'/><source file='/var/lib/libvirt/%[1]s/data'/>"+
		"<target dev='vdb' bus='virtio'/></disk></devices></domain>", name)
	refused := regexp.MustCompile(`(?s)Job runs on the disk: ` + name +
		`.*size = .*A\s+block\s+copy\s+runs\s+on\s+disk\s+"vdb".*virsh\s+blockjob`)
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: acctest.Factories(t),
		CheckDestroy: func(*terraform.State) error {
			l.Run(t, "kvm1", "rmdir", "/var/lib/libvirt/"+name)
			return nil
		},
		Steps: []resource.TestStep{
			{Config: config("16Mi")},
			{
				PreConfig: func() {
					l.Define(t, "kvm1", vm)
					l.Virsh(t, "kvm1", "start", name)
				},
				Config: config("24Mi"),
				ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{acctest.BetweenPlanAndApply(func() {
					l.Virsh(t, "kvm1", "blockcopy", name, "vdb", "/var/lib/libvirt/images/"+name+".copy", "--transient-job")
				})}},
				ExpectError: refused,
			},
			{Config: config("24Mi"), PlanOnly: true, ExpectError: refused},
			{
				PreConfig: func() {
					l.Virsh(t, "kvm1", "blockjob", name, "vdb", "--abort")
					l.Run(t, "kvm1", "rm", "/var/lib/libvirt/images/"+name+".copy")
				},
				Config: config("24Mi"), ConfigPlanChecks: acctest.Action(address, plancheck.ResourceActionUpdate),
				Check: func(*terraform.State) error {
					if info := l.Virsh(t, "kvm1", "domblkinfo", name, "vdb"); !strings.Contains(info, fmt.Sprint(24<<20)) {
						return fmt.Errorf("the guest's disk: %s", info)
					}
					l.Virsh(t, "kvm1", "destroy", name)
					l.Virsh(t, "kvm1", "undefine", name)
					return nil
				},
			},
		},
	})
}

// TestAccVolume_replaced: the plan of a replacement names the data that is deleted and what still uses it, also for a
// tainted volume, of which Terraform plans only the new one. The new one has the room of the old one. With -replace, of
// which no provider is told, the apply finds out. What is in use is never deleted. The plan of a destroy names the VM.
func TestAccVolume_replaced(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	tf := acctest.NewCLI(t)
	name := lab.Name(t)
	file := "/var/lib/libvirt/" + name + "/data"
	base := acctest.Block{
		Lab: l, Hosts: []acctest.Host{{Of: l.Host("kvm1"), Settings: "storage_overprovisioning_factor = 1"}},
	}.String() + pool(name)
	// There is room for one such volume, and not for two.
	var blocks, blockSize uint64
	said := l.Run(t, "kvm1", "stat", "-f", "-c", "%b %S", "/var/lib/libvirt")
	if _, err := fmt.Sscan(said, &blocks, &blockSize); err != nil {
		t.Fatalf("%q: %v", said, err)
	}
	size := fmt.Sprintf("host = \"kvm1\"\nsize = \"%dMi\"\n", blocks*blockSize*6/10>>20)
	tf.Config(t, base+volume(size))
	tf.Run(t, "apply")
	says := func(out string, wants ...string) {
		t.Helper()
		out = strings.Join(strings.Fields(out), " ")
		for _, want := range wants {
			if !strings.Contains(out, want) {
				t.Errorf("Terraform doesn't say %q in:\n%s", want, out)
			}
		}
	}
	lost := []string{
		fmt.Sprintf("Data is deleted with volume %q", name+"/data"), "deletes " + file + ` on host "kvm1"`,
	}
	const replace = "-replace=" + address
	plans := func(wants ...string) {
		t.Helper()
		tf.Run(t, "taint", address)
		for _, args := range [][]string{{"plan"}, {"plan", "-refresh=false"}} {
			says(tf.Run(t, args...), append(wants, "is tainted")...)
		}
		tf.Run(t, "untaint", address)
		tf.Config(t, base+volume(size+"format = \"raw\""))
		says(tf.Run(t, "plan"), append(wants, "forces replacement")...)
		tf.Config(t, base+volume(size))
	}
	plans(lost...)
	inode := func() string { return l.Run(t, "kvm1", "stat", "-c", "%i %W", file) }
	before := inode()

	// Other permissions cost no data: the plan says how to set them, and then only records them.
	for mode, command := range map[string]string{
		`mode = "0640"`: "chmod 0640 " + file, `owner = "1234", group = "4321"`: "chown 1234:4321 " + file,
	} {
		tf.Config(t, base+volume(size+"permissions = { "+mode+" }"))
		says(tf.Fail(t, "plan"), `"`+command+`" as root on host "kvm1"`)
		l.Run(t, "kvm1", "sh", "-c", command)
		if actions := tf.Actions(t); actions[address] != "update" {
			t.Errorf("after %s, the plan does %v", command, actions)
		}
	}
	size += "permissions = { mode = \"640\", owner = \"1234\" }\n"
	tf.Config(t, base+volume(size))
	tf.Run(t, "apply")
	if out, empty := tf.Empty(t); !empty || inode() != before {
		t.Errorf("after other permissions, the file is %s, was %s; the plan:\n%s", inode(), before, out)
	}

	l.Define(t, "kvm1", fmt.Sprintf("<domain type='qemu'><name>%s</name><memory unit='MiB'>16</memory>"+
		"<os><type>hvm</type></os><devices><disk type='file'><driver type='qcow2'/><source file='%s'/>"+
		"<target dev='vda' bus='virtio'/></disk></devices></domain>", name, file))
	used := fmt.Sprintf("VM %q on host \"kvm1\" uses it", name)
	plans(append(lost, "the apply fails", used)...)
	says(tf.Run(t, "plan", "-destroy"), "Volume is in use", fmt.Sprintf(
		"On host kvm1 the volume %q is used by virtual machine %s.", name+"/data", name))
	says(tf.Fail(t, "apply", replace), "Unable to delete volume", used, "Nothing was removed")
	if now := inode(); now != before {
		t.Errorf("the file in use is another one: %s, was %s", now, before)
	}

	l.Virsh(t, "kvm1", "undefine", name)
	tf.Run(t, "taint", address)
	tf.Run(t, "apply")
	if now := inode(); now == before {
		t.Errorf("the volume wasn't replaced: %s", now)
	}
	if actions := tf.Actions(t); actions[address] != "no-op" {
		t.Errorf("the next plan does %v", actions)
	}
	tf.Run(t, "destroy")
	l.Run(t, "kvm1", "rmdir", "/var/lib/libvirt/"+name)
}

// TestAccVolume_sameNameElsewhere: while its host can't tell, a volume isn't taken for the one of the same name that
// another host has, and can't be imported unless the import names that host. Two volumes of one name grow and are
// removed each on its own host.
func TestAccVolume_sameNameElsewhere(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	tf := acctest.NewCLI(t)
	name := lab.Name(t)
	at := "/var/lib/libvirt/" + name
	hosts := []string{"kvm1", "kvm2"}
	for _, host := range hosts {
		l.Virsh(t, host, "pool-define-as", name, "dir", "--target", at)
		l.Virsh(t, host, "pool-build", name)
		l.Virsh(t, host, "pool-start", name)
	}
	// Nothing listens there.
	silent := acctest.Host{Name: "kvm1", URI: "qemu+ssh://root@" + l.Host("kvm1").Address + ":9/system"}
	config := func(onUnreachable, says string, hosts ...acctest.Host) {
		block := acctest.Block{Lab: l, Hosts: hosts, Settings: fmt.Sprintf("on_unreachable = %q", onUnreachable)}
		tf.Config(t, block.String()+says)
	}
	made := func(key, says string) string {
		return fmt.Sprintf("resource \"virtfleet_volume\" %q {\nname = \"data\"\npool = %q\n%s\n}\n", key, name, says)
	}
	both := made("first", "host = \"kvm1\"\nsize = \"8Mi\"") + made("second", "host = \"kvm2\"\nsize = \"8Mi\"")
	config("keep", both)
	tf.Run(t, "apply")
	stays := func(when string) {
		t.Helper()
		tf.Run(t, "apply", "-refresh-only")
		for key, host := range map[string]string{"first": "kvm1", "second": "kvm2"} {
			if is, _ := tf.State(t, "virtfleet_volume."+key); is["current_host"] != host {
				t.Errorf("%s, the %s volume is on host %v", when, key, is["current_host"])
			}
		}
		if out, empty := tf.Empty(t); !empty {
			t.Errorf("%s, the plan isn't empty: %s", when, out)
		}
	}
	l.Virsh(t, "kvm1", "pool-destroy", name)
	stays("while the pool is stopped")
	l.Virsh(t, "kvm1", "pool-start", name)
	config("keep", both, silent, acctest.Host{Of: l.Host("kvm2")})
	stays("while the host doesn't answer")
	fails := func(want string) {
		t.Helper()
		if out := tf.Fail(t, "plan"); !strings.Contains(out, want) {
			t.Errorf("the plan says %q, want %q", out, want)
		}
	}
	// Of an import, there is no state that could be kept.
	config("keep", both+strings.Replace(made("third", "size = \"8Mi\""), "\"data\"", "\"other\"", 1)+
		fmt.Sprintf("import {\nto = virtfleet_volume.third\nid = \"%s/other\"\n}\n", name),
		silent, acctest.Host{Of: l.Host("kvm2")})
	fails(fmt.Sprintf("Unable to import volume %q", name+"/other"))
	config("error", both, silent, acctest.Host{Of: l.Host("kvm2")})
	fails(fmt.Sprintf("Unable to read volume %q", name+"/data"))

	// The one that no VM uses isn't taken for what a move has left of the other, if Terraform has sent that before.
	vm := fmt.Sprintf("<domain type='qemu'><name>%[1]s</name><memory unit='MiB'>16</memory><os><type>hvm</type></os>"+
		"<devices><disk type='file'><driver type='qcow2'/><source file='%[2]s/data'/><target dev='vda' bus='virtio'/>"+
		"</disk></devices></domain>", name, at)
	l.Define(t, "kvm2", vm)
	config("error", made("first", "host = \"kvm1\"\nsize = \"16Mi\"\ndepends_on = [virtfleet_volume.second]")+
		made("second", "host = \"kvm2\"\nsize = \"16Mi\""))
	tf.Run(t, "apply")
	for _, host := range hosts {
		if have, want := xml(t, l, host, name, "data"), fmt.Sprint(16<<20); !strings.Contains(have, want) {
			t.Errorf("host %s has %s; want %s bytes", host, have, want)
		}
	}
	stays("after the growth")

	// Nor is it taken for the other one while its filesystem isn't mounted, or libvirt doesn't notice that it is.
	l.Define(t, "kvm1", vm)
	l.Run(t, "kvm1", "mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", at)
	l.Virsh(t, "kvm1", "pool-refresh", name)
	fails(fmt.Sprintf("VM %q on host \"kvm1\" uses it", name))
	l.Run(t, "kvm1", "umount", at)
	stays("while libvirt doesn't list it")
	for _, host := range hosts {
		l.Virsh(t, host, "pool-refresh", name)
		l.Virsh(t, host, "undefine", name)
	}
	stays("in the end")

	both = strings.ReplaceAll(both, "8Mi", "16Mi")
	// While a host doesn't answer, the volume of the other one is imported if the import names that host.
	tf.Run(t, "state", "rm", "virtfleet_volume.second")
	imported := func(id string) {
		t.Helper()
		config("keep", both+fmt.Sprintf("import {\nto = virtfleet_volume.second\nid = %q\n}\n", id), silent,
			acctest.Host{Of: l.Host("kvm2")})
	}
	imported(name + "/data")
	fails(fmt.Sprintf("%q", "kvm2/"+name+"/data"))
	imported("kvm2/" + name + "/data")
	tf.Run(t, "apply")
	config("keep", both)
	stays("after the import")

	// Nor is a lost volume that of another configuration, of the same name on another host.
	theirs := acctest.NewCLI(t)
	lost := func(key, host, size string) string {
		return strings.Replace(made(key, fmt.Sprintf("host = %q\nsize = %q", host, size)), "\"data\"", "\"lost\"", 1)
	}
	theirsIs := func(size string) { theirs.Config(t, acctest.Config(l)+lost("this", "kvm2", size)) }
	tells := func(out string, wants ...string) {
		t.Helper()
		for _, want := range wants {
			if !strings.Contains(out, want) {
				t.Errorf("Terraform doesn't say %q in: %s", want, out)
			}
		}
	}
	const warning = "Volume has the name of another one"
	theirsIs("8Mi")
	if out := theirs.Run(t, "apply"); strings.Contains(out, warning) {
		t.Errorf("no other volume has the name: %s", out)
	}
	config("keep", both+lost("third", "kvm1", "8Mi"))
	tells(tf.Run(t, "plan"), warning, `"kvm2"`)
	tf.Run(t, "apply")
	untouched := func(when string) {
		t.Helper()
		have := xml(t, l, "kvm1", name, "lost")
		if !strings.Contains(have, fmt.Sprintf(">%d</capacity>", 8<<20)) {
			t.Errorf("%s, the volume of the other configuration is %s", when, have)
		}
	}
	l.Virsh(t, "kvm2", "vol-delete", "--pool", name, "lost")
	theirsIs("16Mi")
	tells(theirs.Fail(t, "apply"), `Host "kvm2"`, `Host "kvm1"`, "kvm1/"+name+"/lost", "terraform state rm")
	theirs.Fail(t, "destroy")
	untouched("after the loss")
	theirs.Run(t, "state", "rm", address)
	tells(theirs.Run(t, "apply"), warning, `"kvm1"`)
	theirs.Run(t, "destroy")
	untouched("after the removal")
	if strings.Contains(l.Virsh(t, "kvm2", "vol-list", "--pool", name), "lost") {
		t.Error("the removed volume is still on its host")
	}
	// In one configuration, two hosts may have one name: nothing is warned of, and a lost one is made again.
	config("keep", both+lost("third", "kvm1", "8Mi")+lost("fourth", "kvm2", "8Mi"))
	ours := func() {
		t.Helper()
		if out := tf.Run(t, "plan"); strings.Contains(out, warning) {
			t.Errorf("it warns of a volume of its own: %s", out)
		}
		tf.Run(t, "apply")
	}
	ours()
	l.Virsh(t, "kvm2", "vol-delete", "--pool", name, "lost")
	ours()
	stays("after a loss")
	tf.Run(t, "destroy")
	for _, host := range hosts {
		l.Virsh(t, host, "pool-destroy", name)
		l.Virsh(t, host, "pool-undefine", name)
		l.Run(t, host, "rmdir", at)
	}
}

// TestAccVolume_missing: a volume that a pool doesn't list isn't taken for gone while the host has its file, or while a
// VM uses it: the pool's filesystem may not be mounted. A user who has lost the volume gets an empty one.
func TestAccVolume_missing(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	// On another host, a removal by a neighbouring test has libvirt list the file again.
	own := l.StartHost(t)
	host := own.Name
	tf := acctest.NewCLI(t)
	name := lab.Name(t)
	at := "/var/lib/libvirt/" + name
	block := acctest.Block{Lab: l, Hosts: []acctest.Host{{Of: own}}}.String()
	tf.Config(t, block+pool(name)+volume(`size = "8Mi"`)+fmt.Sprintf(`
resource "virtfleet_virtual_machine" "this" {
  name         = %q
  memory       = { size = "16Mi" }
  run_strategy = "Halted"
  disks        = { data = { volume = virtfleet_volume.this.id } }
}
`, name))
	l.RemoveDomain(t, name)
	// What qemu-img has left of a volume that it couldn't create isn't another one.
	l.Run(t, host, "sh", "-ec", `cat >"$0" <<'EOF'
#!/bin/sh
for last; do case "$last" in */data) : >"$last"; exit 1;; esac; done
exit 1
EOF
chmod +x "$0"; mount --bind "$0" /usr/bin/qemu-img`, "/run/fails")
	tf.Fail(t, "apply")
	l.Run(t, host, "sh", "-ec", "umount /usr/bin/qemu-img; test -e "+at+"/data; test ! -s "+at+"/data")
	tf.Run(t, "apply")
	inode := func() string { return l.Run(t, host, "stat", "-c", "%i %W", at+"/data") }
	before := inode()
	says := func(out string, wants ...string) {
		t.Helper()
		out = strings.Join(strings.Fields(strings.ReplaceAll(out, "│", "")), " ")
		for _, want := range wants {
			if !strings.Contains(out, want) {
				t.Errorf("Terraform doesn't say %q in:\n%s", want, out)
			}
		}
	}
	// The directory is empty, as it is if its filesystem isn't mounted.
	l.Run(t, host, "mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", at)
	l.Virsh(t, host, "pool-refresh", name)
	says(tf.Fail(t, "plan"), fmt.Sprintf("Unable to read volume %q", name+"/data"),
		fmt.Sprintf("VM %q on host %q uses it", name, host), "isn't mounted", "terraform state rm")
	// libvirt doesn't notice that the file is there again.
	l.Run(t, host, "umount", at)
	says(tf.Run(t, "plan"), "but the host has "+at+"/data", "virsh pool-refresh "+name, "No changes.")
	l.Virsh(t, host, "pool-refresh", name)
	if out, empty := tf.Empty(t); !empty {
		t.Errorf("the plan isn't empty: %s", out)
	}
	if now := inode(); now != before {
		t.Errorf("the volume is another one: %s, was %s", now, before)
	}
	// Lost for good, it is created again if the user says so.
	l.Virsh(t, host, "vol-delete", "--pool", name, "data")
	tf.Fail(t, "plan")
	tf.Run(t, "state", "rm", address)
	tf.Run(t, "apply")
	if now := inode(); now == before {
		t.Errorf("the volume wasn't created again: %s", now)
	}
	if out, empty := tf.Empty(t); !empty {
		t.Errorf("the plan isn't empty: %s", out)
	}
	// The host has a filesystem for the directory, and hasn't mounted it: what was there isn't gone, and nothing new is
	// put there. An image counts as a volume.
	image := filepath.Join(t.TempDir(), "image")
	if err := os.WriteFile(image, bytes.Repeat([]byte("image"), 1<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	config := block + pool(name) + volume(`size = "8Mi"`) + fmt.Sprintf(`
resource "virtfleet_image" "this" {
  name   = "base"
  pool   = virtfleet_storage_pool.this.name
  source = { file = %q }
}
`, image)
	tf.Config(t, config)
	tf.Run(t, "apply")
	const away = "/run/away"
	l.Run(t, host, "sh", "-ec", fmt.Sprintf("mkdir -p %[1]s; { cat /etc/fstab; echo 'nas:/vms %[2]s nfs defaults 0 0'; } "+
		">%[1]s/fstab; mount --bind %[1]s/fstab /etc/fstab; mv %[2]s/* %[1]s/", away, at))
	l.Virsh(t, host, "pool-refresh", name)
	says(tf.Run(t, "plan"), fmt.Sprintf("Unable to read volume %q", name+"/data"), `Unable to read image "base"`,
		fmt.Sprintf("Unable to read storage pool %q", name),
		"nothing is mounted at "+at+" on host \""+host+"\"", "virsh pool-refresh "+name, "No changes.")
	tf.Config(t, config+strings.NewReplacer(`"this"`, `"other"`, `"data"`, `"other"`).Replace(volume(`size = "1Mi"`)))
	says(tf.Fail(t, "plan"), fmt.Sprintf("Unable to create volume %q", name+"/other"), "nothing is mounted at "+at)
	tf.Config(t, config+fmt.Sprintf(`
resource "virtfleet_image" "other" {
  name   = "other"
  pool   = %q
  source = { file = %q }
}
`, name, image))
	says(tf.Fail(t, "plan"), `Unable to create image "other"`, "nothing is mounted at "+at)
	tf.Config(t, config+fmt.Sprintf(`
resource "virtfleet_virtual_machine" "this" {
  name         = %q
  memory       = { size = "16Mi" }
  run_strategy = "Halted"
  disks        = { root = { pool = virtfleet_storage_pool.this.name, size = "1Mi" } }
}
`, name))
	says(tf.Fail(t, "plan"), "nothing is mounted at "+at)
	tf.Config(t, config)
	says(tf.Fail(t, "plan", "-destroy"), `Unable to delete image "base"`, "nothing is mounted at "+at)
	tf.Fail(t, "destroy")
	// Nor is anything gone or made while the host doesn't say what it has mounted.
	l.Run(t, host, "sh", "-ec", fmt.Sprintf(`cp /usr/bin/tail %[1]s/real
printf '#!/bin/sh\ncase "$*" in */mounts) kill -KILL $$;; esac\nexec %[1]s/real "$@"\n' >%[1]s/tail
chmod +x %[1]s/tail; mount --bind %[1]s/tail /usr/bin/tail`, away))
	unread := "the filesystem is mounted: the mounts of host \"" + host + "\" can't be read"
	says(tf.Run(t, "plan"), fmt.Sprintf("Unable to read volume %q", name+"/data"), `Unable to read image "base"`, unread,
		"No changes.")
	tf.Config(t, config+strings.NewReplacer(`"this"`, `"other"`, `"data"`, `"other"`).Replace(volume(`size = "1Mi"`)))
	says(tf.Fail(t, "plan"), fmt.Sprintf("Unable to create volume %q", name+"/other"), unread)
	tf.Config(t, config)
	l.Run(t, host, "sh", "-ec", fmt.Sprintf("umount /usr/bin/tail; rm %[1]s/tail %[1]s/real", away))
	// Of a mount that was made by hand, only what was seen earlier tells.
	l.Run(t, host, "sh", "-ec", fmt.Sprintf("umount /etc/fstab; rm %[1]s/fstab; mount --bind %[1]s %[2]s", away, at))
	l.Virsh(t, host, "pool-refresh", name)
	tf.Run(t, "apply")
	l.Run(t, host, "umount", at)
	l.Virsh(t, host, "pool-refresh", name)
	says(tf.Run(t, "plan"), fmt.Sprintf("Unable to read volume %q", name+"/data"), `Unable to read image "base"`,
		"nothing is mounted at "+at+" on host \""+host+"\"", "virsh pool-refresh "+name, "terraform state rm", "No changes.")
	says(tf.Fail(t, "plan", "-destroy"), fmt.Sprintf("Unable to delete volume %q", name+"/data"),
		"nothing is mounted at "+at)
	l.Run(t, host, "sh", "-ec", fmt.Sprintf("mv %[1]s/* %[2]s/", away, at))
	l.Virsh(t, host, "pool-refresh", name)
	if out, empty := tf.Empty(t); !empty {
		t.Errorf("the plan isn't empty: %s", out)
	}
	tf.Run(t, "destroy")
	l.Run(t, host, "rmdir", at)
}
