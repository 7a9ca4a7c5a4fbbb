package virtualmachine_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// restartMark tells whether a VM has the mark that it is to be started after a restart.
func restartMark(t *testing.T, l *lab.Lab, host, name string) bool {
	t.Helper()
	return strings.Contains(l.Virsh(t, host, "metadata", name, "urn:virtfleet:1", "--config"), "restarting")
}

// powerPlan plans, and fails the test unless the plan is this: status and reason before, the action, and the status
// after it.
func powerPlan(t *testing.T, tf *acctest.CLI, want ...any) {
	t.Helper()
	change := tf.Plan(t)[address]
	got := fmt.Sprint(change.Before["status"], change.Before["status_reason"], change.Actions, change.After["status"])
	if want := fmt.Sprint(want...); got != want {
		t.Fatalf("the plan is %q, want %q", got, want)
	}
}

// TestAccPower_restartKilled: the provider is killed when the guest that it restarts has gone off. The next apply
// starts the VM, with every run strategy that otherwise leaves it off, and only once.
func TestAccPower_restartKilled(t *testing.T) {
	t.Parallel()
	const host = "kvm1"
	for _, strategy := range []string{"Manual", "RerunOnFailure"} {
		t.Run(strategy, func(t *testing.T) {
			t.Parallel()
			l := lab.Open(t)
			tf := acctest.NewCLI(t)
			name := lab.Name(t)
			l.RemoveDomain(t, name)
			config := func(on acctest.Host, vcpus int) {
				tf.Config(t, acctest.Block{Lab: l, Hosts: []acctest.Host{on}}.String()+
					guest(l, name).with(talking).with(hcl{
						"host": quote(host), "run_strategy": quote(strategy), "update_policy": quote("Restart"),
						"cpu": fmt.Sprintf("{ vcpus = %d }", vcpus), "termination_grace_period": quote("3m"),
					}).String())
			}
			config(acctest.Host{Of: l.Host(host)}, 1)
			tf.Run(t, "apply")
			if strategy == "Manual" {
				begun(t, l, host, name)
				tf.Run(t, "apply")
			}
			l.AwaitAgent(t, host, name)

			isOff := func() bool { return !exists(l, host, "/run/libvirt/qemu/"+name+".pid") }
			config(viaProxy(l.Gate(t, host, isOff), host), 2)
			apply := tf.Start(t, "apply")
			waitWhileRunning(t, "the guest to go off", apply, isOff)
			if err := apply.KillProvider(); err != nil {
				t.Fatal(err)
			}
			if out, err := apply.Wait(); err == nil {
				t.Fatalf("the apply continued:\n%s", out)
			}
			awaitState(t, l, host, name, "shut off (shutdown)")

			config(acctest.Host{Of: l.Host(host)}, 2)
			powerPlan(t, tf, "Stopped", "RestartInterrupted", "update", "Running")
			expect(t, tf.Run(t, "plan"), "Warning: Restart of the virtual machine was interrupted", "apply starts it")
			tf.Run(t, "apply", "planned")
			noChanges(t, tf)
			if restartMark(t, l, host, name) {
				t.Error("it still has the mark of the restart")
			}

			// What a user turns off afterwards stays off.
			l.AwaitAgent(t, host, name)
			l.ShutDownByAgent(t, host, name)
			awaitState(t, l, host, name, "shut off (shutdown)")
			powerPlan(t, tf, "Stopped", "Shutdown", "no-op", "Stopped")
			destroyAndCheck(t, l, tf, name)
		})
	}
}

// TestAccPower_restartRefused: a guest that doesn't shut down outlives the apply that was to restart it. If its user
// then turns it off, no apply starts it, and plans say so until the next change.
func TestAccPower_restartRefused(t *testing.T) {
	t.Parallel()
	const host = "kvm1"
	l := lab.Open(t)
	tf := acctest.NewCLI(t)
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	config := func(vcpus int, strategy string) {
		// Without a system it hears no power button.
		tf.Config(t, acctest.OneHost(l)+idleVM(l, name).with(hcl{
			"host": quote(host), "run_strategy": quote(strategy), "update_policy": quote("Restart"),
			"cpu": fmt.Sprintf("{ vcpus = %d }", vcpus), "termination_grace_period": quote("4m"),
		}).String())
	}
	config(1, "Once")
	tf.Run(t, "apply")

	config(2, "Once")
	apply := tf.Start(t, "apply")
	waitWhileRunning(t, "the mark", apply, func() bool { return restartMark(t, l, host, name) })
	expect(t, interrupt(t, apply), "Error: Unable to update virtual machine", "Virtual machine: "+name)
	awaitState(t, l, host, name, "running (booted)")
	powerPlan(t, tf, "Running", "Booted", "update", "Running")

	destroyed(t, l, host, name)
	powerPlan(t, tf, "Stopped", "RestartLapsed", "no-op", "Stopped")
	expect(t, tf.Run(t, "apply"), "Warning: Restart of the virtual machine was interrupted", "It isn't started",
		"0 changed")
	awaitState(t, l, host, name, "shut off (destroyed)")

	config(2, "Halted")
	tf.Run(t, "apply")
	noChanges(t, tf)
	if restartMark(t, l, host, name) {
		t.Error("it still has the mark of the restart")
	}
	destroyAndCheck(t, l, tf, name)
}
