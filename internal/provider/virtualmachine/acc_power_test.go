package virtualmachine_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/virtualmachine"
)

// powerCase is a VM to which something happens, and what its run strategy makes of that.
type powerCase struct {
	strategy string
	happens  func(t *testing.T, l *lab.Lab, host, name string)
	// seen is the status and its reason afterwards ("" for any), action what the plan does about it, and then the status
	// after it.
	seen, reason, action, then string
}

// What may happen to a VM, by hand or by accident.
var (
	nothing   = func(*testing.T, *lab.Lab, string, string) {}
	destroyed = byVirsh("destroy")
	suspended = byVirsh("suspend")
	begun     = byVirsh("start")
	crashed   = func(t *testing.T, l *lab.Lab, host, name string) {
		t.Helper()
		l.Run(t, host, "bash", "-c", `kill -KILL "$(cat "/run/libvirt/qemu/$1.pid")"`, "kill", name)
		awaitState(t, l, host, name, "shut off (crashed)")
	}
)

func byVirsh(command string) func(t *testing.T, l *lab.Lab, host, name string) {
	return func(t *testing.T, l *lab.Lab, host, name string) { t.Helper(); l.Virsh(t, host, command, name) }
}

// awaitState waits until a domain is in a state, with the reason that virsh gives.
func awaitState(t *testing.T, l *lab.Lab, host, name, want string) {
	t.Helper()
	l.Run(t, host, "bash", "-c", `for i in {1..600}; do
	[ "$(virsh -q -c qemu:///system domstate --reason "$1")" = "$2" ] && exit; sleep 0.1
done; virsh -c qemu:///system domstate --reason "$1"; exit 1`, "await", name, want)
}

// awaitStopped waits until libvirtd has removed what it notes of a VM that runs. One that is killed before that finds
// the VM gone when it starts, and takes that for a crash.
func awaitStopped(t *testing.T, l *lab.Lab, host, name string) {
	t.Helper()
	l.Run(t, host, "bash", "-c",
		`for i in {1..600}; do [ -e "/run/libvirt/qemu/$1.xml" ] || exit 0; sleep 0.1; done; exit 1`, "await", name)
}

// powerCases are VMs by name, the name of their resource.
type powerCases map[string]powerCase

func (all powerCases) keys() []string { return slices.Sorted(maps.Keys(all)) }

func (all powerCases) config(l *lab.Lab, prefix string) string {
	var b strings.Builder
	for _, key := range all.keys() {
		b.WriteString(idleVM(l, prefix+key).with(hcl{"run_strategy": quote(all[key].strategy)}).named(key))
	}
	return b.String()
}

// play lets everything happen, and plans and applies once for all VMs.
func (all powerCases) play(t *testing.T, l *lab.Lab, tf *acctest.CLI, host, prefix string) {
	t.Helper()
	for _, key := range all.keys() {
		all[key].happens(t, l, host, prefix+key)
	}
	planned := tf.Plan(t)
	for _, key := range all.keys() {
		c, change := all[key], planned[virtualmachine.TypeName+"."+key]
		if change.Before["status"] != c.seen || c.reason != "" && change.Before["status_reason"] != c.reason {
			t.Errorf("%s: it is %v (%v), want %s (%s)", key, change.Before["status"], change.Before["status_reason"],
				c.seen, c.reason)
		}
		if change.Actions != c.action || change.After["status"] != c.then {
			t.Errorf("%s: the plan does %q and makes it %v, want %q and %s", key, change.Actions, change.After["status"],
				c.action, c.then)
		}
	}
	tf.Run(t, "apply", "planned")
	noChanges(t, tf)
}

