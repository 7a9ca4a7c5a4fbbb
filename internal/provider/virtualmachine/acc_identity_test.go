package virtualmachine_test

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-testing/compare"
	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// zonedProvider is a provider block whose first host is in zone a and whose second is in zone b, so that a test can say
// where a VM begins without pinning it.
func zonedProvider(l *lab.Lab) string {
	return acctest.Block{Lab: l, Hosts: []acctest.Host{
		{Of: l.Host("kvm1"), Settings: `labels = { zone = "a" }`},
		{Of: l.Host("kvm2"), Settings: `labels = { zone = "b" }`},
	}}.String()
}

// vmWithKernelWords is a VM whose guest was told words on its kernel's command line.
func vmWithKernelWords(l *lab.Lab, name string, words ...string) hcl {
	return guest(l, name).with(hcl{"kernel": fmt.Sprintf("{ path = %q, initrd = %q, cmdline = %q }", l.KernelPath(),
		l.InitrdPath(), strings.Join(append([]string{lab.GuestCmdline}, words...), " "))})
}

// idleVM is a VM without anything to boot, which costs nothing and is killed when it has to go.
func idleVM(l *lab.Lab, name string) hcl {
	return guest(l, name).with(hcl{"kernel": "", "memory": `{ size = "64Mi" }`, "termination_grace_period": quote("0s")})
}

var zoneA = hcl{"placement": `{ host_labels = { zone = "a" } }`}

// move moves a running guest from kvm1 to kvm2 as an administrator does with virsh. Without undefining it stays defined
// where it was.
func move(t *testing.T, l *lab.Lab, name string, options ...string) {
	t.Helper()
	migrate(t, l, name, append([]string{"--persistent"}, options...)...)
}

// migrate is move that makes no definition on kvm2 either, unless it is told to.
func migrate(t *testing.T, l *lab.Lab, name string, options ...string) {
	t.Helper()
	const from, to = "kvm1", "kvm2"
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	args := append(
		[]string{"--quiet", "--connect", l.Host(from).SocketURI(), "migrate", "--live"},
		options...)
	out, err := exec.CommandContext(ctx, "virsh", append(args, name, l.Host(to).SocketURI())...).CombinedOutput()
	if err != nil {
		t.Fatalf("moving %s from %s to %s: %v\n%s", name, from, to, err, out)
	}
}

// copyTo defines a VM of one host on another one as well.
func copyTo(t *testing.T, l *lab.Lab, name, from, to string) {
	t.Helper()
	l.Define(t, to, l.Virsh(t, from, "dumpxml", "--inactive", "--security-info", name))
}

// onHosts expects the VM's state on each of the lab's first two hosts, "" where it isn't defined.
func onHosts(t *testing.T, l *lab.Lab, name, kvm1, kvm2 string) resource.TestCheckFunc {
	t.Helper()
	return func(*terraform.State) error {
		for host, want := range map[string]string{"kvm1": kvm1, "kvm2": kvm2} {
			if state := l.State(t, host, name); state != want {
				return fmt.Errorf("on %s it is %q, want %q", host, state, want)
			}
		}
		return nil
	}
}

// inOrder matches texts in this order in what Terraform shows, however it broke their lines.
func inOrder(texts ...string) *regexp.Regexp {
	for i, text := range texts {
		words := strings.Fields(text)
		for j, w := range words {
			words[j] = regexp.QuoteMeta(w)
		}
		texts[i] = strings.Join(words, `[\s│]+`)
	}
	return regexp.MustCompile(`(?s)` + strings.Join(texts, `.*`))
}

// TestAccVirtualMachine_movedByHand: a VM that a user moved with virsh is the same VM. Nothing is planned
// for that, and what is done to it later is done where it is.
func TestAccVirtualMachine_movedByHand(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	id := statecheck.CompareValue(compare.ValuesSame())
	config := idleVM(l, name).with(zoneA).with(hcl{"interfaces": `{ lan = { user = true } }`})
	story(t, l, []string{name}, resource.TestStep{
		// It begins on the first host.
		Config:           zonedProvider(l) + config.String(),
		ConfigPlanChecks: changes(plancheck.ResourceActionCreate),
		ConfigStateChecks: []statecheck.StateCheck{
			id.AddStateValue(address, acctest.At("id")),
			know("current_host", exactly("kvm1")), know("location.host_uuid", exactly(l.Host("kvm1").HostUUID)),
		},
	}, resource.TestStep{
		// A user moves it: the state follows, and all that is to be repaired is that the new host doesn't start it.
		PreConfig: func() { move(t, l, name, "--undefinesource") },
		Config:    zonedProvider(l) + config.String(),
		ConfigPlanChecks: changes(plancheck.ResourceActionUpdate, planned("autostart", knownvalue.Bool(true)),
			planned("current_host", exactly("kvm2"))),
		ConfigStateChecks: []statecheck.StateCheck{
			id.AddStateValue(address, acctest.At("id")),
			know("current_host", exactly("kvm2")), know("location.host_uuid", exactly(l.Host("kvm2").HostUUID)),
			know("location.stale_definitions", knownvalue.ListExact(nil)),
		},
		Check: onHosts(t, l, name, "", "running"),
	}, resource.TestStep{
		// It is changed where it is, while it runs, and is started with that host again, which a move forgets.
		Config: zonedProvider(l) + config.with(hcl{
			"labels":     `{ app = "web" }`,
			"interfaces": `{ lan = { user = true }, more = { user = true, mac = "52:54:00:77:00:01" } }`,
		}).String(),
		ConfigPlanChecks: changes(plancheck.ResourceActionUpdate, planned("current_host", exactly("kvm2"))),
		Check: resource.ComposeTestCheckFunc(
			onHosts(t, l, name, "", "running"),
			look(t, l, "kvm2", name, "52:54:00:77:00:01", "<virtfleet:label "),
			func(*terraform.State) error {
				return contains(l.Virsh(t, "kvm2", "dominfo", name), "Autostart:      enable")
			},
		),
	})
}

