package virtualmachine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// talking is what a VM needs to be waited for until its guest's agent answers. A guest that hasn't booted has so
// little in its memory that it is moved before anything can be done about it.
var talking = hcl{"guest_agent": `{ enabled = true }`, "wait_for": `{ guest_agent = true, timeout = "5m" }`}

// qemuExitReasons are the reasons for which the VM's QEMU processes have ended so far, as their log has them.
func qemuExitReasons(t *testing.T, l *lab.Lab, host, name string) string {
	t.Helper()
	return strings.Join(strings.Fields(l.Run(t, host, "sed", "-n", "s/.*shutting down, reason=//p",
		"/var/log/libvirt/qemu/"+name+".log")), " ")
}

// inGuest starts a shell command in a guest, whose agent may take its time.
func inGuest(t *testing.T, l *lab.Lab, host, name, script string) {
	t.Helper()
	command, err := json.Marshal(map[string]any{
		"execute": "guest-exec", "arguments": map[string]any{"path": "/bin/sh", "arg": []string{"-c", script}},
	})
	if err != nil {
		t.Fatal(err)
	}
	l.Run(t, host, "bash", "-c", `for i in {1..300}; do
	virsh -q -c qemu:///system qemu-agent-command "$1" "$2" && exit
	# What the command does may stop the guest before its agent has answered.
	[ "$(virsh -q -c qemu:///system domstate "$1")" = running ] || exit 0; sleep 0.1
done; exit 1`, "agent", name, string(command))
}

// TestAccPower_guest: what a guest does to its own power, and an error of its disk, which only a person can judge.
func TestAccPower_guest(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	export := l.NBD(t, name, 16<<20)
	tf := acctest.NewCLI(t)
	tf.Config(t, acctest.OneHost(l)+guest(l, name).with(talking).with(hcl{
		"host": quote("kvm1"),
		"disks": fmt.Sprintf(`{ data = { network = { protocol = "nbd", name = %q, hosts = [%q] }, cache = "none" } }`,
			export.Name, export.Address()),
	}).String())
	tf.Run(t, "apply")
	plan := func(status, reason, action, then string) {
		t.Helper()
		change := tf.Plan(t)[address]
		got := fmt.Sprint(change.Before["status"], change.Before["status_reason"], change.Actions, change.After["status"])
		if want := fmt.Sprint(status, reason, action, then); got != want {
			t.Fatalf("the plan is %q, want %q", got, want)
		}
	}

	// It is connected, and has five seconds for its first answer: no more than it may need while the guest still boots.
	l.AwaitAgent(t, "kvm1", name)
	l.ShutDownByAgent(t, "kvm1", name)
	awaitState(t, l, "kvm1", name, "shut off (shutdown)")
	plan("Stopped", "Shutdown", "update", "Running")
	tf.Run(t, "apply", "planned")

	l.AwaitAgent(t, "kvm1", name)
	l.Virsh(t, "kvm1", "dompmsuspend", name, "mem")
	awaitState(t, l, "kvm1", name, "pmsuspended (unknown)")
	plan("Paused", "PMSuspended", "update", "Running")
	tf.Run(t, "apply", "planned")
	if state := strings.TrimSpace(l.Virsh(t, "kvm1", "domstate", name)); state != "running" {
		t.Errorf("after the apply it is %s", state)
	}
	// The port that an agent talks through often hangs once its guest was suspended. Then the VM isn't ready, and the plan
	// says so.
	l.Virsh(t, "kvm1", "reset", name)
	l.AwaitAgent(t, "kvm1", name)
	noChanges(t, tf)

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := l.RemoveExport(ctx, name); err != nil {
		t.Fatal(err)
	}
	// The agent answers before the driver of the disk is loaded.
	inGuest(t, l, "kvm1", name,
		"until [ -b /dev/vda ]; do sleep 0.1; done; dd if=/dev/zero of=/dev/vda bs=1M count=4")
	awaitState(t, l, "kvm1", name, "paused (I/O error)")
	plan("Paused", "IOError", "no-op", "Paused")
	expect(
		t,
		tf.Run(t, "apply"),
		"Warning: Virtual machine is paused and not resumed",
		"(IOError)",
		"could damage its data",
		"0 changed",
	)
	awaitState(t, l, "kvm1", name, "paused (I/O error)")
	expect(t, tf.Run(t, "destroy"), "Warning: Virtual machine was forced off", `on host "kvm1" was destroyed, since its `+
		`guest could not be asked`)
	if err := acctest.CheckDestroyed(l, name)(nil); err != nil {
		t.Error(err)
	}
	if got := qemuExitReasons(t, l, "kvm1", name); got != "shutdown destroyed" {
		t.Errorf("QEMU ended by %q", got)
	}
}

