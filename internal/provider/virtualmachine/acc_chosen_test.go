package virtualmachine_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccVirtualMachine_defaultDomainType: a new VM that declares no type gets the provider's, and keeps it.
func TestAccVirtualMachine_defaultDomainType(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name, accelerated := lab.Name(t), lab.Name(t)+"-kvm"
	provider := func(provided string) string {
		return acctest.Block{Lab: l, Settings: fmt.Sprintf("default_domain_type = %q", provided)}.String()
	}
	vm := func(name string) hcl {
		return idleVM(l, name).with(hcl{"type": "", "run_strategy": quote("Halted"), "host": quote("kvm1")})
	}
	is := func(name, want string) resource.TestCheckFunc {
		return func(*terraform.State) error {
			return contains(l.Virsh(t, "kvm1", "dumpxml", name), "<domain type='"+want+"'")
		}
	}
	// What there is keeps its type, and what is new gets the other.
	second := resource.TestStep{
		Config:           provider("kvm") + vm(name).String() + vm(accelerated).named("second"),
		ConfigPlanChecks: changes(plancheck.ResourceActionNoop), Check: is(accelerated, "kvm"),
		ConfigStateChecks: []statecheck.StateCheck{know("type", exactly("qemu"))},
	}
	if !hasKVM(t, l, "kvm1") {
		second = resource.TestStep{Config: second.Config, ExpectError: regexp.MustCompile(`can't run domains of type "kvm"`)}
	}
	story(t, l, []string{name, accelerated}, resource.TestStep{
		Config:            provider("qemu") + vm(name).String(),
		ConfigPlanChecks:  changes(plancheck.ResourceActionCreate),
		ConfigStateChecks: []statecheck.StateCheck{know("type", exactly("qemu"))}, Check: is(name, "qemu"),
	}, second)
}

// TestAccVirtualMachine_savedPlan: where a VM goes is decided when it is made. A plan that was saved before the
// host that it would have gone to filled up still holds.
func TestAccVirtualMachine_savedPlan(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	one, two := l.StartHost(t), l.StartHost(t)
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	const limit = "memory_limit = \"100Mi\"\n overcommit_guest_overhead = true" // of which one VM takes 64
	tf := acctest.NewCLI(t)
	tf.Config(t, acctest.Block{
		Lab: l, Hosts: []acctest.Host{{Of: one, Settings: limit}, {Of: two, Settings: limit}},
	}.String()+idleVM(l, name).with(hcl{"run_strategy": quote("Halted")}).String())
	change := tf.Plan(t)[address]
	if host, known := change.After["current_host"]; change.Actions != "create" || known {
		t.Fatalf("the plan is to %s it on %v", change.Actions, host)
	}

	// Both are empty, and the first would be taken. Now another tool does.
	l.Define(t, one.Name, fmt.Sprintf(bare, name+"-other"))
	l.Virsh(t, one.Name, "start", name+"-other")
	tf.Run(t, "apply", "planned")
	if state, _ := tf.State(t, address); state["current_host"] != two.Name {
		t.Errorf("it is on %v, want %s", state["current_host"], two.Name)
	}
	noChanges(t, tf)
	destroyAndCheck(t, l, tf, name)
}

// hasKVM says whether a host can run VMs with KVM.
func hasKVM(t *testing.T, l *lab.Lab, host string) bool {
	t.Helper()
	return strings.Contains(l.Virsh(t, host, "capabilities"), "<domain type='kvm'")
}