// TestAccVirtualMachine_leftoverDefinition: a definition that a move left behind is shown, is never started, and is
// removed by an apply that said so.
func TestAccVirtualMachine_leftoverDefinition(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	config := zonedProvider(l) + idleVM(l, name).with(zoneA).String()
	process := &started{l: l, host: "kvm2", name: name}
	repair := plancheck.ExpectKnownValue(address, acctest.At("location.stale_definitions"), knownvalue.ListExact(nil))
	story(t, l, []string{name}, resource.TestStep{
		Config: config, ConfigPlanChecks: changes(plancheck.ResourceActionCreate), Check: onHosts(t, l, name, "running", ""),
	}, resource.TestStep{
		// Refreshing shows it and plans it away, and touches nothing.
		PreConfig:    func() { move(t, l, name) },
		RefreshState: true, ExpectNonEmptyPlan: true,
		RefreshPlanChecks: resource.RefreshPlanChecks{PostRefresh: []plancheck.PlanCheck{
			plancheck.ExpectResourceAction(address, plancheck.ResourceActionUpdate), repair,
		}},
		Check: resource.ComposeTestCheckFunc(
			resource.TestCheckResourceAttr(address, "current_host", "kvm2"),
			resource.TestCheckResourceAttr(address, "location.stale_definitions.#", "1"),
			resource.TestCheckResourceAttr(address, "location.stale_definitions.0", "kvm1"),
			onHosts(t, l, name, "shut off", "running"),
			process.same(t),
		),
	}, resource.TestStep{
		// Applying removes it. The VM didn't notice.
		Config: config, ConfigPlanChecks: changes(plancheck.ResourceActionUpdate, repair),
		ConfigStateChecks: []statecheck.StateCheck{know("location.stale_definitions", knownvalue.ListExact(nil))},
		Check:             resource.ComposeTestCheckFunc(onHosts(t, l, name, "", "running"), process.same(t)),
	}, resource.TestStep{
		// With a new one in place, destroying leaves nothing anywhere.
		PreConfig:    func() { copyTo(t, l, name, "kvm2", "kvm1") },
		RefreshState: true, ExpectNonEmptyPlan: true,
		Check: resource.TestCheckResourceAttr(address, "location.stale_definitions.0", "kvm1"),
	})
}

// TestAccVirtualMachine_leftoverIsNotStarted: a VM that was moved and then stopped, unseen by Terraform, is
// started where it ran last, and not from the definition that it left behind.
func TestAccVirtualMachine_leftoverIsNotStarted(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	config := zonedProvider(l) + idleVM(l, name).with(zoneA).String()
	story(t, l, []string{name}, resource.TestStep{
		Config: config, ConfigPlanChecks: changes(plancheck.ResourceActionCreate), Check: onHosts(t, l, name, "running", ""),
	}, resource.TestStep{
		PreConfig: func() {
			move(t, l, name)
			l.Virsh(t, "kvm2", "destroy", name)
		},
		Config: config, ConfigPlanChecks: changes(plancheck.ResourceActionUpdate, planned("current_host", exactly("kvm2"))),
		ConfigStateChecks: []statecheck.StateCheck{know("status", exactly("Running"))},
		Check:             onHosts(t, l, name, "", "running"),
	}, resource.TestStep{
		// A copy that a user made elsewhere of the stopped VM isn't the VM either.
		PreConfig: func() {
			l.Virsh(t, "kvm2", "destroy", name)
			copyTo(t, l, name, "kvm2", "kvm1")
		},
		Config: config, ConfigPlanChecks: changes(plancheck.ResourceActionUpdate, planned("current_host", exactly("kvm2"))),
		Check: onHosts(t, l, name, "", "running"),
	})
}

