package evacuationplan_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/evacuationplan"
)

func TestMain(m *testing.M) { acctest.Main(m) }

// plan is what the data source says, its steps by the names of the VMs.
type plan struct {
	blocked, recorded any
	steps             map[string]map[string]any
}

func read(t *testing.T, tf *acctest.CLI, name string) plan {
	t.Helper()
	state, _ := tf.State(t, evacuationplan.TypeName+"."+name)
	p := plan{state["blocked"], state["under_maintenance"], map[string]map[string]any{}}
	list, _ := state["steps"].([]any)
	for _, s := range list {
		if step, ok := s.(map[string]any); ok {
			_, name, _ := strings.Cut(fmt.Sprint(step["name"]), "-")
			p.steps[name] = step
		}
	}
	return p
}

// expect compares each step: strategy, origin, policy, method, target, transfer, and whether something blocks it.
func (p plan) expect(t *testing.T, blocked, recorded bool, want map[string]string) {
	t.Helper()
	if p.blocked != blocked || p.recorded != recorded {
		t.Errorf("blocked %v, under_maintenance %v; want %v, %v", p.blocked, p.recorded, blocked, recorded)
	}
	if got := slices.Sorted(maps.Keys(p.steps)); !slices.Equal(got, slices.Sorted(maps.Keys(want))) {
		t.Errorf("steps of %v", got)
	}
	for name, step := range p.steps {
		var got []string
		for _, attribute := range []string{"strategy", "origin", "eviction_policy_name", "method", "target", "transfer"} {
			if step[attribute] != nil {
				got = append(got, fmt.Sprint(step[attribute]))
			}
		}
		if blockers, _ := step["blockers"].([]any); len(blockers) > 0 {
			got = append(got, strings.SplitN(fmt.Sprint(blockers[0]), ":", 2)[0])
		}
		if got := strings.Join(got, " "); got != want[name] {
			t.Errorf("%s: %s, want %s", name, got, want[name])
		}
	}
}