// TestAccPower_drift: what a user did to a VM's power, and which run strategy minds. Then the host's libvirtd is
// restarted, after which it isn't known any more why a VM is off.
func TestAccPower_drift(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	own := l.StartHost(t)
	prefix := lab.Name(t) + "-"
	all := powerCases{
		"always_destroyed": {"Always", destroyed, "Stopped", "Destroyed", "update", "Running"},
		"always_crashed":   {"Always", crashed, "Failed", "Crashed", "update", "Running"},
		"always_suspended": {"Always", suspended, "Paused", "User", "update", "Running"},
		"rerun_destroyed":  {"RerunOnFailure", destroyed, "Stopped", "Destroyed", "no-op", "Stopped"},
		"rerun_crashed":    {"RerunOnFailure", crashed, "Failed", "Crashed", "update", "Running"},
		"rerun_suspended":  {"RerunOnFailure", suspended, "Paused", "User", "no-op", "Paused"},
		"manual_untouched": {"Manual", nothing, "Stopped", "Unknown", "no-op", "Stopped"},
		"manual_started":   {"Manual", begun, "Running", "Booted", "no-op", "Running"},
		"once_destroyed":   {"Once", destroyed, "Stopped", "Destroyed", "no-op", "Stopped"},
		"once_crashed":     {"Once", crashed, "Failed", "Crashed", "no-op", "Failed"},
		"halted_untouched": {"Halted", nothing, "Stopped", "Unknown", "no-op", "Stopped"},
		"halted_started":   {"Halted", begun, "Running", "Booted", "update", "Stopped"},
	}
	for _, key := range all.keys() {
		l.RemoveDomain(t, prefix+key)
	}
	tf := acctest.NewCLI(t)
	provider := acctest.Block{Lab: l, Hosts: []acctest.Host{{Of: own}}}.String()
	tf.Config(t, provider+all.config(l, prefix))
	tf.Run(t, "apply")
	all.play(t, l, tf, own.Name, prefix)

	after := powerCases{}
	for key, c := range all {
		c.happens, c.action = nothing, "no-op"
		switch c.seen = c.then; c.seen {
		case "Stopped", "Failed":
			c.seen, c.reason, c.then = "Stopped", "Unknown", "Stopped"
		case "Running":
			c.reason = ""
		}
		after[key] = c
	}
	// These two are off when libvirtd ends, one of them crashed.
	after["always_destroyed"] = powerCase{"Always", nothing, "Stopped", "Unknown", "update", "Running"}
	after["rerun_crashed"] = powerCase{"RerunOnFailure", nothing, "Stopped", "Unknown", "no-op", "Stopped"}
	destroyed(t, l, own.Name, prefix+"always_destroyed")
	crashed(t, l, own.Name, prefix+"rerun_crashed")
	for _, key := range []string{"always_destroyed", "rerun_crashed"} {
		awaitStopped(t, l, own.Name, prefix+key)
	}
	l.KillLibvirtd(t, own)()
	after.play(t, l, tf, own.Name, prefix)

	tf.Run(t, "destroy")
	if left := strings.TrimSpace(l.Virsh(t, own.Name, "list", "--all", "--name")); left != "" {
		t.Errorf("left behind: %s", left)
	}
}

