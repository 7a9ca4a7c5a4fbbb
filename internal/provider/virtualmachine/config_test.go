package virtualmachine_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/virtualmachine"
)

func TestMain(m *testing.M) { acctest.Main(m) }

// address is the VM that most tests are about.
const address = virtualmachine.TypeName + ".this"

// know expects a value of that VM in the state.
var know = acctest.Know(address)

// hcl is the body of a resource: attribute names with their values as HCL.
type hcl map[string]string

// with replaces and adds attributes; "" removes one.
func (h hcl) with(changes hcl) hcl {
	out := maps.Clone(h)
	for name, v := range changes {
		out[name] = v
		if v == "" {
			delete(out, name)
		}
	}
	return out
}

// String is the resource "this".
func (h hcl) String() string { return h.named("this") }

func (h hcl) named(name string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "resource %q %q {\n", virtualmachine.TypeName, name)
	for _, attribute := range slices.Sorted(maps.Keys(h)) {
		if attribute == "lifecycle" { // A block of Terraform's own.
			fmt.Fprintf(&b, "  %s %s\n", attribute, h[attribute])
			continue
		}
		fmt.Fprintf(&b, "  %s = %s\n", attribute, h[attribute])
	}
	b.WriteString("}\n")
	return b.String()
}

// withHosts is the resource with a change, after the provider block that it needs: for a new host the hosts between
// which VMs move, otherwise the host that the VM is pinned to alone.
func (h hcl) withHosts(l *lab.Lab, change hcl) string {
	block := acctest.Config(l)
	if _, moves := change["host"]; !moves {
		block = acctest.On(l, strings.Trim(h["host"], `"`))
	}
	return block + h.with(change).String()
}

func quote(s string) string { return fmt.Sprintf("%q", s) }

// guest is a VM on the lab that boots a real guest in seconds.
func guest(l *lab.Lab, name string) hcl {
	return hcl{
		"name":   quote(name),
		"type":   quote("qemu"),
		"memory": `{ size = "128Mi" }`,
		"kernel": fmt.Sprintf("{ path = %q, initrd = %q, cmdline = %q }", l.KernelPath(), l.InitrdPath(),
			lab.GuestCmdline),
		"termination_grace_period": quote("60s"),
	}
}

// planned expects one attribute of the VM in the plan.
func planned(attribute string, want knownvalue.Check) plancheck.PlanCheck {
	return plancheck.ExpectKnownValue(address, acctest.At(attribute), want)
}

func exactly(s string) knownvalue.Check { return knownvalue.StringExact(s) }

// changes expects that the plan does that to the VM, and that nothing is left to do after it.
func changes(action plancheck.ResourceActionType, more ...plancheck.PlanCheck) resource.ConfigPlanChecks {
	return resource.ConfigPlanChecks{
		PreApply:             append(more, plancheck.ExpectResourceAction(address, action)),
		PostApplyPostRefresh: []plancheck.PlanCheck{plancheck.ExpectEmptyPlan()},
	}
}

// story runs the steps against the lab's first two hosts, and looks that nothing is left of the VMs.
func story(t *testing.T, l *lab.Lab, names []string, steps ...resource.TestStep) {
	t.Helper()
	for _, name := range names {
		l.RemoveDomain(t, name)
	}
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: acctest.Factories(t),
		CheckDestroy:             acctest.CheckDestroyed(l, names...),
		Steps:                    steps,
	})
}

// contains expects parts of a text that a host gave.
func contains(text string, parts ...string) error {
	for _, part := range parts {
		if !strings.Contains(text, part) {
			return fmt.Errorf("%q isn't in:\n%s", part, text)
		}
	}
	return nil
}

// look is a check of the definitions that the host has: the persistent one and the one that runs.
func look(t *testing.T, l *lab.Lab, host, name string, parts ...string) resource.TestCheckFunc {
	t.Helper()
	return func(*terraform.State) error {
		if err := contains(l.Virsh(t, host, "dumpxml", "--inactive", name), parts...); err != nil {
			return err
		}
		return contains(l.Virsh(t, host, "dumpxml", name), parts...)
	}
}

// linesOf is the line of a text that has a word, and the next one.
func linesOf(text, word string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.Contains(line, word) {
			return strings.Join(lines[i:min(i+2, len(lines))], "\n")
		}
	}
	return ""
}
