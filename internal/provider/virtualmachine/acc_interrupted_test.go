package virtualmachine_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// soon is how long an interrupted command may take to end on a busy VM. What it would wait for otherwise takes minutes.
const soon = 3 * time.Minute

// waitWhileRunning waits until something is so. A command that it is about must not end before.
func waitWhileRunning(t *testing.T, what string, running *acctest.Running, so func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !so() {
		select {
		case <-tick.C:
		case <-running.Done():
			if so() {
				return // It has become so, and Terraform has ended, since the last look.
			}
			t.Fatalf("waited for %s, but Terraform has ended:\n%s", what, running.Output())
		case <-ctx.Done():
			t.Fatalf("waited for %s. Terraform says:\n%s", what, running.Output())
		}
	}
}

// exists tells whether a host has a file.
func exists(l *lab.Lab, host, file string) bool {
	_, err := os.Stat(l.Host(host).Path(file))
	return err == nil
}

// isLocked tells whether a run holds a VM's lock.
func isLocked(t *testing.T, l *lab.Lab, host, id string) bool {
	t.Helper()
	return strings.Contains(l.Virsh(t, host, "secret-list"), "virtfleet:lock:"+id)
}

func uuidOf(t *testing.T, l *lab.Lab, host, name string) string {
	t.Helper()
	return strings.TrimSpace(l.Virsh(t, host, "domuuid", name))
}

// TestAccVirtualMachine_killedInCreate: wherever the provider is killed while it makes a VM, the next apply ends
// with the one VM that was begun.
func TestAccVirtualMachine_killedInCreate(t *testing.T) {
	t.Parallel()
	const definition, process = "/etc/libvirt/qemu/%s.xml", "/run/libvirt/qemu/%s.pid"
	for moment, m := range map[string]struct {
		// file is there when it is time.
		file string
		// kill kills the provider, or Terraform with it.
		kill func(*acctest.Running) error
		// state is what the VM may be then.
		state string
	}{
		"defined": {definition, (*acctest.Running).KillProvider, "shut off"},
		"started": {process, (*acctest.Running).Kill, "paused or running"},
	} {
		t.Run(moment, func(t *testing.T) {
			t.Parallel()
			l := lab.Open(t)
			tf := acctest.NewCLI(t)
			name := lab.Name(t)
			l.RemoveDomain(t, name)
			config := func(host acctest.Host) string {
				return acctest.Block{Lab: l, Hosts: []acctest.Host{host, {Of: l.Host("kvm2")}}}.String() +
					idleVM(l, name).with(hcl{
						"host": quote("kvm1"), "guest_agent": `{ enabled = true }`,
						"wait_for": `{ guest_agent = true, timeout = "5m" }`,
					}).String()
			}

			// The provider never hears what came of the call which made the file, and makes none that follows.
			file := fmt.Sprintf(m.file, name)
			tf.Config(t, config(viaProxy(l.Gate(t, "kvm1", func() bool { return exists(l, "kvm1", file) }), "kvm1")))
			apply := tf.Start(t, "apply")
			waitWhileRunning(t, file, apply, func() bool { return exists(l, "kvm1", file) })
			if err := m.kill(apply); err != nil {
				t.Fatal(err)
			}
			if out, err := apply.Wait(); err == nil {
				t.Fatalf("the apply continued:\n%s", out)
			}
			if found := strings.TrimSpace(l.Virsh(t, "kvm1", "domstate", name)); !strings.Contains(m.state, found) {
				t.Fatalf("the VM is %s, it should be %s", found, m.state)
			}
			if state, _ := tf.State(t, address); state != nil {
				t.Fatalf("Terraform knows of a machine: %v", state["id"])
			}
			begun := uuidOf(t, l, "kvm1", name)

			// The next run takes it for its own, and says nothing of it.
			tf.Config(t, strings.Replace(config(acctest.Host{Of: l.Host("kvm1")}), "wait_for", "# wait_for", 1))
			tf.Run(t, "apply")
			state, tainted := tf.State(t, address)
			if state["id"] != begun || tainted || state["status"] != "Running" {
				t.Errorf("VM %v, tainted %v, %v; begun was %s", state["id"], tainted, state["status"], begun)
			}
			if err := onHosts(t, l, name, "running", "")(nil); err != nil {
				t.Error(err)
			}
			if mark := l.Virsh(t, "kvm1", "metadata", name, "urn:virtfleet:1", "--config"); strings.Contains(mark, "creating") {
				t.Errorf("it is still marked as being created: %s", mark)
			}
			noChanges(t, tf)

			// A mark that couldn't be removed is seen by the next plan, and removed by its apply.
			metadata := func() string { return l.Virsh(t, "kvm1", "metadata", name, "urn:virtfleet:1", "--config") }
			l.Virsh(t, "kvm1", "metadata", name, "urn:virtfleet:1", "--config", "--live", "--key", "virtfleet", "--set",
				strings.Replace(metadata(), "<generation>", `<creating owner="a run" since="2026-01-02T03:04:05Z"/>`+
					"<generation>", 1))
			if change := tf.Plan(t)[address]; change.Actions != "update" || change.Before["ready"] != false ||
				change.After["ready"] != true {
				t.Errorf("planned for a creation that isn't finished: %+v", change)
			}
			tf.Run(t, "apply")
			if mark := metadata(); strings.Contains(mark, "creating") {
				t.Errorf("it is still marked as being created: %s", mark)
			}
			noChanges(t, tf)
			destroyAndCheck(t, l, tf, name)
		})
	}
}

