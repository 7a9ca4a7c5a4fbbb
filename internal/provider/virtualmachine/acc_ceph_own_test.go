package virtualmachine_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
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
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// cephBase declares a pool in Ceph on both hosts, and on kvm1 a pool of files with an image of that content.
func cephBase(t *testing.T, ceph *lab.Ceph, name string, content []byte) string {
	t.Helper()
	raw, file := filepath.Join(t.TempDir(), "raw"), filepath.Join(t.TempDir(), "qcow2")
	if err := os.WriteFile(raw, content, 0o600); err != nil {
		t.Fatal(err)
	}
	convert := exec.CommandContext(t.Context(), "qemu-img", "convert", "-O", "qcow2", raw, file)
	if out, err := convert.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return fmt.Sprintf(`
resource "virtfleet_secret" "ceph" {
  usage            = "ceph"
  usage_id         = %[1]q
  value_base64_wo  = %[2]q
  value_wo_version = "1"
}
resource "virtfleet_storage_pool" "ceph" {
  name  = "%[1]s-ceph"
  type  = "rbd"
  source = {
    name  = %[3]q
    hosts = [{ name = %[4]q, port = %[5]d }]
    auth  = { type = "ceph", username = %[6]q, secret = virtfleet_secret.ceph.id }
  }
}
`, name, ceph.Key, ceph.Pool, ceph.Host, ceph.Port, ceph.Username) + poolWithImage(name, file)
}

