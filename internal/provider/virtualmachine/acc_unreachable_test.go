package virtualmachine_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/compare"
	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/virtualmachine"
)

// viaProxy is a provider's host that is reached through a proxy.
func viaProxy(p *lab.Proxy, name string) acctest.Host {
	return acctest.Host{
		Name:     name,
		URI:      p.URI(),
		Settings: fmt.Sprintf("ssh = { known_hosts_file = %q }", p.KnownHostsFile),
	}
}

// expect fails the test unless all texts are in what Terraform printed, in this order.
func expect(t *testing.T, out string, texts ...string) {
	t.Helper()
	rest := out
	for _, text := range texts {
		i := strings.Index(rest, strings.Join(strings.Fields(text), " "))
		if i < 0 {
			t.Fatalf("Terraform doesn't say %q (in this order: %q) in:\n%s", text, texts, out)
		}
		rest = rest[i:]
	}
}

// noChanges fails the test unless a plan does nothing.
func noChanges(t *testing.T, tf *acctest.CLI) {
	t.Helper()
	if out, empty := tf.Empty(t); !empty {
		t.Fatalf("the plan should be empty:\n%s", out)
	}
}

// destroyAndCheck destroys everything and fails the test if a host still has one of the VMs.
func destroyAndCheck(t *testing.T, l *lab.Lab, tf *acctest.CLI, names ...string) {
	t.Helper()
	tf.Run(t, "destroy")
	if err := acctest.CheckDestroyed(l, names...)(nil); err != nil {
		t.Error(err)
	}
}

// TestAccVirtualMachine_hostStopsAnswering: a host that doesn't answer is never an empty host. What it has stays in the
// state, and nothing else suffers if the user wants it so.
func TestAccVirtualMachine_hostStopsAnswering(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	tf := acctest.NewCLI(t)
	name, other, third := lab.Name(t), lab.Name(t)+"-other", lab.Name(t)+"-third"
	for _, n := range []string{name, other, third} {
		l.RemoveDomain(t, n)
	}
	proxy := l.DelayProxy(t, "kvm2", 0)
	config := func(settings string, machines ...string) string {
		hosts := []acctest.Host{{Of: l.Host("kvm1")}, viaProxy(proxy, "kvm2")}
		return acctest.Block{Lab: l, Hosts: hosts, Settings: settings}.
			String() + strings.Join(machines, "\n")
	}
	halted := hcl{"run_strategy": quote("Halted")}
	there := idleVM(l, name).with(hcl{"host": quote("kvm2")})
	here := idleVM(l, other).with(halted).with(hcl{"host": quote("kvm1")})
	labelled := hcl{"labels": `{ app = "web" }`}
	same := there.String() + here.named("other")

	tf.Config(t, config("", same))
	tf.Run(t, "apply")
	before, _ := tf.State(t, address)

	// The host is gone: a plan that can't know says so, and the state stays.
	proxy.Cut()
	expect(t, tf.Fail(t, "plan"), "Error: Unable to read virtual machine",
		`Host "kvm2" does not answer; it had the VM last.`, "Virtual machine: "+name, "Host: kvm2",
		"hosts.kvm2.fenced = true")
	tf.Fail(t, "destroy")
	if after, _ := tf.State(t, address); after["id"] != before["id"] {
		t.Errorf("the state lost the machine: %v", after)
	}

	// A host under maintenance: a warning, and the rest continues.
	tf.Config(t, config(`on_unreachable = "keep"`, same))
	expect(t, tf.Run(t, "plan"), "No changes", "Warning: Unable to refresh virtual machine",
		`Host "kvm2" does not answer`, "Its last known state is kept", `on_unreachable is "keep"`)
	tf.Config(t, config(`on_unreachable = "keep"`, there.String(), here.with(labelled).named("other"),
		idleVM(l, third).with(halted).named("third")))
	unchecked := fmt.Sprintf("\"kvm2\" didn't answer. Whether a VM named %q exists there is unknown", third)
	out := tf.Run(t, "apply")
	expect(t, out, "Warning: Unable to refresh virtual machine", "1 added, 1 changed, 0 destroyed")
	expect(t, out, "Warning: Name not checked on every host", unchecked, `- host "kvm2": `)
	if got, _ := tf.State(t, virtualmachine.TypeName+".third"); got["current_host"] != "kvm1" {
		t.Errorf("the new VM is on %v", got["current_host"])
	}

	// Only what would change that very VM fails, before anything else is done.
	tf.Config(t, config(`on_unreachable = "keep"`, there.with(labelled).String(), here.named("other")))
	expect(t, tf.Fail(t, "plan"), "Error: Unable to plan virtual machine", `Host "kvm2" does not answer`, "Host: kvm2")
	tf.Config(t, config(`on_unreachable = "keep"`, here.named("other")))
	expect(t, tf.Fail(t, "plan"), "Error: Unable to delete virtual machine", `Host "kvm2" does not answer`, "Host: kvm2")

	// A definition of a VM that is destroyed now may be left there.
	gone, _ := tf.State(t, virtualmachine.TypeName+".third")
	tf.Config(t, config(`on_unreachable = "keep"`, there.String(), here.with(labelled).named("other")))
	expect(t, tf.Run(t, "apply"), "Warning: Definition of the virtual machine may be left",
		"These hosts didn't answer: kvm2.", fmt.Sprintf("virsh undefine --nvram --managed-save %v", gone["id"]))

	// It is back: nothing happened.
	proxy.Restore()
	if err := onHosts(t, l, name, "", "running")(nil); err != nil {
		t.Error(err)
	}
	tf.Config(t, config("", there.String(), here.with(labelled).named("other")))
	noChanges(t, tf)
	destroyAndCheck(t, l, tf, name, other, third)
}

