package storagepool_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
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
)

func TestMain(m *testing.M) { acctest.Main(m) }

func TestStoragePool_refused(t *testing.T) {
	t.Parallel()
	acctest.NeedsTerraform(t)
	step := func(pool, want string) resource.TestStep {
		return resource.TestStep{
			Config:      acctest.Local("") + "resource \"virtfleet_storage_pool\" \"this\" {\n" + pool + "\n}",
			ExpectError: regexp.MustCompile(want), PlanOnly: true,
		}
	}
	resource.UnitTest(t, resource.TestCase{
		ProtoV6ProviderFactories: acctest.Factories(t),
		Steps: []resource.TestStep{
			step("name = \"x\"\ntype = \"dir\"", `needs\s+target.path`),
			step("name = \"x\"\ntype = \"disk\"\nsource = { devices = [\"/dev/x\"] }", `needs\s+target.path`),
			step("name = \"x\"\ntype = \"tape\"", "iscsi-direct"),
			step("name = \"x\"\ntype = \"dir\"\ntarget = { path = \"x\" }", `"x"\s+isn't\s+an\s+absolute\s+path`),
			step("name = \"x\"\ntype = \"dir\"\ntarget = { path = \"/x\" }\nhosts = [\"nowhere\"]", "Unknown host"),
		},
	})
}

// xml is a pool of a host as virsh shows it, "" where there is none.
func xml(t *testing.T, l *lab.Lab, h *lab.Host, name string) string {
	t.Helper()
	out, err := l.TryVirsh(t, h.Name, "pool-dumpxml", "--inactive", name)
	if err != nil {
		return ""
	}
	return out
}

// has checks what hosts have of a pool: active, with something in its definition.
func has(t *testing.T, l *lab.Lab, name, want string, hosts ...*lab.Host) resource.TestCheckFunc {
	t.Helper()
	return func(*terraform.State) error {
		for _, h := range hosts {
			if have := xml(t, l, h, name); !strings.Contains(have, want) {
				return fmt.Errorf("host %s has %s; want %s", h.Name, have, want)
			}
			if info := l.Virsh(t, h.Name, "pool-info", name); !strings.Contains(info, "running") {
				return fmt.Errorf("on host %s: %s", h.Name, info)
			}
		}
		return nil
	}
}

// startsItself checks whether libvirt would start a pool by itself, when it starts.
func startsItself(t *testing.T, l *lab.Lab, name, want string, hosts ...*lab.Host) resource.TestCheckFunc {
	t.Helper()
	return func(*terraform.State) error {
		for _, h := range hosts {
			_, is, _ := strings.Cut(l.Virsh(t, h.Name, "pool-info", name), "Autostart:")
			if is, _, _ = strings.Cut(is, "\n"); strings.TrimSpace(is) != want {
				return fmt.Errorf("host %s says of the autostart of pool %s %q; want %s", h.Name, name, is, want)
			}
		}
		return nil
	}
}

func states(want map[string]knownvalue.Check) []statecheck.StateCheck {
	return []statecheck.StateCheck{statecheck.ExpectKnownValue("virtfleet_storage_pool.this",
		tfjsonpath.New("host_states"), knownvalue.MapExact(want))}
}

