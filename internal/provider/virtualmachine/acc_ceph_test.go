package virtualmachine_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"
	"github.com/hashicorp/terraform-plugin-testing/tfjsonpath"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccVirtualMachine_ceph: an RBD image is made and grown through a storage pool with cephx, a VM runs from it, and
// moves while it runs, to a host that gets the secret with it, and keeps what its guest has written. There it reads a
// snapshot of the image. Then the secret and the pool are on that host, too, and the pool has another monitor. A third
// host, whose key is wrong, can't start the pool, and can once it has the right one.
func TestAccVirtualMachine_ceph(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	ceph := l.Ceph(t, name)
	corrected := correctsKey(t, l, ceph, name)
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
	const one, both, readOnly = `["kvm1"]`, `["kvm1", "kvm2"]`, "read_only = true"
	portal := fmt.Sprintf("%s:%d", ceph.Host, ceph.Port)
	hosts := fmt.Sprintf("hosts = [%q]", portal)
	// Only the file says where the monitor is.
	ofBase := fmt.Sprintf("hosts = []\nsnapshot = \"base\"\nconfig_file = %q", ceph.ClientFile())
	fromFile := fmt.Sprintf("<config file='%s'/>", ceph.ClientFile())
	volume := func(size string) string {
		return fmt.Sprintf(`
resource "virtfleet_volume" "root" {
  name = "root"
  pool = virtfleet_storage_pool.ceph.name
  size = %q
}
`, size)
	}
	keeps, idle := keeperOfData(l, name), idleVM(l, name)
	// config has the VM with more attributes of the network source and of the disk.
	config := func(vm hcl, host, size, network, disk string) string {
		return base(one) + volume(size) + vm.with(hcl{
			"host": quote(host), "update_policy": quote("Restart"), "devices": consoleOf(name),
			"disks": fmt.Sprintf(`{ root = {
				network = {
					protocol = "rbd", name = "%s/${virtfleet_volume.root.name}"
					auth     = { username = %q, secret = virtfleet_secret.ceph.id }
					%s
				}
				cache = "none", format = "raw"
				%s
			} }`, ceph.Pool, ceph.Username, network, disk),
		}).String()
	}
	// byID has the VM with the image as a volume of the pool, which says where the monitors are and how QEMU logs in.
	byID := func(host, size string) string {
		return base(one) + volume(size) + keeps.with(hcl{
			"host": quote(host), "devices": consoleOf(name),
			"disks": `{ root = { volume = virtfleet_volume.root.id, cache = "none" } }`,
		}).String()
	}
	has := func(host string, mib int) resource.TestCheckFunc {
		return func(*terraform.State) error {
			return errors.Join(contains(l.Virsh(t, host, "domblkinfo", name, "vda"), fmt.Sprint(mib<<20)),
				contains(ceph.RBD(t, "info", ceph.Pool+"/root"), fmt.Sprintf("size %d MiB", mib)))
		}
	}
	var before string
	// devices returns the VM's process and the devices of both definitions.
	devices := func() string {
		_, stored, _ := strings.Cut(l.Virsh(t, "kvm1", "dumpxml", "--inactive", name), "<devices>")
		_, live, _ := strings.Cut(l.Virsh(t, "kvm1", "dumpxml", name), "<devices>")
		return l.Virsh(t, "kvm1", "domid", name) + stored + live
	}
	unchanged := func(*terraform.State) error {
		if now := devices(); now != before {
			return fmt.Errorf("the VM has changed from\n%s\nto\n%s", before, now)
		}
		return has("kvm1", 32)(nil)
	}
	story(t, l, []string{name}, resource.TestStep{
		Config: base(one),
	}, resource.TestStep{
		Config: byID("kvm1", "16Mi"), ConfigPlanChecks: changes(plancheck.ResourceActionCreate),
		ConfigStateChecks: []statecheck.StateCheck{
			know("status", exactly("Running")),
			statecheck.ExpectKnownValue(address, tfjsonpath.New("disks").AtMapKey("root").AtMapKey("path"),
				exactly(fmt.Sprintf("rbd:%s/root@%s", ceph.Pool, portal))),
		},
		Check: resource.ComposeTestCheckFunc(has("kvm1", 16), look(t, l, "kvm1", name,
			"<auth username='libvirt'>", "<secret type='ceph'", fmt.Sprintf("port='%d'", ceph.Port)),
			keepsData(t, l, "kvm1", name, true)),
	}, resource.TestStep{
		PreConfig: func() {
			acctest.ImportGenerated(t, providerBlock(l, ""), map[string]string{
				"virtfleet_storage_pool.ceph": name, "virtfleet_volume.root": name + "/root",
			})
		},
		Config: byID("kvm1", "32Mi"), Check: resource.ComposeTestCheckFunc(has("kvm1", 32), func(*terraform.State) error {
			before = devices()
			return nil
		}),
	}, resource.TestStep{
		// In the other form, it is the same disk. The VM doesn't change.
		Config: config(keeps, "kvm1", "32Mi", hosts, ""), Check: unchanged,
	}, resource.TestStep{
		Config: byID("kvm1", "32Mi"), Check: unchanged,
	}, resource.TestStep{
		Config: byID("kvm2", "32Mi"), ConfigPlanChecks: changes(plancheck.ResourceActionUpdate),
		ConfigStateChecks: []statecheck.StateCheck{know("current_host", exactly("kvm2"))},
		Check: resource.ComposeTestCheckFunc(has("kvm2", 32), keepsData(t, l, "kvm2", name, false), func(
			s *terraform.State,
		) error {
			id := s.RootModule().Resources["virtfleet_secret.ceph"].Primary.ID
			if value := l.Virsh(t, "kvm2", "secret-get-value", id); strings.TrimSpace(value) != ceph.Key {
				return errors.New("the secret on kvm2 has another value")
			}
			return nil
		}),
	}, resource.TestStep{
		// It only reads a snapshot.
		PreConfig: func() {
			ceph.RBD(t, "snap", "create", ceph.Pool+"/root@base")
			ceph.RBD(t, "snap", "create", ceph.Pool+"/root@other")
		},
		Config: config(idle, "kvm2", "32Mi", ofBase, readOnly), ConfigPlanChecks: changes(plancheck.ResourceActionUpdate),
		Check: resource.ComposeTestCheckFunc(has("kvm2", 32), look(t, l, "kvm2", name, "<snapshot name='base'/>", fromFile,
			"<readonly/>"), func(*terraform.State) error {
			if xml := l.Virsh(t, "kvm2", "dumpxml", name); strings.Contains(xml, "<host ") {
				return fmt.Errorf("the disk has a monitor: %s", xml)
			}
			return nil
		}),
	}, resource.TestStep{
		ResourceName: address, ImportState: true, ImportStateVerify: true, ImportStateId: name,
		ImportStateVerifyIgnore: readWhereDeclared("run_strategy", "timeouts", "status_reason", "host", "update_policy"),
	}, resource.TestStep{
		// A user takes another snapshot and another file by hand.
		PreConfig: func() {
			xml := l.Virsh(t, "kvm2", "dumpxml", "--inactive", "--security-info", name)
			l.Virsh(t, "kvm2", "define", writeDeviceXML(t, strings.NewReplacer("name='base'", "name='other'",
				ceph.ClientFile(), "/etc/other.conf").Replace(xml)))
		},
		Config: config(idle, "kvm2", "32Mi", ofBase, readOnly), ConfigPlanChecks: changes(plancheck.ResourceActionUpdate),
		Check: look(t, l, "kvm2", name, "<snapshot name='base'/>", fromFile),
	}, resource.TestStep{
		// Another snapshot of the same image, by its monitor: the file, which is no longer declared, stays.
		Config: config(idle, "kvm2", "32Mi", hosts+"\nsnapshot = \"other\"", readOnly),
		Check:  look(t, l, "kvm2", name, "<snapshot name='other'/>", fromFile, fmt.Sprintf("port='%d'", ceph.Port)),
	}, resource.TestStep{
		// Without the snapshot, the VM has the image.
		Config: config(idle, "kvm2", "32Mi", hosts+"\nsnapshot = \"\"\nconfig_file = \"\"", "read_only = false"),
		Check: func(*terraform.State) error {
			ceph.RBD(t, "snap", "purge", ceph.Pool+"/root")
			xml := l.Virsh(t, "kvm2", "dumpxml", name)
			if strings.Contains(xml, "<snapshot") || strings.Contains(xml, "<config ") {
				return fmt.Errorf("the disk still has a snapshot or a file: %s", xml)
			}
			return nil
		},
	}, resource.TestStep{
		// Another monitor, which no host reaches, is declared as well.
		Config: strings.Replace(base(both), "hosts = [{", "hosts = [{ name = \"192.0.2.53\", port = 6789 }, {", 1),
		ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{
			plancheck.ExpectResourceAction("virtfleet_storage_pool.ceph", plancheck.ResourceActionUpdate),
		}},
		Check: func(*terraform.State) error {
			if left := ceph.RBD(t, "ls", ceph.Pool); left != "" {
				return fmt.Errorf("the pool still has %s", left)
			}
			for _, flags := range [][]string{nil, {"--inactive"}} {
				if err := contains(l.Virsh(t, "kvm1", append([]string{"pool-dumpxml", name}, flags...)...),
					"<host name='192.0.2.53' port='6789'/>", fmt.Sprintf("<host name='%s' port='%d'/>", ceph.Host, ceph.Port),
				); err != nil {
					return err
				}
			}
			if err := contains(l.Virsh(t, "kvm1", "pool-info", name), "running"); err != nil {
				return err
			}
			return contains(l.Virsh(t, "kvm2", "pool-info", name), "running")
		},
	})
	corrected()
}