// TestAccVirtualMachine_killedWhileWaiting: killed when the VM is there and is waited for, and killed again when
// it is shut down: each time the next run continues from there.
func TestAccVirtualMachine_killedWhileWaiting(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	tf := acctest.NewCLI(t)
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	vm := vmWithKernelWords(l, name, "noagent", "noacpi").with(hcl{
		"host": quote("kvm2"), "guest_agent": `{ enabled = true }`, "termination_grace_period": quote("3m"),
		"wait_for": `{ guest_agent = true, timeout = "5m" }`,
	})

	tf.Config(t, acctest.On(l, "kvm2")+vm.String())
	apply := tf.Start(t, "apply")
	waitWhileRunning(t, "the VM to run", apply, func() bool { return exists(l, "kvm2", "/run/libvirt/qemu/"+name+".pid") })
	begun := uuidOf(t, l, "kvm2", name)
	if err := apply.KillProvider(); err != nil {
		t.Fatal(err)
	}
	if out, err := apply.Wait(); err == nil {
		t.Fatalf("the apply continued:\n%s", out)
	}
	tf.Config(t, acctest.On(l, "kvm2")+vm.with(hcl{"wait_for": ""}).String())
	tf.Run(t, "apply")
	if state, _ := tf.State(t, address); state["id"] != begun {
		t.Errorf("VM %v was made, %s was begun", state["id"], begun)
	}
	noChanges(t, tf)

	destroy := tf.Start(t, "destroy")
	waitWhileRunning(t, "the guest to be asked", destroy, func() bool { return isLocked(t, l, "kvm2", begun) })
	if err := destroy.Kill(); err != nil {
		t.Fatal(err)
	}
	if out, err := destroy.Wait(); err == nil {
		t.Fatalf("the destroy continued:\n%s", out)
	}
	if err := onHosts(t, l, name, "", "running")(nil); err != nil {
		t.Error(err)
	}
	tf.Config(t, acctest.On(l, "kvm2")+vm.with(hcl{"wait_for": "", "termination_grace_period": quote("0s")}).String())
	tf.Run(t, "apply")
	destroyAndCheck(t, l, tf, name)
}

// interrupt presses Ctrl-C, and returns what Terraform printed until it ended.
func interrupt(t *testing.T, running *acctest.Running) string {
	t.Helper()
	if err := running.Interrupt(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-running.Done():
	case <-time.After(soon):
		t.Fatalf("still running %s after Ctrl-C:\n%s", soon, running.Output())
	}
	out, _ := running.Wait()
	return out
}