// TestAccStoragePool: a pool is made on hosts, started where it was stopped, repaired where it departs, follows
// hosts that come and go, and leaves its data behind.
func TestAccStoragePool(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	first, second := l.Host("kvm1"), l.Host("kvm2")
	name := lab.Name(t)
	at := "/var/lib/libvirt/" + name
	const address = "virtfleet_storage_pool.this"
	pool := func(dir, more string) string {
		return acctest.Config(l) + fmt.Sprintf(`
resource "virtfleet_storage_pool" "this" {
  name   = %q
  type   = "dir"
  target = { path = %q }
  %s
}
`, name, dir, more)
	}
	active := knownvalue.StringExact("active")
	both := map[string]knownvalue.Check{"kvm1": active, "kvm2": active}
	update := plancheck.ResourceActionUpdate
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: acctest.Factories(t),
		CheckDestroy: func(*terraform.State) error {
			for _, h := range []*lab.Host{first, second} {
				if left := xml(t, l, h, name); left != "" {
					return fmt.Errorf("host %s still has %s", h.Name, left)
				}
				if records := l.Virsh(t, h.Name, "secret-list"); strings.Contains(records, name) {
					return fmt.Errorf("host %s still has %s", h.Name, records)
				}
				l.Run(t, h.Name, "test", "-f", at+"-2/data")
				l.Run(t, h.Name, "rm", "-r", at, at+"-2")
			}
			return nil
		},
		Steps: []resource.TestStep{
			{
				Config: strings.Replace(pool(at, `hosts = ["kvm1"]`), "path = ",
					`permissions = { mode = "0731", owner = "1234", group = "4321" }, path = `, 1),
				ConfigStateChecks: states(map[string]knownvalue.Check{"kvm1": active}),
				Check: resource.ComposeTestCheckFunc(has(t, l, name, "<path>"+at+"</path>", first),
					func(*terraform.State) error {
						if is := strings.TrimSpace(l.Run(t, first.Name, "stat", "-c", "%a %u %g", at)); is != "731 1234 4321" {
							return fmt.Errorf("the directory has mode, owner and group %s", is)
						}
						return nil
					}),
			},
			// Another one of that name isn't taken over.
			{
				Config: pool(at, `hosts = ["kvm1"]`) + strings.Replace(strings.Replace(pool(at, ""), acctest.Config(l), "", 1),
					`"this"`, `"other"`, 1),
				ExpectError: regexp.MustCompile(`terraform\s+import`),
			},
			{
				Config: pool(at, ""), ConfigPlanChecks: acctest.Action(address, update), ConfigStateChecks: states(both),
				Check: startsItself(t, l, name, "yes", first, second),
			},
			{
				ResourceName: address, ImportState: true, ImportStateId: name, ImportStateVerify: true,
				ImportStateVerifyIgnore: []string{"target", "autostart"},
			},
			// A pool that is stopped is started; one that is undefined is made again.
			{
				PreConfig: func() {
					l.Virsh(t, first.Name, "pool-destroy", name)
					l.Virsh(t, second.Name, "pool-destroy", name)
					l.Virsh(t, second.Name, "pool-undefine", name)
				},
				Config: pool(at, "autostart = false"), ConfigPlanChecks: acctest.Action(address, update),
				ConfigStateChecks: states(both),
				Check: resource.ComposeTestCheckFunc(has(t, l, name, "<path>"+at+"</path>", first, second),
					startsItself(t, l, name, "no", first, second)),
			},
			// A directory that is gone, as that of a filesystem that isn't mounted, isn't created again: the record of a
			// creation is that of another pool of this name, which is no longer there.
			{
				PreConfig: func() {
					recordCreation(t, l, first.Name, name, "11111111-2222-4333-8444-555555555555")
					l.Virsh(t, first.Name, "pool-destroy", name)
					l.Run(t, first.Name, "mv", at, at+"-away")
				},
				Config: pool(at, "autostart = false"),
				ExpectError: regexp.MustCompile(`(?s)Directory\s+"` + at + `"\s+of\s+storage\s+pool.*on\s+host\s+"kvm1":\s+` +
					`is\s+its\s+filesystem\s+mounted\?`),
			},
			{
				PreConfig: func() {
					l.Run(t, first.Name, "test", "!", "-e", at)
					l.Run(t, first.Name, "mv", at+"-away", at)
				},
				Config: pool(at, "autostart = false"), ConfigPlanChecks: acctest.Action(address, update),
				ConfigStateChecks: states(both),
				Check: resource.ComposeTestCheckFunc(has(t, l, name, "<path>"+at+"</path>", first, second),
					startsItself(t, l, name, "no", first, second)),
			},
			{
				Config: pool(at+"-2", "autostart = true"), ConfigPlanChecks: acctest.Action(address, update),
				Check: resource.ComposeTestCheckFunc(has(t, l, name, "<path>"+at+"-2</path>", first, second),
					startsItself(t, l, name, "yes", first, second)),
			},
			{
				PreConfig: func() { l.Virsh(t, second.Name, "pool-autostart", "--disable", name) },
				Config:    pool(at+"-2", "autostart = true"), ConfigPlanChecks: acctest.Action(address, update),
				Check: startsItself(t, l, name, "yes", first, second),
			},
			// A host that is taken away loses the pool and keeps its data.
			{
				PreConfig: func() {
					l.Run(t, first.Name, "touch", at+"-2/data")
					l.Run(t, second.Name, "touch", at+"-2/data")
				},
				Config: pool(at+"-2", `hosts = ["kvm2"]`), ConfigPlanChecks: acctest.Action(address, update),
				ConfigStateChecks: states(map[string]knownvalue.Check{"kvm2": active}),
				Check: func(*terraform.State) error {
					if left := xml(t, l, first, name); left != "" {
						return fmt.Errorf("host %s still has %s", first.Name, left)
					}
					return nil
				},
			},
		},
	})
}

