package virtualmachine_test

import (
	"regexp"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/compare"
	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccVirtualMachine_waitForTimesOut: a VM that doesn't get ready in time is kept, the next apply waits again and
// may fail, and nothing is ever destroyed for it.
func TestAccVirtualMachine_waitForTimesOut(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	silent := idleVM(l, name).with(hcl{
		"guest_agent": `{ enabled = false }`, "interfaces": `{ lan = { user = true } }`,
		"wait_for": `{ ip_address = "lan", timeout = "2s" }`,
	})
	same := statecheck.CompareValue(compare.ValuesSame())
	id := func() statecheck.StateCheck { return same.AddStateValue(address, acctest.At("id")) }
	story(t, l, []string{name}, resource.TestStep{
		Config: acctest.OneHost(l) + silent.String(),
		ConfigStateChecks: []statecheck.StateCheck{
			know("ready", knownvalue.Bool(false)), know("status", exactly("Running")), id(),
		},
		// It shows up as something to do.
		ExpectNonEmptyPlan: true,
	}, resource.TestStep{
		Config:      acctest.OneHost(l) + silent.String(),
		ExpectError: regexp.MustCompile(`(?s)Unable to wait for virtual machine.*interface "lan" has no address`),
	}, resource.TestStep{
		// The failure tainted nothing: it is updated, not replaced.
		Config: acctest.OneHost(l) + silent.with(hcl{"wait_for": ""}).String(),
		ConfigPlanChecks: changes(plancheck.ResourceActionUpdate,
			planned("ready", knownvalue.Bool(true)), planned("status", exactly("Running"))),
		ConfigStateChecks: []statecheck.StateCheck{know("ready", knownvalue.Bool(true)), id()},
	})
}

// TestAccVirtualMachine_replace: what can't be changed makes another VM, of the same name or of another, in the
// room that the first one leaves; unless the VM is protected, which destroying respects too.
func TestAccVirtualMachine_replace(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	provider := acctest.Block{Lab: l, Hosts: []acctest.Host{
		{Of: l.StartHost(t), Settings: "memory_limit = \"192Mi\"\n overcommit_guest_overhead = true"},
	}}.String()
	named := func(name, vm, protected string) string {
		return provider + idleVM(l, name).with(hcl{
			"machine_type": quote(vm), "deletion_protection": protected, "memory": `{ size = "128Mi" }`,
		}).String()
	}
	config := func(vm, protected string) string { return named(name, vm, protected) }
	differs := statecheck.CompareValue(compare.ValuesDiffer())
	id := func() []statecheck.StateCheck {
		return []statecheck.StateCheck{differs.AddStateValue(address, acctest.At("id"))}
	}
	protected := regexp.MustCompile(`(?s)Virtual machine is protected.*deletion_protection = false first`)
	story(t, l, []string{name, name + "-2"}, resource.TestStep{
		Config: config("q35", "true"), ConfigPlanChecks: changes(plancheck.ResourceActionCreate), ConfigStateChecks: id(),
	}, resource.TestStep{
		Config: config("pc", "true"), ExpectError: protected,
	}, resource.TestStep{
		Config: config("q35", "true"), Destroy: true, ExpectError: protected,
	}, resource.TestStep{
		Config: config("q35", "false"), ConfigPlanChecks: changes(plancheck.ResourceActionUpdate),
	}, resource.TestStep{
		Config:           config("pc", "false"),
		ConfigPlanChecks: changes(plancheck.ResourceActionReplace), ConfigStateChecks: id(),
	}, resource.TestStep{
		Config:           named(name+"-2", "q35", "false"),
		ConfigPlanChecks: changes(plancheck.ResourceActionReplace), ConfigStateChecks: id(),
	})
}

// TestAccVirtualMachine_rename: a VM gets another name without becoming another VM, while it is off.
func TestAccVirtualMachine_rename(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	before, after := lab.Name(t), lab.Name(t)+"-2"
	config := func(name string, more hcl) string {
		return acctest.OneHost(l) + idleVM(l, name).with(more).String()
	}
	same := statecheck.CompareValue(compare.ValuesSame())
	id := func() []statecheck.StateCheck {
		return []statecheck.StateCheck{same.AddStateValue(address, acctest.At("id"))}
	}
	story(t, l, []string{before, after}, resource.TestStep{
		Config: config(before, nil), ConfigPlanChecks: changes(plancheck.ResourceActionCreate), ConfigStateChecks: id(),
	}, resource.TestStep{
		Config:      config(after, nil),
		ExpectError: regexp.MustCompile(`(?s)Change needs a restart.*name: libvirt renames a VM only while it is off`),
	}, resource.TestStep{
		Config:           config(after, hcl{"update_policy": quote("Restart")}),
		ConfigPlanChecks: changes(plancheck.ResourceActionUpdate), ConfigStateChecks: id(),
	}, resource.TestStep{
		Config:           config(before, hcl{"run_strategy": quote("Halted")}),
		ConfigPlanChecks: changes(plancheck.ResourceActionUpdate), ConfigStateChecks: id(),
	})
}

// TestAccVirtualMachine_knownLater: what other resources make is used when it is there, and leaves everything else
// known when it changes.
func TestAccVirtualMachine_knownLater(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	image := l.Image(t, "kvm1", name+".qcow2", "qcow2", 1<<20)
	config := func(revision string) string {
		return acctest.OneHost(l) + `
resource "terraform_data" "volume" {
  input            = "` + image + `"
  triggers_replace = "` + revision + `"
}
` + idleVM(l, name).with(hcl{
			"host": quote("kvm1"), "disks": `{ root = { volume = terraform_data.volume.output } }`,
			"labels": `{ volume = terraform_data.volume.id }`,
		}).String()
	}
	story(t, l, []string{name}, resource.TestStep{
		Config: config("1"), ConfigPlanChecks: changes(plancheck.ResourceActionCreate),
		ConfigStateChecks: []statecheck.StateCheck{know("disks.root.volume", exactly(image))},
	}, resource.TestStep{
		Config: config("2"),
		ConfigPlanChecks: changes(plancheck.ResourceActionUpdate,
			plancheck.ExpectUnknownValue(address, acctest.At("disks.root.volume")),
			planned("disks.root.bus", exactly("virtio")), planned("status", exactly("Running")),
			planned("ready", knownvalue.Bool(true))),
		ConfigStateChecks: []statecheck.StateCheck{know("disks.root.volume", exactly(image))},
	})
}