// TestAccVirtualMachine_cephOwn: the disks of a VM are RBD images of its own: one is a copy of an image, one is empty.
// They grow while the guest runs and while it is off, are there after a live and a cold move without a copy, keep what
// is on them under another key and in another form, and are gone with the VM. An image that is lost is named. What Ceph
// can't have is refused.
func TestAccVirtualMachine_cephOwn(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	ceph := l.Ceph(t, name)
	content := make([]byte, 24<<20)
	_, _ = rand.NewChaCha8([32]byte{}).Read(content[16<<20:])
	base := providerBlock(l, "") + cephBase(t, ceph, name, content)
	vm := keeperOfData(l, name).with(hcl{"devices": consoleOf(name)})
	const root, from = `root = { pool = virtfleet_storage_pool.ceph.name, size = %q, %s }`,
		`image = virtfleet_image.base.id, clone = "full"`
	config := func(host, disks string, more hcl) string {
		return base + vm.with(hcl{"host": quote(host), "disks": "{ " + disks + " }"}).with(more).String()
	}
	rooted := func(size string) string { return fmt.Sprintf(root, size, from) }
	data := func(key, size string) string {
		return fmt.Sprintf(`, %s = { pool = virtfleet_storage_pool.ceph.name, size = %q }`, key, size)
	}
	nameFile := filepath.Join(t.TempDir(), "data")
	off := hcl{"run_strategy": quote("Halted")}
	images := func() []string { return strings.Fields(ceph.RBD(t, "ls", ceph.Pool)) }
	// image returns the one image of a disk that was created under that key.
	image := func(key string) string {
		all := slices.DeleteFunc(images(), func(n string) bool { return !strings.HasPrefix(n, name+"-"+key+"-") })
		if len(all) != 1 {
			t.Fatalf("disk %s has the images %q", key, all)
		}
		return all[0]
	}
	has := func(key string, mib int) resource.TestCheckFunc {
		return func(*terraform.State) error {
			return contains(ceph.RBD(t, "info", ceph.Pool+"/"+image(key)), fmt.Sprintf("size %d MiB", mib))
		}
	}
	// moved expects the very images that were there before.
	var before string
	identities := func() (all string) {
		for _, n := range images() {
			_, id, _ := strings.Cut(ceph.RBD(t, "info", ceph.Pool+"/"+n), "id: ")
			all += n + strings.Fields(id)[0]
		}
		return all
	}
	same := func(*terraform.State) error {
		if now := identities(); now != before {
			return fmt.Errorf("the images were %s and are %s", before, now)
		}
		return nil
	}
	pathOf := func(key string) statecheck.StateCheck {
		at := tfjsonpath.New("disks").AtMapKey(key)
		return statecheck.ExpectKnownValue(address, at.AtMapKey("path"), knownvalue.StringRegexp(regexp.MustCompile(
			fmt.Sprintf(`^rbd:%s/%s-(data|root)-[0-9a-f]{8}-[0-9a-f]{8}@%s:%d$`, ceph.Pool, name, ceph.Host, ceph.Port))))
	}
	story(t, l, []string{name}, resource.TestStep{
		Config: base,
	}, resource.TestStep{
		Config:      config("kvm1", fmt.Sprintf(root, "32Mi", "image = virtfleet_image.base.id"), nil),
		ExpectError: regexp.MustCompile(`(?s)can't be overlays.*Set\s+clone\s+=\s+"full"`), PlanOnly: true,
	}, resource.TestStep{
		Config:      config("kvm1", rooted("32Mi"), hcl{"cloud_init": `{ user_data = "#cloud-config\n" }`}),
		ExpectError: regexp.MustCompile(`(?s)cloud-init\s+medium\s+is\s+a\s+file.*cloud_init.pool`), PlanOnly: true,
	}, resource.TestStep{
		Config:            config("kvm1", rooted("32Mi")+data("data", "8Mi"), nil),
		ConfigPlanChecks:  changes(plancheck.ResourceActionCreate),
		ConfigStateChecks: []statecheck.StateCheck{know("status", exactly("Running")), pathOf("root")},
		Check: resource.ComposeTestCheckFunc(has("root", 32), has("data", 8), look(t, l, "kvm1", name,
			"<auth username='libvirt'>", "<secret type='ceph'"), keepsData(t, l, "kvm1", name, true),
			func(*terraform.State) error {
				is := ceph.RBD(t, "export", "--no-progress", ceph.Pool+"/"+image("root"), "-")
				if !bytes.Equal([]byte(is)[20<<20:24<<20], content[20<<20:]) {
					return errors.New("the root disk isn't a copy of the image")
				}
				return nil
			}),
	}, resource.TestStep{
		Config:           config("kvm1", rooted("40Mi")+data("data", "8Mi"), nil),
		ConfigPlanChecks: changes(plancheck.ResourceActionUpdate),
		Check: resource.ComposeTestCheckFunc(has("root", 40), keepsData(t, l, "kvm1", name, true),
			func(*terraform.State) error {
				before = identities()
				return contains(l.Virsh(t, "kvm1", "domblkinfo", name, "vda"), fmt.Sprint(40<<20))
			}),
	}, resource.TestStep{
		Config:            config("kvm2", rooted("40Mi")+data("data", "8Mi"), nil),
		ConfigPlanChecks:  changes(plancheck.ResourceActionUpdate),
		ConfigStateChecks: []statecheck.StateCheck{know("current_host", exactly("kvm2"))},
		Check:             resource.ComposeTestCheckFunc(same, keepsData(t, l, "kvm2", name, false)),
	}, resource.TestStep{
		// The cold move, under another key, and the growth of a disk of a VM that is off.
		Config: config("kvm2", rooted("40Mi")+data("data", "8Mi"), off),
	}, resource.TestStep{
		Config:            config("kvm1", rooted("40Mi")+data("logs", "8Mi"), off),
		ConfigPlanChecks:  changes(plancheck.ResourceActionUpdate),
		ConfigStateChecks: []statecheck.StateCheck{know("current_host", exactly("kvm1")), pathOf("logs")}, Check: same,
	}, resource.TestStep{
		Config:           config("kvm1", rooted("40Mi")+data("logs", "12Mi"), off),
		ConfigPlanChecks: changes(plancheck.ResourceActionUpdate),
		Check: resource.ComposeTestCheckFunc(same, has("data", 12), func(*terraform.State) error {
			return os.WriteFile(nameFile, []byte(image("data")), 0o600)
		}),
	}, resource.TestStep{
		ResourceName: address, ImportState: true, ImportStateVerify: true, ImportStateId: name,
		ImportStateVerifyIgnore: readWhereDeclared("run_strategy", "timeouts", "status_reason", "host", "update_policy"),
	}, resource.TestStep{
		Config: config("kvm1", rooted("16Mi")+data("logs", "12Mi"), off), ExpectError: regexp.MustCompile("never shrink"),
	}, resource.TestStep{
		// In another form, it is the same disk, and no destroy removes it. Then it is the VM's own again.
		Config: config("kvm1", rooted("40Mi")+fmt.Sprintf(`, logs = { network = {
			protocol = "rbd", name = "%s/${file(%q)}", hosts = ["%s:%d"]
		} }`, ceph.Pool, nameFile, ceph.Host, ceph.Port), off), Check: same,
	}, resource.TestStep{
		Config: config("kvm1", rooted("40Mi")+data("logs", "12Mi"), off), Check: same,
	}, resource.TestStep{
		// A user has removed an image.
		PreConfig:   func() { ceph.RBD(t, "rm", "--no-progress", ceph.Pool+"/"+image("data")) },
		Config:      config("kvm1", rooted("40Mi")+data("logs", "12Mi"), nil),
		ExpectError: regexp.MustCompile(`(?s)disks.logs.*the\s+RBD\s+image`), PlanOnly: true,
	}, resource.TestStep{
		Config: config("kvm1", rooted("40Mi"), off), Check: has("root", 40),
	}, resource.TestStep{
		Config: config("kvm1", rooted("40Mi"), nil), Check: keepsData(t, l, "kvm1", name, true),
	}, resource.TestStep{
		Config: base, Check: func(*terraform.State) error {
			if left := images(); len(left) > 0 {
				return fmt.Errorf("Ceph still has %s", left)
			}
			return nil
		},
	})
}