// TestAccVirtualMachine_ctrlC: Ctrl-C ends what waits for a guest within seconds. The state tells the truth, nothing
// was forced, and the next apply continues.
func TestAccVirtualMachine_ctrlC(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	tf := acctest.NewCLI(t)
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	vm := vmWithKernelWords(l, name, "noagent", "noacpi").with(hcl{
		"host": quote("kvm1"), "guest_agent": `{ enabled = true }`, "termination_grace_period": quote("3m"),
		"wait_for": `{ guest_agent = true, timeout = "5m" }`,
	})
	// While a new VM is waited for.
	tf.Config(t, acctest.OneHost(l)+vm.String())
	apply := tf.Start(t, "apply")
	waitWhileRunning(t, "the VM to run", apply, func() bool { return onHosts(t, l, name, "running", "")(nil) == nil })
	id := uuidOf(t, l, "kvm1", name)
	process := &started{l: l, host: "kvm1", name: name}
	if err := process.same(t)(nil); err != nil {
		t.Fatal(err)
	}
	// Terraform says every ten seconds that it is still creating: by the second time, the provider waits for the agent.
	still := strings.Count(apply.Output(), "Still creating")
	waitWhileRunning(t, "the VM to be waited for", apply, func() bool {
		return strings.Count(apply.Output(), "Still creating") > still+1
	})
	expect(t, interrupt(t, apply), "Warning: Unable to wait for virtual machine", "its guest agent is not connected",
		"Then apply again to continue.")
	state, tainted := tf.State(t, address)
	if state["id"] != id || tainted || state["ready"] != false || state["status"] != "Running" {
		t.Errorf("after Ctrl-C: id %v, tainted %v, ready %v, %v", state["id"], tainted, state["ready"], state["status"])
	}
	if isLocked(t, l, "kvm1", id) {
		t.Error("the lock is still there")
	}

	// The next apply waits again, and Ctrl-C ends that as well.
	tf.Config(t, acctest.OneHost(l)+vm.with(hcl{"labels": `{ app = "web" }`}).String())
	update := tf.Start(t, "apply")
	waitWhileRunning(t, "the update", update, func() bool {
		out, _ := l.TryVirsh(t, "kvm1", "metadata", name, "urn:virtfleet:1")
		return strings.Contains(out, "web")
	})
	interrupt(t, update)
	if after, tainted := tf.State(t, address); after["id"] != id || tainted || after["ready"] != false {
		t.Errorf("after the second Ctrl-C: id %v, tainted %v, ready %v", after["id"], tainted, after["ready"])
	}

	// While its guest is shut down: it keeps running.
	tf.Config(t, acctest.OneHost(l)+vm.with(hcl{"wait_for": ""}).String())
	tf.Run(t, "apply")
	noChanges(t, tf)
	destroy := tf.Start(t, "destroy")
	waitWhileRunning(t, "the guest to be asked", destroy, func() bool { return isLocked(t, l, "kvm1", id) })
	expect(t, interrupt(t, destroy), "Error: Unable to delete virtual machine", "Virtual machine: "+name,
		"again to continue")
	if after, _ := tf.State(t, address); after["id"] != id {
		t.Errorf("after the third Ctrl-C: %v", after)
	}
	if err := process.same(t)(nil); err != nil {
		t.Error(err)
	}
	noChanges(t, tf)

	tf.Config(t, acctest.OneHost(l)+vm.with(hcl{"wait_for": "", "termination_grace_period": quote("0s")}).String())
	tf.Run(t, "apply")
	destroyAndCheck(t, l, tf, name)
}