// TestAccVirtualMachine_silentHostMayRunIt: a stopped VM isn't started as long as a host is silent that may run it.
func TestAccVirtualMachine_silentHostMayRunIt(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	tf := acctest.NewCLI(t)
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	proxy := l.DelayProxy(t, "kvm2", 0)
	config := func(more hcl) string {
		return acctest.Block{Lab: l, Hosts: []acctest.Host{{Of: l.Host("kvm1")}, viaProxy(proxy, "kvm2")}}.String() +
			idleVM(l, name).with(hcl{"host": quote("kvm1")}).with(more).String()
	}
	tf.Config(t, config(nil))
	tf.Run(t, "apply")

	proxy.Cut()
	noChanges(t, tf) // It runs here, so whatever the other host has doesn't matter.
	l.Virsh(t, "kvm1", "destroy", name)
	expect(t, tf.Fail(t, "plan"), "Error: Unable to plan virtual machine",
		`It is not started, since it may be running on "kvm2", which can't be asked.`, `It is off on host "kvm1".`,
		"Host: kvm2", "fenced = true")

	// One that runs is restarted all the same, if that is what its user wants: it can't be running elsewhere.
	proxy.Restore()
	tf.Run(t, "apply")
	proxy.Cut()
	tf.Config(t, config(hcl{"cpu": "{ vcpus = 2 }", "update_policy": quote("Restart")}))
	tf.Run(t, "apply")
	if err := onHosts(t, l, name, "running", "")(nil); err != nil {
		t.Error(err)
	}

	proxy.Restore()
	noChanges(t, tf)
	destroyAndCheck(t, l, tf, name)
}

