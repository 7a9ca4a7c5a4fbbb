package virtualmachine_test

import (
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/virtualmachine"
)

// TestAccPower_savedPaused: libvirt starts a VM paused whose memory was saved with virsh managedsave --paused, and
// gives the pause the reason of one half of a migration. A run that starts the VM resumes it. One that a user has
// started isn't taken for a migrating VM. It isn't resumed either: it might be one half of a migration that was lost.
func TestAccPower_savedPaused(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	tf := acctest.NewCLI(t)
	declare := func(description string) {
		tf.Config(t, acctest.OneHost(l)+idleVM(l, name).with(hcl{
			"host": quote("kvm1"), "run_strategy": quote("Always"), "description": quote(description),
		}).named("vm"))
	}
	declare("as it was")
	tf.Run(t, "apply")

	l.Virsh(t, "kvm1", "managedsave", name, "--paused")
	tf.Run(t, "apply")
	if is := strings.TrimSpace(l.Virsh(t, "kvm1", "domstate", name)); is != "running" {
		t.Errorf("it is %s", is)
	}
	noChanges(t, tf)

	l.Virsh(t, "kvm1", "managedsave", name, "--paused")
	l.Virsh(t, "kvm1", "start", name)
	const reason = "paused (migrating)"
	expect(t, l.Virsh(t, "kvm1", "domstate", name, "--reason"), reason)
	expect(t, tf.Run(t, "apply"), "Warning: Virtual machine is paused and not resumed", "paused (Restore)")
	state, _ := tf.State(t, virtualmachine.TypeName+".vm")
	if state["status"] != "Paused" || state["status_reason"] != "Restore" {
		t.Errorf("the state says it is %v (%v)", state["status"], state["status_reason"])
	}
	declare("changed")
	expect(t, tf.Fail(t, "apply"), "no job runs that would continue it", "virsh resume")
	expect(t, l.Virsh(t, "kvm1", "domstate", name, "--reason"), reason)

	l.Virsh(t, "kvm1", "resume", name)
	tf.Run(t, "apply")
	noChanges(t, tf)
	destroyAndCheck(t, l, tf, name)
}

// TestAccPower_savedPausedCut: the connection breaks while a run starts a VM whose memory was saved to stay paused, so
// that the run doesn't resume it. The next apply does, also if it moves the VM, and its plan says so. What the user
// pauses afterwards, in whatever way, stays paused.
func TestAccPower_savedPausedCut(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	tf := acctest.NewCLI(t)
	gate := l.DelayProxy(t, "kvm1", 0)
	declare := func(strategy, host string) {
		tf.Config(t, acctest.Block{Lab: l, Hosts: []acctest.Host{viaProxy(gate, "kvm1"), {Of: l.Host("kvm2")}}}.String()+
			idleVM(l, name).with(hcl{
				"host": quote(host), "run_strategy": quote(strategy), "guest_agent": `{ enabled = false }`,
			}).String())
	}
	startedAndCut := func() {
		t.Helper()
		l.Virsh(t, "kvm1", "managedsave", name, "--paused")
		gate.CutAt(func() bool { return exists(l, "kvm1", lab.QEMUPIDFile(name)) })
		tf.Fail(t, "apply")
		if !gate.HasCut() {
			t.Fatal("the connection was never cut")
		}
		awaitState(t, l, "kvm1", name, "paused (migrating)")
	}
	runs := func(host string) {
		t.Helper()
		noChanges(t, tf)
		expect(t, l.Virsh(t, host, "domstate", name), "running")
		if strings.Contains(l.Virsh(t, host, "metadata", name, "urn:virtfleet:1", "--config"), "starting") {
			t.Error("it still has the mark of the start")
		}
	}
	declare("Always", "kvm1")
	tf.Run(t, "apply")
	startedAndCut()
	powerPlan(t, tf, "Paused", "StartInterrupted", "update", "Running")
	tf.Run(t, "apply", "planned")
	runs("kvm1")

	l.Virsh(t, "kvm1", "managedsave", name, "--paused")
	l.Virsh(t, "kvm1", "start", name)
	powerPlan(t, tf, "Paused", "Restore", "no-op", "Paused")
	l.Virsh(t, "kvm1", "resume", name)

	startedAndCut()
	declare("Always", "kvm2")
	powerPlan(t, tf, "Paused", "StartInterrupted", "update", "Running")
	tf.Run(t, "apply", "planned")
	runs("kvm2")

	declare("Manual", "kvm2")
	tf.Run(t, "apply")
	l.Virsh(t, "kvm2", "suspend", name)
	powerPlan(t, tf, "Paused", "User", "no-op", "Paused")
	destroyAndCheck(t, l, tf, name)
}

// TestAccPower_savedToFile: libvirt forgets the file to which virsh save has written a guest's memory. The plan that
// boots the VM afresh, or moves it, says what that makes of the file.
func TestAccPower_savedToFile(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	tf := acctest.NewCLI(t)
	declare := func(strategy, host string) {
		tf.Config(t, providerBlock(l, "")+
			idleVM(l, name).with(hcl{"host": quote(host), "run_strategy": quote(strategy)}).String())
	}
	declare("Always", "kvm1")
	tf.Run(t, "apply")
	file := "/tmp/" + name + ".save"
	l.Virsh(t, "kvm1", "save", name, file)
	t.Cleanup(func() { l.Run(t, "kvm1", "rm", "-f", file) })

	const title = "Warning: Saved memory will not be restored"
	expect(t, tf.Run(t, "plan"), title, name, "boots afresh", `first run "virsh restore <file>" on host "kvm1"`)
	declare("Halted", "kvm2")
	expect(t, tf.Run(t, "plan"), title, name, `VM moves to host "kvm2" without it`)
	declare("Halted", "kvm1")
	if out := tf.Run(t, "plan"); strings.Contains(out, title) {
		t.Errorf("it stays off, and: %s", out)
	}
	l.Virsh(t, "kvm1", "restore", file)
	declare("Always", "kvm1")
	noChanges(t, tf)
	destroyAndCheck(t, l, tf, name)
}