// TestAccVirtualMachine_ctrlCAtTheStart: Ctrl-C comes when the VM has started, and before its host can say so. The
// state has it, and the next apply leaves it as it is.
func TestAccVirtualMachine_ctrlCAtTheStart(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	tf := acctest.NewCLI(t)
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	vm := idleVM(l, name).with(hcl{"host": quote("kvm1")}).String()
	far := viaProxy(l.DelayProxy(t, "kvm1", 500*time.Millisecond), "kvm1")
	far.Settings = strings.Replace(far.Settings, "{", `{ connect_timeout = "2m",`, 1)
	tf.Config(t, acctest.Block{Lab: l, Hosts: []acctest.Host{far}}.String()+vm)
	apply := tf.Start(t, "apply")
	waitWhileRunning(t, "the VM to run", apply, func() bool {
		live, _ := os.ReadFile(l.Host("kvm1").Path("/run/libvirt/qemu/" + name + ".xml"))
		return strings.Contains(string(live), "<domstatus state='running'")
	})
	expect(t, interrupt(t, apply), "Creation complete", "Warning: Unable to complete virtual machine",
		"Apply again to continue: finished work is recognized.")
	id := uuidOf(t, l, "kvm1", name)
	process := &started{l: l, host: "kvm1", name: name}
	begun := func() {
		t.Helper()
		state, tainted := tf.State(t, address)
		if state["id"] != id || tainted || state["status"] != "Running" {
			t.Errorf("VM %v, tainted %v, %v; begun was %s", state["id"], tainted, state["status"], id)
		}
		if err := process.same(t)(nil); err != nil {
			t.Error(err)
		}
	}
	begun()

	tf.Config(t, acctest.OneHost(l)+vm)
	tf.Run(t, "apply")
	begun()
	noChanges(t, tf)
	destroyAndCheck(t, l, tf, name)
}

// TestAccVirtualMachine_notReady: a VM that doesn't get ready is kept as it is, and every apply waits again, until
// it is.
func TestAccVirtualMachine_notReady(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	tf := acctest.NewCLI(t)
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	deaf := vmWithKernelWords(l, name, "noagent").with(hcl{
		"host": quote("kvm1"), "guest_agent": `{ enabled = true }`, "wait_for": `{ guest_agent = true, timeout = "2s" }`,
		"termination_grace_period": quote("0s"), "update_policy": quote("Restart"),
	})
	process := &started{l: l, host: "kvm1", name: name}
	var id any
	kept := func(ready bool) {
		t.Helper()
		state, tainted := tf.State(t, address)
		if id == nil {
			id = state["id"]
		}
		if state["id"] != id || tainted || state["ready"] != ready || state["status"] != "Running" {
			t.Errorf("VM %v, tainted %v, ready %v, %v; want %v, kept, ready %v, running",
				state["id"], tainted, state["ready"], state["status"], id, ready)
		}
	}

	// Create succeeds with a warning: an error would taint, and the next apply destroy, a VM that runs.
	tf.Config(t, acctest.OneHost(l)+deaf.String())
	expect(t, tf.Run(t, "apply"), "Warning: Unable to wait for virtual machine",
		"Waited 2s for it to be ready; last seen: its guest agent is not connected.", "Virtual machine: "+name, "Host: kvm1",
		"or raise wait_for.timeout. Then apply again to continue.", "1 added")
	kept(false)
	if err := process.same(t)(nil); err != nil {
		t.Fatal(err)
	}

	// Update fails, again and again, and destroys nothing.
	for range 2 {
		expect(t, tf.Run(t, "plan"), "updated in-place", "~ ready = false -> true", "0 to add, 1 to change, 0 to destroy")
		expect(t, tf.Fail(t, "apply"), "Error: Unable to wait for virtual machine", "its guest agent is not connected")
		kept(false)
	}
	if err := process.same(t)(nil); err != nil {
		t.Error(err)
	}

	// Its guest is mended.
	mended := guest(l, name)["kernel"]
	tf.Config(
		t,
		acctest.OneHost(l)+deaf.with(hcl{"kernel": mended, "wait_for": `{ guest_agent = true, timeout = "5m" }`}).String(),
	)
	tf.Run(t, "apply")
	kept(true)
	noChanges(t, tf)
	destroyAndCheck(t, l, tf, name)
}

