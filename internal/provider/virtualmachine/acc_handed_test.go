package virtualmachine_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// handing is a VM with one disk, a file that was there before, in a storage pool.
type handing struct {
	l                    *lab.Lab
	name, strategy, file string
	// seen is what the host had of the VM and its disk at first.
	seen string
}

func newHanding(t *testing.T, strategy string) *handing {
	t.Helper()
	name := lab.Name(t)
	return &handing{
		l: lab.Open(t), name: name, strategy: strategy, file: "/var/lib/libvirt/" + name + "/data.qcow2",
	}
}

// base has the storage pool alone.
func (h *handing) base() string {
	return acctest.OneHost(h.l) + fmt.Sprintf(`
resource "virtfleet_storage_pool" "vms" {
  name   = %[1]q
  type   = "dir"
  target = { path = "/var/lib/libvirt/%[1]s" }
}
`, h.name)
}

func (h *handing) config(disk string) string {
	return h.base() + idleVM(h.l, h.name).with(hcl{
		"host": quote("kvm1"), "run_strategy": quote(h.strategy),
		"disks":      fmt.Sprintf("{ data = { %s } }", strings.NewReplacer("POOL", h.name, "FILE", h.file).Replace(disk)),
		"depends_on": "[virtfleet_storage_pool.vms]",
	}).String()
}

// as describes the disk and expects that neither the VM nor the file changes.
func (h *handing) as(t *testing.T, disk string, checks ...statecheck.StateCheck) resource.TestStep {
	t.Helper()
	return resource.TestStep{
		Config: h.config(disk), ConfigPlanChecks: changes(plancheck.ResourceActionUpdate), ConfigStateChecks: checks,
		Check: func(*terraform.State) error { return h.unchanged(t) },
	}
}

// unchanged compares the disk in the definitions, its file and the process with what they were.
func (h *handing) unchanged(t *testing.T) error {
	t.Helper()
	seen := h.l.Run(t, "kvm1", "sh", "-c", `for which in "" --inactive; do
  virsh dumpxml $which "$1" | sed -n "/<disk/,/<\/disk>/p"
done; stat -c "%i %s" "$2"; cat "/run/libvirt/qemu/$1.pid" 2>/dev/null || true`, "sh", h.name, h.file)
	if h.seen == "" {
		h.seen = seen
	}
	if seen != h.seen || !strings.Contains(seen, h.file) {
		return fmt.Errorf("there was\n%s\nand is\n%s", h.seen, seen)
	}
	return nil
}

func (h *handing) begin(t *testing.T) []resource.TestStep {
	t.Helper()
	return []resource.TestStep{{Config: h.base()}, {
		PreConfig: func() {
			h.l.Virsh(t, "kvm1", "vol-create-as", h.name, "data.qcow2", "16M", "--format", "qcow2")
		},
		Config: h.config(`file = "FILE"`), ConfigPlanChecks: changes(plancheck.ResourceActionCreate),
		Check: func(*terraform.State) error { return h.unchanged(t) },
	}}
}

func (h *handing) has(t *testing.T, want string) resource.TestStep {
	t.Helper()
	return resource.TestStep{Config: h.base(), Check: func(*terraform.State) error {
		if got := strings.Join(volumes(t, h.l, "kvm1", h.name), " "); got != want {
			return fmt.Errorf("the storage pool has %q; want %q", got, want)
		}
		return nil
	}}
}

const (
	asFile = `file = "FILE"`
	asPath = `volume = "FILE"`
	asID   = `volume = "POOL/data.qcow2"`
	asOwn  = `pool = "POOL", size = "16Mi"`
)