// TestAccPower_changedSincePlan: what was done by hand between a plan and its apply. The apply does nothing to a VM's
// power that its plan doesn't show, changes nothing of such a VM, and the next plan shows what there is to do.
func TestAccPower_changedSincePlan(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	prefix := lab.Name(t) + "-"
	plugged := func(t *testing.T, l *lab.Lab, host, name string) {
		t.Helper()
		l.Virsh(t, host, "setvcpus", name, "2", "--live")
	}
	restart := hcl{"update_policy": quote("Restart")}
	all := map[string]struct {
		strategy string
		wish     hcl
		happens  func(t *testing.T, l *lab.Lab, host, name string)
		// then is the status after the change by hand, is the state that virsh gives, says what the apply refuses.
		then, is, says string
	}{
		"stopped": {
			"Always", nil, destroyed, "Stopped", "shut off (destroyed)",
			`It was Running when it was planned, and is Stopped now: with run_strategy "Always" this run would start it`,
		},
		"suspended": {
			"Always", nil, suspended, "Paused", "paused (user)",
			`It was Running when it was planned, and is Paused now: with run_strategy "Always" this run would resume it`,
		},
		"started": {
			"Halted", nil, begun, "Running", "running (booted)",
			`It was Stopped when it was planned, and is Running now: with run_strategy "Halted" this run would shut it down`,
		},
		"plugged": {
			"Always", restart, plugged, "Running", "running (booted)",
			"It has changed since it was planned, or the maintenance of its host has: this run would restart its guest",
		},
		// Its plan shows a restart, of which a start is a part.
		"restarted": {
			"Always", restart.with(hcl{"cpu": `{ vcpus = 1, max_sockets = 2, mode = "maximum" }`}), destroyed,
			"Running", "running (booted)", "",
		},
	}
	keys := slices.Sorted(maps.Keys(all))
	names := make([]string, len(keys))
	for i, key := range keys {
		names[i] = prefix + key
		l.RemoveDomain(t, names[i])
	}
	tf := acctest.NewCLI(t)
	removed := prefix + "removed"
	l.RemoveDomain(t, removed)
	declare := func(labels string, changed bool) {
		config := acctest.OneHost(l)
		if !changed {
			config += idleVM(l, removed).with(hcl{"host": quote("kvm1"), "run_strategy": quote("Halted")}).named("removed")
		}
		for _, key := range keys {
			vm := idleVM(l, prefix+key).with(hcl{
				"host": quote("kvm1"), "run_strategy": quote(all[key].strategy), "labels": labels,
				"cpu": `{ vcpus = 1, max_sockets = 2 }`,
			})
			if changed {
				vm = vm.with(all[key].wish)
			}
			config += vm.named(key)
		}
		tf.Config(t, config)
	}
	declare(`{ window = "before" }`, false)
	tf.Run(t, "apply")

	declare(`{ window = "now" }`, true)
	planned := tf.Plan(t)
	process := map[string]*started{}
	for _, key := range keys {
		c, change := all[key], planned[virtualmachine.TypeName+"."+key]
		if change.Actions != "update" || change.Before["status"] != change.After["status"] {
			t.Errorf("%s: the plan does %q and makes it %v", key, change.Actions, change.After["status"])
		}
		c.happens(t, l, "kvm1", prefix+key)
		if c.says != "" && c.then != "Stopped" {
			process[key] = &started{l: l, host: "kvm1", name: prefix + key}
			process[key].pid = process[key].read(t)
		}
	}
	begun(t, l, "kvm1", removed)
	out := tf.Fail(t, "apply", "planned")
	expect(t, out, "It was off when its deletion was planned, and is Running now", "Virtual machine: "+removed)
	if is := strings.TrimSpace(l.Virsh(t, "kvm1", "domstate", removed)); is != "running" {
		t.Errorf("the VM that was to be deleted while it was off is %s", is)
	}
	for _, key := range keys {
		t.Run(key, func(t *testing.T) {
			c := all[key]
			definition := l.Virsh(t, "kvm1", "dumpxml", prefix+key, "--inactive")
			if is := strings.TrimSpace(l.Virsh(t, "kvm1", "domstate", prefix+key, "--reason")); is != c.is {
				t.Errorf("it is %s, want %s", is, c.is)
			}
			if c.says == "" {
				if err := contains(definition, "now", "mode='maximum'"); err != nil {
					t.Error(err)
				}
				return
			}
			if p := process[key]; p != nil {
				if err := p.same(t)(nil); err != nil {
					t.Error(err)
				}
			}
			if err := contains(definition, "before"); err != nil {
				t.Errorf("it was changed: %v", err)
			}
			state, _ := tf.State(t, virtualmachine.TypeName+"."+key)
			if state["status"] != c.then || fmt.Sprint(state["labels"]) != "map[window:before]" {
				t.Errorf("the state says it is %v, with the labels %v", state["status"], state["labels"])
			}
			expect(t, out, c.says+", which was not planned. Its power is left as it is", "Virtual machine: "+prefix+key)
		})
	}
	expect(t, tf.Run(t, "apply"), "Warning: Virtual machine will be restarted", prefix+"plugged")
	noChanges(t, tf)
	destroyAndCheck(t, l, tf, append(slices.Clone(names), removed)...)
}

// TestAccPower_replacedSincePlan: a VM that was off when its replacement was planned, and has been started since,
// stays. A plan that shows that it runs replaces it, whatever became of the plan before.
func TestAccPower_replacedSincePlan(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	tf := acctest.NewCLI(t)
	tf.Config(t, acctest.OneHost(l)+idleVM(l, name).with(hcl{"run_strategy": quote("Halted")}).String())
	tf.Run(t, "apply")
	before := l.Virsh(t, "kvm1", "domuuid", name)

	tf.Run(t, "plan", "-out=planned", "-replace="+address)
	begun(t, l, "kvm1", name)
	expect(t, tf.Fail(t, "apply", "planned"), "It was off when its deletion was planned, and is Running now")
	if is := strings.TrimSpace(l.Virsh(t, "kvm1", "domstate", name)); is != "running" {
		t.Errorf("it is %s", is)
	}

	tf.Run(t, "apply", "-replace="+address)
	if now := l.Virsh(t, "kvm1", "domuuid", name); now == before {
		t.Error("it was not replaced")
	}
	noChanges(t, tf)
	destroyAndCheck(t, l, tf, name)
}