// recordCreation records on a host that a run is creating a storage pool with that UUID.
func recordCreation(t *testing.T, l *lab.Lab, host, pool, uuid string) {
	t.Helper()
	file := "/var/lib/libvirt/" + pool + "-record.xml"
	l.Run(t, host, "sh", "-ec", fmt.Sprintf("echo \"<secret private='no' ephemeral='no'><usage type='vtpm'>"+
		"<name>virtfleet:creating:storage_pool:%s</name></usage></secret>\" >%[2]s; virsh secret-define %[2]s; rm %[2]s",
		pool, file))
	for line := range strings.Lines(l.Virsh(t, host, "secret-list")) {
		if fields := strings.Fields(line); len(fields) > 0 && strings.HasSuffix(strings.TrimSpace(line), ":"+pool) {
			l.Virsh(t, host, "secret-set-value", fields[0], base64.StdEncoding.EncodeToString([]byte(uuid)))
		}
	}
}

// TestAccStoragePool_silent: a host that doesn't answer has what it had: the pool, what is in it, and all other
// objects.
func TestAccStoragePool_silent(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	own := l.StartHost(t)
	name := lab.Name(t)
	file := filepath.Join(t.TempDir(), "image.raw")
	if err := os.WriteFile(file, bytes.Repeat([]byte("image"), 4096), 0o600); err != nil {
		t.Fatal(err)
	}
	// apart replaces the references by what they refer to: objects are then read although others can't be.
	apart := strings.NewReplacer("virtfleet_storage_pool.this.name", strconv.Quote(name),
		"virtfleet_network.this.name", strconv.Quote(name))
	config := func(settings string) string {
		return acctest.Block{Lab: l, Hosts: []acctest.Host{{Of: own}}, Settings: settings}.String() + fmt.Sprintf(`
resource "virtfleet_storage_pool" "this" {
  name   = %[1]q
  type   = "dir"
  target = { path = "/var/lib/libvirt/%[1]s" }
}
resource "virtfleet_volume" "this" {
  name = "data"
  pool = virtfleet_storage_pool.this.name
  size = "1Mi"
}
resource "virtfleet_image" "this" {
  name   = "base"
  pool   = virtfleet_storage_pool.this.name
  source = { file = %[2]q }
}
resource "virtfleet_secret" "this" {
  usage            = "ceph"
  usage_id         = %[1]q
  value_wo         = "key"
  value_wo_version = "1"
}
resource "virtfleet_network_filter" "this" {
  name  = %[1]q
  rules = [{ action = "drop", direction = "in", protocol = "all" }]
}
resource "virtfleet_network" "this" {
  name   = %[1]q
  bridge = %[3]q
  ips    = [{ address = "10.213.19.1/24", dhcp = { ranges = [{ start = "10.213.19.100", end = "10.213.19.199" }] } }]
}
resource "virtfleet_network_dhcp_host" "this" {
  network = virtfleet_network.this.name
  mac     = "52:54:00:07:13:01"
  ip      = "10.213.19.7"
}
`, name, file, "vn"+name[len(name)-6:])
	}
	// An object isn't imported while its only host doesn't answer.
	imported := func(address string) resource.TestStep {
		return resource.TestStep{
			ResourceName: address, ImportState: true, ImportStateIdFunc: func(s *terraform.State) (string, error) {
				return s.RootModule().Resources[address].Primary.ID, nil
			},
			ExpectError: regexp.MustCompile(`(?s)Unable to import.*host\s+` + own.Name + `:`),
		}
	}
	var restart func()
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: acctest.Factories(t),
		CheckDestroy: func(*terraform.State) error {
			left := l.Run(t, own.Name, "sh", "-c", "ls /var/lib/libvirt/"+name+
				"; virsh pool-list --all; virsh secret-list; virsh nwfilter-list; virsh net-list --all")
			if strings.Contains(left, name) || strings.Contains(left, "base-") || strings.Contains(left, "data") {
				return fmt.Errorf("still there: %s", left)
			}
			return nil
		},
		Steps: []resource.TestStep{
			{Config: config("")},
			{
				PreConfig: func() { restart = l.StopSSH(t, own) },
				Config:    apart.Replace(config("")),
				// Once for each object.
				ExpectError: regexp.MustCompile(`(?s)(Unable to read .*){7}`),
			},
			{Config: apart.Replace(config(`on_unreachable = "keep"`)), PlanOnly: true},
			imported("virtfleet_storage_pool.this"), imported("virtfleet_image.this"), imported("virtfleet_secret.this"),
			{PreConfig: func() { restart() }, Config: config(""), PlanOnly: true},
		},
	})
}