// TestAccVirtualMachine_cephOwnKilled: a run that creates a VM is killed together with libvirtd, while QEMU copies the
// image of the VM's disk to Ceph. QEMU continues. The next apply ends that, and creates the disk again.
func TestAccVirtualMachine_cephOwnKilled(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	ceph := l.Ceph(t, name)
	h := l.StartHost(t)
	content := make([]byte, 24<<20)
	_, _ = rand.NewChaCha8([32]byte{}).Read(content)
	base := providerBlock(l, "", h) + cephBase(t, ceph, name, content)
	tf := acctest.NewCLI(t)
	tf.Config(t, base)
	tf.Run(t, "apply")
	tf.Config(t, base+idleVM(l, name).with(hcl{"run_strategy": quote("Halted"), "disks": `{ root = {
		pool = virtfleet_storage_pool.ceph.name, image = virtfleet_image.base.id, clone = "full"
	} }`}).String())
	copiers := func() []string {
		return slices.DeleteFunc(strings.Fields(l.Virsh(t, h.Name, "list", "--all", "--name")), func(domain string) bool {
			return domain == name
		})
	}
	// Clients write that many bytes a second.
	ceph.RBD(t, "config", "pool", "set", ceph.Pool, "rbd_qos_bps_limit", fmt.Sprint(1<<20))
	running := tf.Start(t, "apply")
	lab.Await(t, "a copy into Ceph", func() bool {
		for _, copier := range copiers() {
			job, err := l.TryVirsh(t, h.Name, "blockjob", copier, "vda", "--raw")
			if err == nil && strings.Contains(job, "cur=") && !strings.Contains(job, "cur=0\n") {
				return true
			}
		}
		return false
	})
	restart := l.KillLibvirtd(t, h)
	if err := running.Kill(); err != nil {
		t.Fatal(err)
	}
	<-running.Done()
	restart()
	if len(copiers()) == 0 {
		t.Error("libvirtd has ended the copier, although it was killed")
	}
	ceph.RBD(t, "config", "pool", "remove", ceph.Pool, "rbd_qos_bps_limit")
	tf.Run(t, "apply")
	images := strings.Fields(ceph.RBD(t, "ls", ceph.Pool))
	if len(images) != 1 || len(copiers()) > 0 {
		t.Fatalf("Ceph has %s, and %s copy", images, copiers())
	}
	if is := ceph.RBD(t, "export", "--no-progress", ceph.Pool+"/"+images[0], "-"); is != string(content) {
		t.Error("the disk has another content than its image")
	}
	noChanges(t, tf)
	tf.Run(t, "destroy")
	if left := ceph.RBD(t, "ls", ceph.Pool); left != "" {
		t.Errorf("Ceph still has %s", left)
	}
}