// TestAccEvacuationPlan: what is said of each VM before a maintenance, while one of them can't leave, and during
// the maintenance, when it is what was planned for that.
func TestAccEvacuationPlan(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	from, to, tf := l.StartHost(t), l.StartHost(t), acctest.NewCLI(t)
	prefix := lab.Name(t)
	prefix = "m" + prefix[len(prefix)-6:]
	define := func(name, devices string) {
		l.RemoveDomain(t, prefix+"-"+name)
		l.Define(t, from.Name, fmt.Sprintf(`<domain type="qemu"><name>%s-%s</name><memory unit="MiB">32</memory>
			<os><type arch="x86_64">hvm</type></os><devices>%s</devices></domain>`, prefix, name, devices))
	}
	define("stopped", "")
	l.RemoveDomain(t, prefix+"-own")
	l.RemoveDomain(t, prefix+"-none")
	config := func(more string, arrives bool) {
		tf.Config(t, acctest.Block{Lab: l, Hosts: []acctest.Host{
			{Of: from, Settings: fmt.Sprintf("migration_address = %q", from.Address)},
			{Of: to, Settings: fmt.Sprintf("migration_address = %q\n      schedulable = %t", to.Address, arrives)},
		}}.String()+fmt.Sprintf(`
resource "virtfleet_virtual_machine" "own" {
  name                     = "%[1]s-own"
  type                     = "qemu"
  memory                   = { size = "48Mi" }
  eviction_strategy        = "LiveMigrate"
  termination_grace_period = "0s"
}

resource "virtfleet_virtual_machine" "none" {
  name                     = "%[1]s-none"
  type                     = "qemu"
  memory                   = { size = "32Mi" }
  termination_grace_period = "0s"
}

resource "virtfleet_eviction_policy" "none" {
  name     = "%[1]s"
  selector = { names = ["%[1]s-none"] }
  strategy = "None"
}

resource "virtfleet_eviction_policy" "plain" {
  name     = "%[1]s-plain"
  selector = { names = ["%[1]s-plain"] }
  strategy = "LiveMigrate"
}
`, prefix)+more)
	}
	data := fmt.Sprintf(`
data "virtfleet_evacuation_plan" "this" {
  host = %[1]q
}

data "virtfleet_evacuation_plan" "all" {
  host         = %[1]q
  move_stopped = true
}
`, from.Name)
	config("", false)
	tf.Run(t, "apply")
	define("plain", "") // Its policy was there before it.
	l.Virsh(t, from.Name, "start", prefix+"-plain")

	want := map[string]string{
		"plain":   "LiveMigrate policy " + prefix + "-plain LiveMigration " + to.Name + " 32Mi",
		"own":     "LiveMigrate virtual_machine LiveMigration " + to.Name + " 48Mi",
		"none":    "None policy " + prefix + " Shutdown",
		"stopped": "LiveMigrateIfPossible provider Leave",
	}
	config(data, true)
	tf.Run(t, "apply")
	read(t, tf, "this").expect(t, false, false, want)
	all := maps.Clone(want)
	all["stopped"] = "LiveMigrateIfPossible provider ColdMigration " + to.Name
	before := read(t, tf, "all")
	before.expect(t, false, false, all)

	image := l.Image(t, from.Name, prefix+".qcow2", "qcow2", 1<<20)
	define("disk", fmt.Sprintf(`<disk type="file"><driver name="qemu" type="qcow2"/><source file="%s"/>
		<target dev="vda" bus="virtio"/></disk>`, image))
	l.Virsh(t, from.Name, "start", prefix+"-disk")
	tf.Run(t, "apply")
	held := maps.Clone(want)
	held["disk"] = "LiveMigrateIfPossible provider Blocked DisksNotLiveMigratable"
	read(t, tf, "this").expect(t, true, false, held)
	l.Virsh(t, from.Name, "destroy", prefix+"-disk")
	l.Virsh(t, from.Name, "undefine", prefix+"-disk")

	// Whether the hosts share a file that no storage pool shows, only a try would tell.
	doubt := "- " + prefix + "-unlisted to " + to.Name + ": DisksNotLiveMigratable"
	unlisted := "/var/lib/libvirt/boot/" + prefix + ".raw"
	l.Run(t, from.Name, "qemu-img", "create", "-q", "-f", "raw", unlisted, "1M")
	define("unlisted", fmt.Sprintf(`<disk type="file"><driver name="qemu" type="raw" cache="none"/><source file="%s"/>
		<target dev="vda" bus="virtio"/></disk>`, unlisted))
	l.Virsh(t, from.Name, "start", prefix+"-unlisted")
	if out := tf.Run(t, "apply"); !strings.Contains(out, doubt) {
		t.Errorf("the plan of the drain doesn't say that it may fail: %s", out)
	}
	doubted := maps.Clone(want)
	doubted["unlisted"] = "LiveMigrateIfPossible provider LiveMigration " + to.Name + " 32Mi"
	read(t, tf, "this").expect(t, false, false, doubted)
	l.Virsh(t, from.Name, "destroy", prefix+"-unlisted")
	l.Virsh(t, from.Name, "undefine", prefix+"-unlisted")
	if out := tf.Run(t, "apply"); strings.Contains(out, "whether the virtual machine can be moved") {
		t.Errorf("nothing is doubtful, and the plan says: %s", out)
	}

	maintenance := fmt.Sprintf(`
resource "virtfleet_host_maintenance" "this" {
  host         = %q
  steps        = data.virtfleet_evacuation_plan.all.steps
  move_stopped = true
}
`, from.Name)
	config(data+maintenance, true)
	tf.Run(t, "apply")
	if out, empty := tf.Empty(t); !empty {
		t.Errorf("left to do:\n%s", out)
	}
	tf.Run(t, "apply") // The state has what is read now.
	during := read(t, tf, "all")
	during.expect(t, false, true, all)
	for name, step := range before.steps {
		if fmt.Sprint(during.steps[name]) != fmt.Sprint(step) {
			t.Errorf("%s: %v was planned, and %v is recorded", name, step, during.steps[name])
		}
	}
	for name, is := range map[string]string{
		"stopped": to.Name + " shut off", "plain": to.Name + " running", "own": to.Name + " running",
		"none": from.Name + " shut off",
	} {
		for _, h := range []*lab.Host{from, to} {
			out, err := l.TryVirsh(t, h.Name, "domstate", prefix+"-"+name)
			if got := h.Name + " " + strings.TrimSpace(out); err == nil && got != is {
				t.Errorf("%s: %s, want %s alone", name, got, is)
			}
		}
	}

	tf.Run(t, "destroy")
	for _, h := range []*lab.Host{from, to} {
		if out := l.Secrets(t, h.Name); strings.Contains(out, "virtfleet:") {
			t.Errorf("left on host %s: %s", h.Name, out)
		}
		out := l.Virsh(t, h.Name, "list", "--all")
		if strings.Contains(out, prefix+"-own") || strings.Contains(out, prefix+"-none") {
			t.Errorf("left on host %s: %s", h.Name, out)
		}
	}
}