// TestAccStoragePool_inUse: a pool that can't be unmounted, because a VM runs on it, keeps its definition. So the next
// plan shows the change again, and the apply makes it once the VM is off.
func TestAccStoragePool_inUse(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	own := l.StartHost(t)
	name := lab.Name(t)
	at := "/var/lib/libvirt/" + name
	device := strings.TrimSpace(l.Run(t, own.Name, "sh", "-ec", strings.ReplaceAll(
		"mkdir AT AT-2 && truncate -s 16M AT.img && mkfs.ext4 -q AT.img && losetup --find --show AT.img", "AT", at)))
	t.Cleanup(func() {
		if _, err := own.Run(context.WithoutCancel(t.Context()), "losetup", "--detach", device); err != nil {
			t.Error(err)
		}
	})
	config := func(directory string) string {
		return acctest.Block{Lab: l, Hosts: []acctest.Host{{Of: own}}}.String() + fmt.Sprintf(`
resource "virtfleet_storage_pool" "this" {
  name   = %q
  type   = "fs"
  target = { path = %q }
  source = { devices = [%q], format = "ext4" }
}
`, name, directory, device)
	}
	changes := resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{
		plancheck.ExpectResourceAction("virtfleet_storage_pool.this", plancheck.ResourceActionUpdate),
	}}
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: acctest.Factories(t),
		CheckDestroy: func(*terraform.State) error {
			if left := xml(t, l, own, name); left != "" {
				return fmt.Errorf("still there: %s", left)
			}
			return nil
		},
		Steps: []resource.TestStep{
			{Config: config(at), Check: has(t, l, name, "<path>"+at+"</path>", own)},
			{
				PreConfig: func() {
					l.Run(t, own.Name, "truncate", "-s", "1M", at+"/disk")
					l.Define(t, own.Name, fmt.Sprintf(`<domain type="qemu"><name>%s</name><memory unit="MiB">32</memory>
						<os><type>hvm</type></os><devices><disk type="file"><driver type="raw"/><source file="%s/disk"/>
						<target dev="vda" bus="virtio"/></disk></devices></domain>`, name, at))
					l.Virsh(t, own.Name, "start", name)
				},
				Config:      config(at + "-2"),
				ExpectError: regexp.MustCompile(`Unable to update storage pool`),
			},
			{Config: config(at), Destroy: true, ExpectError: regexp.MustCompile(`Unable to delete storage pool`)},
			{
				PreConfig: func() {
					if err := has(t, l, name, "<path>"+at+"</path>", own)(nil); err != nil {
						t.Error(err)
					}
					// The directory isn't created by a later start of the pool, should it be missing then.
					if records := l.Virsh(t, own.Name, "secret-list"); strings.Contains(records, "virtfleet:creating:") {
						t.Errorf("a record of the change is left: %s", records)
					}
					l.Virsh(t, own.Name, "destroy", name)
					l.Virsh(t, own.Name, "undefine", name)
				},
				Config: config(at + "-2"), ConfigPlanChecks: changes,
				Check: resource.ComposeTestCheckFunc(has(t, l, name, "<path>"+at+"-2</path>", own), func(*terraform.State) error {
					l.Run(t, own.Name, "test", "-f", at+"-2/disk")
					return nil
				}),
			},
		},
	})
}

// TestAccStoragePool_refresh: libvirt knows what it has read of a pool. A plan doesn't make it read the pool again, so
// a file that was put there by hand is no volume at first. It is one after an apply that changes refresh_triggers.
func TestAccStoragePool_refresh(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	at := "/var/lib/libvirt/" + name
	c := acctest.NewCLI(t)
	config := func(files int) string {
		return acctest.OneHost(l) + fmt.Sprintf("resource \"virtfleet_storage_pool\" \"this\" {\n  name = %q\n"+
			"  type = \"dir\"\n  target = { path = %q }\n  refresh_triggers = { files = %d }\n}\n", name, at, files)
	}
	volume := fmt.Sprintf("resource \"virtfleet_volume\" \"this\" {\n  name = \"byhand\"\n"+
		"  pool = virtfleet_storage_pool.this.name\n"+
		"  size = \"1Mi\"\n  format = \"raw\"\n}\nimport {\n  to = virtfleet_volume.this\n  id = \"%[1]s/byhand\"\n}\n", name)
	c.Config(t, config(0))
	c.Run(t, "apply")
	l.Run(t, "kvm1", "truncate", "-s", "1M", at+"/byhand")
	if out, empty := c.Empty(t); !empty {
		t.Error(out)
	}
	c.Config(t, config(0)+volume)
	if out := c.Fail(t, "plan"); !strings.Contains(out, "no configured host has the volume") {
		t.Error(out)
	}
	c.Config(t, config(1))
	c.Run(t, "apply")
	c.Config(t, config(1)+volume)
	if out := c.Run(t, "apply"); !strings.Contains(out, "1 imported, 0 added, 0 changed, 0 destroyed") {
		t.Error(out)
	}
	if out, empty := c.Empty(t); !empty {
		t.Error(out)
	}
	c.Run(t, "destroy")
	l.Run(t, "kvm1", "rmdir", at) // The volume is gone with its file.
	if left := xml(t, l, l.Host("kvm1"), name); left != "" {
		t.Errorf("left: %s", left)
	}
}