// TestAccVirtualMachine_handedOver: a disk goes from each form to each other without a change of the VM. What isn't the
// same file is refused in the plan.
func TestAccVirtualMachine_handedOver(t *testing.T) {
	t.Parallel()
	h := newHanding(t, "Halted")
	refused := func(disk string, why ...string) resource.TestStep {
		return resource.TestStep{Config: h.config(disk), ExpectError: inOrder(why...)}
	}
	at := know("disks.data.path", exactly(h.file))
	steps := append(h.begin(t),
		refused(`pool = "default", size = "16Mi"`, "disks.data.pool", "no volume of that name"),
		refused(`pool = "POOL", size = "8Mi"`, "disks.data.size", "never shrink"),
		refused(`volume = "default/data.qcow2"`, "disks.data.volume", "no volume of that name"),
		h.as(t, asPath), h.as(t, asFile), h.as(t, asID, at), h.as(t, asPath), h.as(t, asOwn, at), h.as(t, asPath),
		h.as(t, asID, at), h.as(t, asFile), h.as(t, asOwn, at), h.as(t, asFile), h.as(t, asOwn, at), h.as(t, asID, at),
		h.as(t, asOwn, at), h.has(t, ""))
	story(t, h.l, []string{h.name}, steps...)
}

// TestAccVirtualMachine_handedOverRunning: the same while the VM runs. A disk that became its own grows as one, and an
// overlay is handed over with its image.
func TestAccVirtualMachine_handedOverRunning(t *testing.T) {
	t.Parallel()
	h := newHanding(t, "Always")
	image := "/var/lib/libvirt/" + h.name + "/base.qcow2"
	steps := h.begin(t)
	create := steps[1].PreConfig
	steps[1].PreConfig = func() {
		create()
		h.l.Run(t, "kvm1", "qemu-img", "create", "-q", "-f", "qcow2", image, "16M")
		h.l.Run(t, "kvm1", "qemu-img", "rebase", "-q", "-u", "-F", "qcow2", "-b", image, h.file)
		h.l.Virsh(t, "kvm1", "pool-refresh", h.name)
	}
	own := `pool = "POOL", image = "POOL/base.qcow2", size = "%sMi"`
	grown := h.as(t, fmt.Sprintf(own, "24"))
	grown.Check = func(*terraform.State) error {
		return contains(h.l.Virsh(t, "kvm1", "domblkinfo", h.name, "vda"), fmt.Sprint(24<<20))
	}
	kept := resource.TestStep{
		Config: h.config(asFile), ConfigPlanChecks: changes(plancheck.ResourceActionUpdate),
		Check: look(t, h.l, "kvm1", h.name, h.file),
	}
	steps = append(steps,
		resource.TestStep{Config: h.config(asOwn), ExpectError: inOrder("disks.data.image", "an overlay of")},
		h.as(t, fmt.Sprintf(own, "16")), h.as(t, asID), h.as(t, fmt.Sprintf(own, "16")), grown, kept,
		h.has(t, "base.qcow2 data.qcow2"))
	story(t, h.l, []string{h.name}, steps...)
	h.l.Run(t, "kvm1", "rm", image, h.file)
}

// TestAccVirtualMachine_handedOverVolume: the file of a virtfleet_volume becomes the VM's own only if the resource is
// removed in the same apply, and an own disk can't be imported as a volume. One owner would delete what the other
// keeps.
func TestAccVirtualMachine_handedOverVolume(t *testing.T) {
	t.Parallel()
	h := newHanding(t, "Halted")
	managed := "resource \"virtfleet_volume\" \"data\" {\n  name = \"data.qcow2\"\n  host = \"kvm1\"\n" +
		"  pool = virtfleet_storage_pool.vms.name\n  size = \"16Mi\"\n}\n"
	leaves := "removed {\n  from = virtfleet_volume.data\n  lifecycle { destroy = false }\n}\n"
	imported := fmt.Sprintf("import {\n  to = virtfleet_volume.data\n  id = \"kvm1/%s/data.qcow2\"\n}\n", h.name)
	own := h.as(t, asOwn)
	own.Config += leaves
	refused := func(why string) resource.TestStep {
		return resource.TestStep{Config: h.config(asOwn) + managed, ExpectError: inOrder(why, "data.qcow2", "removed {")}
	}
	story(t, h.l, []string{h.name},
		resource.TestStep{
			Config: h.config("volume = virtfleet_volume.data.id") + managed,
			Check:  func(*terraform.State) error { return h.unchanged(t) },
		},
		refused("Disk would have two owners"), own,
		resource.TestStep{
			Config:      h.config(asOwn) + managed + imported,
			ExpectError: inOrder("Unable to import volume", fmt.Sprintf("VM %q", h.name), "disk of its own", "file"),
		},
		h.has(t, ""))
}