// correctsKey begins to create a pool with a key that the cluster doesn't accept, on a host of its own: Ceph's client
// gives up after half a minute, and the host's libvirt lists no pools as long. It returns what awaits the error, and
// then corrects the key.
func correctsKey(t *testing.T, l *lab.Lab, ceph *lab.Ceph, name string) (correct func()) {
	t.Helper()
	host := l.StartHost(t)
	config := func(key, version string) string {
		return acctest.Block{Lab: l, Hosts: []acctest.Host{{Of: host}}}.String() + fmt.Sprintf(`
resource "virtfleet_secret" "ceph" {
  usage            = "ceph"
  usage_id         = %[1]q
  value_base64_wo  = %[2]q
  value_wo_version = %[3]q
}
resource "virtfleet_storage_pool" "ceph" {
  name   = %[1]q
  type   = "rbd"
  source = {
    name  = %[4]q
    hosts = [{ name = %[5]q, port = %[6]d }]
    auth  = { type = "ceph", username = %[7]q, secret = virtfleet_secret.ceph.id }
  }
}
`, name, key, version, ceph.Pool, ceph.Host, ceph.Port, ceph.Username)
	}
	wrong, err := base64.StdEncoding.DecodeString(ceph.Key)
	if err != nil {
		t.Fatal(err)
	}
	wrong[len(wrong)-1] ^= 1
	tf := acctest.NewCLI(t)
	tf.Config(t, config(base64.StdEncoding.EncodeToString(wrong), "1"))
	applies := tf.Start(t, "apply")
	pools := func() string { return l.Virsh(t, host.Name, "pool-list", "--name") }
	return func() {
		t.Helper()
		out, err := applies.Wait()
		if err == nil || !inOrder(`Unable to create storage pool "`+name, "RADOS", "Host: "+host.Name,
			"source.auth.username", "virtfleet_secret", "value_wo_version").MatchString(out) {
			t.Errorf("with a wrong key: %v, %s", err, out)
		}
		if left := l.Virsh(t, host.Name, "pool-list", "--all", "--name"); strings.Contains(left, name) {
			t.Errorf("left on host %s: %s", host.Name, left)
		}
		tf.Config(t, config(ceph.Key, "2"))
		tf.Run(t, "apply")
		if out, empty := tf.Empty(t); !empty || !strings.Contains(pools(), name) {
			t.Errorf("with the right key, there are %s, and the plan is %s", pools(), out)
		}
		tf.Run(t, "destroy")
	}
}