// TestAccVirtualMachine_locked: two runs never change one VM at a time. The second waits, or says who is at it.
func TestAccVirtualMachine_locked(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	alice, bob := acctest.NewCLI(t), acctest.NewCLI(t)
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	vm := vmWithKernelWords(
		l,
		name,
		"noagent",
		"noacpi",
	).with(hcl{"host": quote("kvm2"), "termination_grace_period": quote("4m")})
	alice.Config(t, acctest.On(l, "kvm2")+vm.String())
	alice.Run(t, "apply")
	bob.Share(t, alice)
	state, _ := alice.State(t, address)
	id := fmt.Sprint(state["id"])

	// Alice restarts a guest that takes more time than she has.
	alice.Config(
		t,
		acctest.On(l, "kvm2")+vm.with(hcl{"cpu": "{ vcpus = 2 }", "update_policy": quote("Restart")}).String(),
	)
	restart := alice.Start(t, "apply")
	waitWhileRunning(t, "the lock", restart, func() bool { return isLocked(t, l, "kvm2", id) })

	// Bob has half a minute, which is not enough, and is told of her.
	labelled := vm.with(hcl{"cpu": "{ vcpus = 2 }", "labels": `{ app = "web" }`, "update_policy": quote("Restart")})
	bob.Config(t, acctest.On(l, "kvm2")+labelled.with(hcl{"timeouts": `{ update = "30s" }`}).String())
	expect(
		t,
		bob.Fail(t, "apply"),
		"Error: Unable to update virtual machine",
		"(pid",
		"is updating it since",
		"Host: kvm2",
		"Wait for that run to end.",
	)

	// With time enough he waits for her.
	bob.Config(t, acctest.On(l, "kvm2")+labelled.String())
	waiting := bob.Start(t, "apply")
	l.Virsh(t, "kvm2", "destroy", name)
	for _, run := range []*acctest.Running{restart, waiting} {
		if out, err := run.Wait(); err != nil {
			t.Errorf("the run that was to go through: %v\n%s", err, out)
		}
	}
	if err := look(t, l, "kvm2", name, ">2</vcpu>", "<virtfleet:label ")(nil); err != nil {
		t.Error(err)
	}
	noChanges(t, bob)

	alice.Config(t, acctest.On(l, "kvm2")+labelled.with(hcl{"termination_grace_period": quote("0s")}).String())
	alice.Run(t, "apply")
	destroyAndCheck(t, l, alice, name)
}

// TestAccVirtualMachine_createdTwiceAtOnce: two runs that make the same VM at the same time make it once. The one
// that comes too late doesn't take it for an interrupted one of its own.
func TestAccVirtualMachine_createdTwiceAtOnce(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	alice, bob := acctest.NewCLI(t), acctest.NewCLI(t)
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	config := acctest.On(l, "kvm2") + idleVM(l, name).with(hcl{
		"host": quote("kvm2"), "guest_agent": `{ enabled = true }`, "wait_for": `{ guest_agent = true, timeout = "8s" }`,
	}).String()
	alice.Config(t, config)
	bob.Config(t, config)
	first := alice.Start(t, "apply")
	waitWhileRunning(t, "the VM to run", first, func() bool { return exists(l, "kvm2", "/run/libvirt/qemu/"+name+".pid") })
	id := uuidOf(t, l, "kvm2", name)
	expect(
		t,
		bob.Fail(t, "apply"),
		"A VM named",
		name,
		`exists already on host "kvm2", with UUID `+id,
		"terraform import",
	)
	if out, err := first.Wait(); err != nil {
		t.Errorf("the first run: %v\n%s", err, out)
	}
	if state, _ := alice.State(t, address); state["id"] != id {
		t.Errorf("the first run made %v, the host has %s", state["id"], id)
	}
	if state, _ := bob.State(t, address); state != nil {
		t.Errorf("the second run took %v for its own", state["id"])
	}
	destroyAndCheck(t, l, alice, name)
}
