package virtualmachine_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccVirtualMachine_moveBreaks: whatever breaks while memory is copied fails the apply, which says where the
// VM is. The guest continues there with what it wrote to its disk, the other host has nothing of it, the state is
// true, and the next plan is the move again.
func TestAccVirtualMachine_moveBreaks(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	b := &torn{t: t, l: l, tf: acctest.NewCLI(t), from: l.StartHost(t), to: l.StartHost(t), name: lab.Name(t)}
	b.boots = &boots{l: l, name: b.name, disk: true}
	l.RemoveDomain(t, b.name)
	vm := vmWithKernelWords(l, b.name, "dirty=16").with(talking).with(diskOnBothHosts(t, l, b.name)).with(hcl{
		"termination_grace_period": quote("0s"),
	})
	config := func(host *lab.Host, options string) {
		b.tf.Config(t, providerBlock(l, options, b.from, b.to)+vm.with(hcl{"host": quote(host.Name)}).String())
	}
	kill := func(h *lab.Host) { l.Run(t, h.Name, "sh", "-c", "kill -KILL $(cat /run/libvirt/qemu/"+b.name+".pid)") }
	// left expects that the move is what is left to do, and plans it.
	left := func(more ...string) {
		t.Helper()
		move := fmt.Sprintf("current_host = %q -> %q", b.from.Name, b.to.Name)
		expect(t, b.tf.Run(t, "plan", "-out=planned"), append(append([]string{move}, more...),
			"Plan: 0 to add, 1 to change, 0 to destroy.")...)
	}
	// breaks carries out what is planned, and does harm to it.
	breaks := func(what string, harm func(), state string) {
		t.Helper()
		apply := b.tf.Start(t, "apply", "planned")
		apply.AwaitCopying(t, l, b.from.Name, b.name)
		harm()
		out, err := apply.Wait()
		where := fmt.Sprintf("is on host %q (%s)", b.from.Name, state)
		if err == nil || !inOrder("Unable to move virtual machine", where).MatchString(out) {
			t.Errorf("%s: %v\n%s", what, err, out)
		}
		// A libvirtd answers before it has seen to all of its guests.
		lab.Await(t, "the target to have nothing of it", func() bool { return b.state(b.to) == "" })
		if state, tainted := b.tf.State(t, address); tainted || state["current_host"] != b.from.Name {
			t.Errorf("%s: tainted %v, state %v", what, tainted, state)
		}
	}
	config(b.from, "")
	b.tf.Run(t, "apply")
	b.sameBoot(b.from)

	// What breaks at the beginning is tried through the relay, unless that is not wanted. Only what breaks the way that
	// Terraform's provider has to the hosts is tried here, and what takes its state along: what harms memory, link and
	// daemons is proved where memory is moved.
	config(b.to, `migration_options = { bandwidth = "2Mi", transport = "direct" }`)
	left()
	for _, fault := range []struct {
		what string
		harm func()
	}{
		{"the source's SSH server is gone", func() { l.StopSSH(t, b.from)() }},
		{"the target's SSH server is gone", func() { l.StopSSH(t, b.to)() }},
		{"the target loses its power", func() { l.PowerOff(t, b.to)() }},
	} {
		breaks(fault.what, fault.harm, "Running")
		if state := b.state(b.from); !strings.HasPrefix(state, "running") {
			t.Errorf("%s: at the source it is %s", fault.what, state)
		}
		b.sameBoot(b.from)
		left()
	}

	// Without its own process the VM is off. What is left to do is to start it, too.
	breaks("the source's process is killed", func() { kill(b.from) }, "Shutoff")
	config(b.to, "")
	left("status")
	b.tf.Run(t, "apply", "planned")
	if from, to := b.state(b.from), b.state(b.to); from != "" || !strings.HasPrefix(to, "running") {
		t.Errorf("at the source it is %q, on the target %q", from, to)
	}
	if read := outputInGuest(t, l, b.to.Name, b.name, checksum); read != b.boots.written {
		t.Errorf("the guest wrote %s and reads %s", b.boots.written, read)
	}
	noChanges(t, b.tf)
	destroyAndCheck(t, l, b.tf, b.name)
}