// TestAccVirtualMachine_runsTwice: only a person can tell which of two running copies is the VM, so neither is touched.
func TestAccVirtualMachine_runsTwice(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	config := zonedProvider(l) + idleVM(l, name).with(zoneA).String()
	changed := zonedProvider(l) + idleVM(l, name).with(zoneA).with(hcl{"labels": `{ app = "web" }`}).String()
	first, second := &started{l: l, host: "kvm1", name: name}, &started{l: l, host: "kvm2", name: name}
	refused := inOrder(
		"Unable to read virtual machine",
		`runs on hosts "kvm1", "kvm2" at the same time; neither copy is touched`,
		"Find out which copy is the right one",
	)
	untouched := func() {
		both := onHosts(t, l, name, "running", "running")
		for _, check := range []resource.TestCheckFunc{both, first.same(t), second.same(t)} {
			if err := check(nil); err != nil {
				t.Error(err)
			}
		}
	}
	story(t, l, []string{name}, resource.TestStep{
		Config: config, ConfigPlanChecks: changes(plancheck.ResourceActionCreate), Check: first.same(t),
	}, resource.TestStep{
		PreConfig: func() {
			copyTo(t, l, name, "kvm1", "kvm2")
			l.Virsh(t, "kvm2", "start", name)
			untouched()
		},
		Config: changed, ExpectError: refused,
	}, resource.TestStep{
		PreConfig: untouched, Config: changed, Destroy: true, ExpectError: refused,
	}, resource.TestStep{
		// Once a person has decided, all is well.
		PreConfig: func() {
			untouched()
			l.Virsh(t, "kvm2", "destroy", name)
			l.Virsh(t, "kvm2", "undefine", name)
		},
		Config: config, ConfigPlanChecks: changes(plancheck.ResourceActionNoop), Check: first.same(t),
	})
}

// TestAccVirtualMachine_pin: a pinned VM that is elsewhere is moved to where it is pinned to; a removed pin is
// gone from the host too.
func TestAccVirtualMachine_pin(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	config := idleVM(l, name)
	pinned := func(host string) string { return zonedProvider(l) + config.with(hcl{"host": quote(host)}).String() }
	recorded := func(host, pin string) resource.TestCheckFunc {
		return func(*terraform.State) error {
			for _, live := range []string{"--config", "--live"} {
				mark := l.Virsh(t, host, "metadata", name, "urn:virtfleet:1", live)
				if has := strings.Contains(
					mark,
					"<host>"+pin+"</host>",
				); has != (pin != "") ||
					pin == "" && strings.Contains(mark, "<host>") {
					return fmt.Errorf("the pin should be %q: %s", pin, mark)
				}
			}
			return nil
		}
	}
	story(t, l, []string{name}, resource.TestStep{
		// Pinned to nowhere.
		Config:      pinned("kvm9"),
		ExpectError: inOrder(`Host "kvm9" is not among the configured hosts. Configured are "kvm1", "kvm2".`),
	}, resource.TestStep{
		// Pinned.
		Config: pinned(
			"kvm2",
		),
		ConfigPlanChecks:  changes(plancheck.ResourceActionCreate, planned("current_host", exactly("kvm2"))),
		ConfigStateChecks: []statecheck.StateCheck{know("host", exactly("kvm2"))},
		Check:             resource.ComposeTestCheckFunc(onHosts(t, l, name, "", "running"), recorded("kvm2", "kvm2")),
	}, resource.TestStep{
		// Another pin is a move.
		Config:           pinned("kvm1"),
		ConfigPlanChecks: changes(plancheck.ResourceActionUpdate, planned("current_host", exactly("kvm1"))),
		Check:            resource.ComposeTestCheckFunc(onHosts(t, l, name, "running", ""), recorded("kvm1", "kvm1")),
	}, resource.TestStep{
		// Moved by hand, it isn't where the configuration wants it.
		PreConfig:        func() { move(t, l, name, "--undefinesource") },
		Config:           pinned("kvm1"),
		ConfigPlanChecks: changes(plancheck.ResourceActionUpdate, planned("current_host", exactly("kvm1"))),
		Check:            resource.ComposeTestCheckFunc(onHosts(t, l, name, "running", ""), recorded("kvm1", "kvm1")),
	}, resource.TestStep{
		// Unpinned.
		Config:            zonedProvider(l) + config.String(),
		ConfigPlanChecks:  changes(plancheck.ResourceActionUpdate, planned("host", knownvalue.Null())),
		ConfigStateChecks: []statecheck.StateCheck{know("host", knownvalue.Null())},
		Check:             recorded("kvm1", ""),
	}, resource.TestStep{
		// Now it may be anywhere. What a migration by hand lost is planned: the host's order to start it.
		PreConfig: func() { move(t, l, name, "--undefinesource") },
		Config:    zonedProvider(l) + config.String(),
		ConfigPlanChecks: changes(plancheck.ResourceActionUpdate, planned("autostart", knownvalue.Bool(true)),
			planned("current_host", exactly("kvm2"))),
		Check: onHosts(t, l, name, "", "running"),
	})
}
