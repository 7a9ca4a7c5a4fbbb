package virtualmachine_test

import (
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccVirtualMachine_tainted: a VM that is tainted, or that a user wants replaced, gives its name, its room
// and its disks to the one that takes its place, unless it is protected. To Terraform's plan that one is as new as any.
func TestAccVirtualMachine_tainted(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	tf := acctest.NewCLI(t)
	const host = "kvm1"
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	disk := l.Image(t, host, name+".raw", "raw", 1<<20)
	vm := idleVM(l, name).with(hcl{
		"host": quote(host), "disks": `{ root = { file = ` + quote(disk) + `, format = "raw" } }`,
	})
	tf.Config(t, acctest.OneHost(l)+vm.String())
	tf.Run(t, "apply")
	l.Run(t, host, "sh", "-c", "printf kept | dd of="+disk+" conv=notrunc status=none")
	seen := map[any]bool{}
	another := func() {
		t.Helper()
		state, tainted := tf.State(t, address)
		if seen[state["id"]] || tainted || state["name"] != name {
			t.Errorf("%v, tainted %t, after %v", state, tainted, seen)
		}
		for _, id := range strings.Fields(l.Virsh(t, host, "list", "--all", "--uuid")) {
			if seen[id] {
				t.Errorf("the VM that was replaced, %s, is still there", id)
			}
		}
		seen[state["id"]] = true
		if text := l.Run(t, host, "head", "-c", "4", disk); text != "kept" {
			t.Errorf("the disk begins with %q", text)
		}
		noChanges(t, tf)
	}
	another()

	warning := "Warning: Name belongs to a managed virtual machine"
	tf.Run(t, "taint", address)
	for _, args := range [][]string{{"plan"}, {"plan", "-refresh=false"}} {
		expect(t, tf.Run(t, args...), "is tainted, so must be replaced", "1 to add, 0 to change, 1 to destroy", warning,
			name, "If it is tainted, it is destroyed before the new one is created")
	}
	tf.Run(t, "apply")
	another()

	for _, args := range [][]string{{"-replace=" + address}, {"-replace=" + address, "-refresh=false"}} {
		out := tf.Run(t, append([]string{"apply"}, args...)...)
		expect(t, out, "will be replaced, as requested", "1 added, 0 changed, 1 destroyed")
		if strings.Contains(out, warning) {
			t.Errorf("nothing is in doubt here:\n%s", out)
		}
		another()
	}

	// A plan that was saved does the same.
	tf.Run(t, "taint", address)
	tf.Run(t, "plan", "-out=planned")
	tf.Run(t, "apply", "planned")
	another()
	destroyAndCheck(t, l, tf, name)
}

// newStoppedVM makes a VM on that host that is off. sameMachine fails the test unless it is there still.
func newStoppedVM(t *testing.T, host string) (l *lab.Lab, tf *acctest.CLI, name string, vm hcl, sameMachine func()) {
	t.Helper()
	l, tf, name = lab.Open(t), acctest.NewCLI(t), lab.Name(t)
	l.RemoveDomain(t, name)
	vm = idleVM(l, name).with(hcl{"host": quote(host), "run_strategy": quote("Halted")})
	tf.Config(t, acctest.On(l, host)+vm.String())
	tf.Run(t, "apply")
	before, _ := tf.State(t, address)
	return l, tf, name, vm, func() {
		t.Helper()
		if id := strings.TrimSpace(l.Virsh(t, host, "domuuid", name)); id != before["id"] {
			t.Errorf("%s has become %s", before["id"], id)
		}
	}
}

// TestAccVirtualMachine_taintedAndRefused: what can't be replaced says so, and is as it was.
func TestAccVirtualMachine_taintedAndRefused(t *testing.T) {
	t.Parallel()
	l, tf, name, halted, sameMachine := newStoppedVM(t, "kvm2")
	yesterday := acctest.NewCLI(t)
	yesterday.Share(t, tf)
	tf.Config(t, acctest.On(l, "kvm2")+halted.with(hcl{"deletion_protection": "true"}).String())
	tf.Run(t, "apply")

	// A state that is older doesn't say so, the host does.
	expect(t, yesterday.Fail(t, "destroy", "-refresh=false"), "metadata on the host has deletion_protection",
		"Host: kvm2", "first set deletion_protection = false")
	sameMachine()
	refused := "Error: Virtual machine is protected"
	expect(t, tf.Fail(t, "plan", "-replace="+address), refused, "leave -replace out")
	tf.Run(t, "taint", address)
	expect(t, tf.Fail(t, "plan"), refused, "terraform untaint")
	expect(t, tf.Fail(t, "apply"), refused)
	tf.Run(t, "untaint", address)
	noChanges(t, tf)
	tf.Config(t, acctest.On(l, "kvm2")+halted.String())
	tf.Run(t, "apply")

	// Another resource's VM, and a stranger, keep the name.
	other := acctest.NewCLI(t)
	other.Config(t, acctest.On(l, "kvm2")+halted.String())
	expect(t, other.Fail(t, "plan"), "Error: Name already taken", "import")
	twin := hcl{"name": quote(name), "run_strategy": quote("Halted"), "memory": `{ size = "64Mi" }`}
	tf.Config(t, acctest.Config(l)+halted.String()+twin.named("twin"))
	expect(t, tf.Fail(t, "apply"), "Error: Duplicate virtual machine name")
	sameMachine()
	tf.Config(t, acctest.On(l, "kvm2")+halted.String())
	noChanges(t, tf)
	destroyAndCheck(t, l, tf, name)
}

// TestAccVirtualMachine_taintedAndKeptTooLong: the new one can't be there before the old one is gone. Terraform takes
// that one for half replaced then, and the way back is told.
func TestAccVirtualMachine_taintedAndKeptTooLong(t *testing.T) {
	t.Parallel()
	l, tf, name, halted, sameMachine := newStoppedVM(t, "kvm1")
	tf.Config(t, acctest.OneHost(l)+
		strings.TrimSuffix(halted.String(), "}\n")+"  lifecycle {\n    create_before_destroy = true\n  }\n}\n")
	tf.Run(t, "apply")
	before, _ := tf.State(t, address)
	tf.Run(t, "taint", address)
	expect(t, tf.Fail(t, "apply"), "exists already on host", "leave create_before_destroy out of its lifecycle")
	sameMachine()

	tf.Config(t, acctest.OneHost(l)+halted.String())
	expect(t, tf.Fail(t, "plan"), "Error: Object is destroyed under its former address", "moved {", "deposed object",
		"terraform import")
	tf.Run(t, "state", "rm", address)
	tf.Run(t, "import", address, name)
	tf.Run(t, "apply")
	if after, _ := tf.State(t, address); after["id"] != before["id"] {
		t.Errorf("%s has become %s", before["id"], after["id"])
	}
	noChanges(t, tf)
	destroyAndCheck(t, l, tf, name)
}