// TestAccVirtualMachine_hostsEdited: the provider's hosts are edited while a VM is on one of them. It can't be told
// what a host has that isn't configured any more, until the user gives it up.
func TestAccVirtualMachine_hostsEdited(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	kvm1, kvm2, kvm3 := l.Host("kvm1"), l.Host("kvm2"), l.Host("kvm3")
	hosts := func(all ...acctest.Host) string {
		return acctest.Block{Lab: l, Hosts: all}.String() + idleVM(l, name).String()
	}
	reserve := acctest.Host{Of: kvm2, Settings: "schedulable = false"}
	id, newID := statecheck.CompareValue(compare.ValuesSame()), statecheck.CompareValue(compare.ValuesDiffer())
	state := func(host string, same ...statecheck.StateCheck) []statecheck.StateCheck {
		return append(same, know("current_host", exactly(host)), know("status", exactly("Running")))
	}
	story(t, l, []string{name}, resource.TestStep{
		Config:           hosts(acctest.Host{Of: kvm1}, reserve),
		ConfigPlanChecks: changes(plancheck.ResourceActionCreate),
		ConfigStateChecks: state("kvm1", id.AddStateValue(address, acctest.At("id")),
			newID.AddStateValue(address, acctest.At("id"))),
	}, resource.TestStep{
		// Removed.
		Config: hosts(reserve),
		ExpectError: inOrder("Unable to read virtual machine", `The VM was last on host "kvm1", which is not among `+
			"the configured hosts any more.", `Add "kvm1" to hosts again. If the host is off, add it with fenced = true: its `+
			"VMs are then created on other hosts."),
	}, resource.TestStep{
		// Leads to another VM.
		Config: hosts(acctest.Host{Name: "kvm1", Of: kvm3}, reserve),
		ExpectError: inOrder(
			`The VM was last on host "kvm1" with UUID`,
			kvm1.HostUUID,
			"that name now leads to",
			kvm3.HostUUID,
			"Set hosts.kvm1 to the old host again",
			"keep hosts.kvm1 with fenced = true",
		),
	}, resource.TestStep{
		// Renamed, and not answering under its new name.
		Config:      hosts(acctest.Host{Name: "new", URI: "qemu+ssh://root@127.0.0.1:1/system"}, reserve),
		ExpectError: inOrder(`The VM was last on host "kvm1", which is not among the configured hosts any more.`),
	}, resource.TestStep{
		// Twice.
		Config:      hosts(acctest.Host{Of: kvm1}, acctest.Host{Name: "again", Of: kvm1}, reserve),
		ExpectError: inOrder(`Hosts "again" and "kvm1" are the same host`, kvm1.HostUUID, "Remove one of the two entries"),
	}, resource.TestStep{
		// Renamed, and found there: it is known by its UUID, and so is the VM.
		Config:            hosts(acctest.Host{Name: "new", Of: kvm1}, reserve),
		ConfigPlanChecks:  changes(plancheck.ResourceActionNoop),
		ConfigStateChecks: state("new", id.AddStateValue(address, acctest.At("id"))),
	}, resource.TestStep{
		// Back.
		Config:            hosts(acctest.Host{Of: kvm1}, reserve),
		ConfigPlanChecks:  changes(plancheck.ResourceActionNoop),
		ConfigStateChecks: state("kvm1", id.AddStateValue(address, acctest.At("id"))),
		Check:             onHosts(t, l, name, "running", ""),
	}, resource.TestStep{
		// Given up by mistake: the host isn't off, and the VM isn't started a second time.
		Config: hosts(acctest.Host{Of: kvm1, Settings: "fenced = true"}, acctest.Host{Of: kvm2}),
		ExpectError: inOrder("Virtual machine runs on a fenced host: "+name,
			`hosts.kvm1 has fenced = true, but host "kvm1" answers and runs`, "remove fenced"),
	}, resource.TestStep{
		// Off when it was planned, and up again when the plan is applied.
		PreConfig: func() {
			if err := onHosts(t, l, name, "running", "")(nil); err != nil {
				t.Error(err)
			}
			l.Virsh(t, "kvm1", "destroy", name)
		},
		Config: hosts(acctest.Host{Of: kvm1, Settings: "fenced = true"}, acctest.Host{Of: kvm2}),
		ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{acctest.BetweenPlanAndApply(func() {
			l.Virsh(t, "kvm1", "start", name)
		})}},
		ExpectError: inOrder("Virtual machine runs on a fenced host: "+name, "remove fenced"),
	}, resource.TestStep{
		// Given up: the VM is created again elsewhere.
		PreConfig: func() {
			if err := onHosts(t, l, name, "running", "")(nil); err != nil {
				t.Error(err)
			}
			l.Virsh(t, "kvm1", "destroy", name)
		},
		Config:            hosts(acctest.Host{Of: kvm1, Settings: "fenced = true"}, acctest.Host{Of: kvm2}),
		ConfigPlanChecks:  changes(plancheck.ResourceActionCreate),
		ConfigStateChecks: state("kvm2", newID.AddStateValue(address, acctest.At("id"))),
		Check:             onHosts(t, l, name, "shut off", "running"),
	}, resource.TestStep{
		// The host comes back with the VM that it had, which runs again: the plan names both.
		PreConfig: func() { l.Virsh(t, "kvm1", "start", name) },
		Config:    hosts(acctest.Host{Of: kvm1}, acctest.Host{Of: kvm2}),
		ExpectError: inOrder("two VMs have this name:", `on host "kvm2", and the one with UUID`,
			`on host "kvm1", which is running.`),
	}, resource.TestStep{
		// The old VM is removed there.
		PreConfig: func() {
			l.Virsh(t, "kvm1", "destroy", name)
			l.Virsh(t, "kvm1", "undefine", name)
		},
		Config:            hosts(acctest.Host{Of: kvm1}, acctest.Host{Of: kvm2}),
		ConfigPlanChecks:  changes(plancheck.ResourceActionNoop),
		ConfigStateChecks: state("kvm2"),
	})
}