// TestAccPower_restart: a restart shuts the guest down, although libvirt would start it again when it shuts down. One
// that doesn't listen is forced off after its grace period, and the user is told so.
func TestAccPower_restart(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	tf := acctest.NewCLI(t)
	config := func(grace string, words ...string) {
		tf.Config(t, acctest.On(l, "kvm2")+vmWithKernelWords(l, name, words...).with(talking).with(hcl{
			"host": quote("kvm2"), "update_policy": quote("Restart"), "termination_grace_period": quote(grace),
			"deletion_protection": "true", "platform": `{ events = { on_poweroff = "restart" } }`,
		}).String())
	}
	config("60s", "hostname=first")
	tf.Run(t, "apply")

	config("60s", "hostname=second", "noacpi", "noshutdown")
	out := tf.Run(t, "apply")
	expect(t, out, "Warning: Virtual machine will be restarted", "kernel: The kernel is loaded when the VM starts")
	if strings.Contains(out, "forced") {
		t.Errorf("the guest was forced off:\n%s", out)
	}

	config("3s", "hostname=third", "noacpi", "noshutdown")
	expect(
		t,
		tf.Run(t, "apply"),
		"Warning: Virtual machine was forced off",
		`on host "kvm2" was destroyed after the grace `+
			`period. What its guest hadn't written to its disks is lost.`,
	)
	if got := qemuExitReasons(t, l, "kvm2", name); got != "shutdown destroyed" {
		t.Errorf("QEMU ended by %q, want a shutdown and a destruction", got)
	}

	expect(t, tf.Fail(t, "destroy"), "Error: Virtual machine is protected", "apply deletion_protection = false first")
	tf.Config(t, acctest.On(l, "kvm2")+vmWithKernelWords(l, name, "hostname=third", "noacpi", "noshutdown").with(hcl{
		"host": quote("kvm2"), "termination_grace_period": quote("3s"),
	}).String())
	tf.Run(t, "apply")
	noChanges(t, tf)
	expect(t, tf.Run(t, "destroy"), "Warning: Virtual machine was forced off", "after the grace period")
	if err := acctest.CheckDestroyed(l, name)(nil); err != nil {
		t.Error(err)
	}
}

// TestAccPower_staged: what was staged is there after the next start, whoever starts the VM, and nothing is left to do.
func TestAccPower_staged(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	tf := acctest.NewCLI(t)
	config := func(vcpus int) {
		tf.Config(t, acctest.OneHost(l)+idleVM(l, name).with(hcl{
			"host": quote("kvm1"), "update_policy": quote("Stage"), "cpu": fmt.Sprintf("{ vcpus = %d }", vcpus),
		}).String())
	}
	required := func(want bool) {
		t.Helper()
		state, _ := tf.State(t, address)
		if state["restart_required"] != want {
			t.Errorf("restart_required is %v, want %v", state["restart_required"], want)
		}
		noChanges(t, tf)
	}
	config(1)
	tf.Run(t, "apply")
	config(2)
	tf.Run(t, "apply")
	required(true)
	destroyed(t, l, "kvm1", name)
	begun(t, l, "kvm1", name)
	tf.Run(t, "apply", "-refresh-only")
	required(false)
	destroyAndCheck(t, l, tf, name)
}
