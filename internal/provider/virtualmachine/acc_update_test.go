package virtualmachine_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// started remembers when the guest's process was started, to tell whether it was restarted.
type started struct {
	l          *lab.Lab
	host, name string
	pid        string
}

func (s *started) read(t *testing.T) string {
	t.Helper()
	return strings.TrimSpace(s.l.Run(t, s.host, "cat", "/run/libvirt/qemu/"+s.name+".pid"))
}

// same expects that the guest runs in the process that it ran in before; restarted, that it doesn't.
func (s *started) same(t *testing.T) resource.TestCheckFunc {
	t.Helper()
	return func(*terraform.State) error {
		pid := s.read(t)
		if s.pid != "" && s.pid != pid {
			return fmt.Errorf("the guest was restarted: process %s is now %s", s.pid, pid)
		}
		s.pid = pid
		return nil
	}
}

func (s *started) restarted(t *testing.T) resource.TestCheckFunc {
	t.Helper()
	return func(*terraform.State) error {
		pid := s.read(t)
		if s.pid == pid {
			return fmt.Errorf("the guest wasn't restarted: process %s", pid)
		}
		s.pid = pid
		return nil
	}
}

// TestAccVirtualMachine_liveUpdate: what a running guest can take is changed without a restart, both in what runs and
// for the next start.
func TestAccVirtualMachine_liveUpdate(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	image := l.Image(t, "kvm1", name+".qcow2", "qcow2", 16<<20)
	process := &started{l: l, host: "kvm1", name: name}
	config := guest(l, name).with(hcl{
		"host": quote("kvm1"), "cpu": `{ vcpus = 1, max_sockets = 2 }`, "memory": `{ size = "256Mi" }`,
		"disks": `{}`, "interfaces": `{ lan = { network = "default" } }`, "guest_agent": `{ enabled = true }`,
		"wait_for": `{ guest_agent = true, timeout = "5m" }`,
	})
	steps := []struct {
		change hcl
		check  resource.TestCheckFunc
	}{
		{hcl{}, nil},
		{hcl{"labels": `{ app = "web" }`}, look(t, l, "kvm1", name, "app", "web")},
		{hcl{"memory": `{ size = "192Mi" }`}, look(t, l, "kvm1", name, "<currentMemory unit='KiB'>196608</currentMemory>")},
		{hcl{"cpu": `{ vcpus = 2 }`}, look(t, l, "kvm1", name, "<vcpu placement='static'>2</vcpu>")},
		{
			hcl{"disks": fmt.Sprintf("{ data = { volume = %q, serial = \"S1\" } }", image)},
			look(t, l, "kvm1", name, image, "ua-disk-data", "<serial>S1</serial>"),
		},
		{
			hcl{"interfaces": `{ lan = { network = "default" }, more = { user = true, mac = "52:54:00:01:02:03" } }`},
			look(t, l, "kvm1", name, "ua-net-more", "52:54:00:01:02:03"),
		},
		{
			hcl{"interfaces": `{ lan = { network = "default", link_up = false } }`},
			look(t, l, "kvm1", name, "<link state='down'/>"),
		},
		{hcl{"disks": `{}`}, nil},
		{hcl{"labels": ""}, nil},
	}
	var all []resource.TestStep
	for i, s := range steps {
		config = config.with(s.change)
		action := plancheck.ResourceActionUpdate
		if i == 0 {
			action = plancheck.ResourceActionCreate
		}
		checks := []resource.TestCheckFunc{process.same(t)}
		if s.check != nil {
			checks = append(checks, s.check)
		}
		all = append(all, resource.TestStep{
			Config: acctest.OneHost(l) + config.String(), ConfigPlanChecks: changes(action),
			Check: resource.ComposeTestCheckFunc(checks...),
			ConfigStateChecks: []statecheck.StateCheck{
				know("restart_required", knownvalue.Bool(false)), know("ready", knownvalue.Bool(true)),
			},
		})
	}
	story(t, l, []string{name}, all...)
}

// TestAccVirtualMachine_restartPolicies: a change that a running guest can't take is refused, staged, or restarts it,
// as the user said.
func TestAccVirtualMachine_restartPolicies(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	process := &started{l: l, host: "kvm2", name: name}
	config := func(model, policy string, more ...hcl) string {
		c := guest(l, name).with(hcl{
			"host": quote("kvm2"), "cpu": fmt.Sprintf("{ mode = %q, model = %q }", "custom", model),
			"update_policy": quote(policy), "guest_agent": `{ enabled = true }`,
			"wait_for": `{ guest_agent = true, timeout = "5m" }`,
		})
		for _, m := range more {
			c = c.with(m)
		}
		return acctest.On(l, process.host) + c.String()
	}
	story(t, l, []string{name}, resource.TestStep{
		Config: config("qemu64", "Live"), ConfigPlanChecks: changes(plancheck.ResourceActionCreate), Check: process.same(t),
	}, resource.TestStep{
		Config:      config("Nehalem", "Live"),
		ExpectError: regexp.MustCompile(`(?s)Change needs a restart.*cpu\.model: A guest keeps the CPU`),
	}, resource.TestStep{
		Config: config("Nehalem", "Stage"),
		ConfigPlanChecks: changes(plancheck.ResourceActionUpdate,
			planned("restart_required", knownvalue.Bool(true)), planned("status", exactly("Running"))),
		ConfigStateChecks: []statecheck.StateCheck{know("restart_required", knownvalue.Bool(true))},
		Check:             process.same(t),
	}, resource.TestStep{
		// What was staged waits on, and doesn't keep other changes from being made.
		Config:            config("Nehalem", "Live", hcl{"labels": `{ a = "b" }`}),
		ConfigPlanChecks:  changes(plancheck.ResourceActionUpdate),
		ConfigStateChecks: []statecheck.StateCheck{know("restart_required", knownvalue.Bool(true))},
		Check:             process.same(t),
	}, resource.TestStep{
		Config: config("Nehalem", "Restart"),
		ConfigPlanChecks: changes(plancheck.ResourceActionUpdate,
			planned("restart_required", knownvalue.Bool(false)), planned("status", exactly("Running"))),
		ConfigStateChecks: []statecheck.StateCheck{
			know("restart_required", knownvalue.Bool(false)), know("ready", knownvalue.Bool(true)),
		},
		Check: resource.ComposeTestCheckFunc(process.restarted(t), look(t, l, "kvm2", name, "Nehalem")),
	})
}

// TestAccVirtualMachine_keyIsUsedAgain: the old key of a renamed disk is free for another disk at once, though the
// running disk keeps the alias with that key until it is started again. What is then staged for the renamed devices
// waits for that start: the guest keeps what it has.
func TestAccVirtualMachine_keyIsUsedAgain(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	var image [3]string
	for i := range image {
		image[i] = l.Image(t, "kvm1", fmt.Sprintf("%s-%d.raw", name, i), "raw", 1<<20)
	}
	tf := acctest.NewCLI(t)
	process := &started{l: l, host: "kvm1", name: name}
	for _, step := range []struct {
		disks, nics, channels string
		staged                bool
	}{
		{fmt.Sprintf("{ a = { file = %q } }", image[0]), `{ a = { user = true } }`, "a = \"a\"", false},
		{fmt.Sprintf("{ b = { file = %q } }", image[0]), `{ b = { user = true } }`, "b = \"a\"", false},
		{
			fmt.Sprintf("{ b = { file = %q }, a = { file = %q } }", image[0], image[1]), `{ b = { user = true } }`,
			"b = \"a\"", false,
		},
		{
			fmt.Sprintf("{ b = { file = %q }, a = { file = %q, bus = \"sata\" } }", image[2], image[1]),
			`{ b = { user = true, mac = "52:54:00:00:77:01" } }`, "b = \"b\"", true,
		},
		{
			fmt.Sprintf("{ c = { file = %q }, a = { file = %q, bus = \"sata\" } }", image[2], image[1]),
			`{ c = { user = true, mac = "52:54:00:00:77:01" } }`, "c = \"b\"", true,
		},
	} {
		key, channel, _ := strings.Cut(step.channels, " = ")
		config := idleVM(l, name).with(hcl{
			"host": quote("kvm1"), "disks": step.disks, "interfaces": step.nics,
			"devices": fmt.Sprintf(`{ channels = { %s = { type = "null", name = %s } } }`, key, channel),
		})
		if step.staged {
			config = config.with(hcl{"update_policy": quote("Stage")})
		}
		tf.Config(t, acctest.OneHost(l)+config.String())
		said := tf.Run(t, "apply")
		noChanges(t, tf)
		if err := process.same(t)(nil); err != nil {
			t.Error(err)
		}
		if key == "b" && step.staged {
			expect(t, said, "Warning: Changes wait for the next start: "+name, "disks.a.bus:", "disks.b.file:",
				"interfaces.b.mac:")
		}
		if state, _ := tf.State(t, address); state["restart_required"] != step.staged {
			t.Errorf("restart_required is %v with %s", state["restart_required"], step.disks)
		}
		_, runs, _ := strings.Cut(l.Virsh(t, "kvm1", "dumpxml", name), "<devices>\n")
		if n := strings.Count(runs, `<channel type='null'`); n != 1 || !strings.Contains(runs, image[0]) ||
			strings.Contains(runs, image[2]) || strings.Contains(runs, "52:54:00:00:77:01") ||
			strings.Contains(runs, `name='b'`) {
			t.Errorf("with %s, the guest has\n%s", step.disks, runs)
		}
	}
	next := l.Virsh(t, "kvm1", "dumpxml", "--inactive", name)
	if err := contains(next, "<source file='"+image[2]+"'", "<source file='"+image[1]+"'", "ua-disk-c"); err != nil {
		t.Error(err)
	}
	destroyAndCheck(t, l, tf, name)
}

// TestAccVirtualMachine_runStrategies: the power follows the run strategy.
func TestAccVirtualMachine_runStrategies(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	config := func(strategy string) string {
		return acctest.OneHost(l) + guest(l, name).with(hcl{"host": quote("kvm1"), "run_strategy": quote(strategy)}).String()
	}
	is := func(s string, ready bool) []statecheck.StateCheck {
		return []statecheck.StateCheck{know("status", exactly(s)), know("ready", knownvalue.Bool(ready))}
	}
	story(t, l, []string{name}, resource.TestStep{
		Config: config("Halted"), ConfigPlanChecks: changes(plancheck.ResourceActionCreate),
		ConfigStateChecks: is("Stopped", false),
	}, resource.TestStep{
		Config:            config("Always"),
		ConfigPlanChecks:  changes(plancheck.ResourceActionUpdate, planned("status", exactly("Running"))),
		ConfigStateChecks: is("Running", true),
		Check: func(*terraform.State) error {
			return contains(l.Virsh(t, "kvm1", "dominfo", name), "Autostart:      enable")
		},
	}, resource.TestStep{
		PreConfig:         func() { l.Virsh(t, "kvm1", "destroy", name) },
		Config:            config("Always"),
		ConfigPlanChecks:  changes(plancheck.ResourceActionUpdate, planned("status", exactly("Running"))),
		ConfigStateChecks: is("Running", true),
	}, resource.TestStep{
		PreConfig:         func() { l.Virsh(t, "kvm1", "suspend", name) },
		Config:            config("Always"),
		ConfigPlanChecks:  changes(plancheck.ResourceActionUpdate, planned("status", exactly("Running"))),
		ConfigStateChecks: is("Running", true),
	}, resource.TestStep{
		PreConfig:         func() { l.Virsh(t, "kvm1", "destroy", name) },
		Config:            config("Manual"),
		ConfigPlanChecks:  changes(plancheck.ResourceActionUpdate, planned("status", exactly("Stopped"))),
		ConfigStateChecks: is("Stopped", false),
	}, resource.TestStep{
		PreConfig:        func() { l.Virsh(t, "kvm1", "start", name) },
		Config:           config("Manual"),
		ConfigPlanChecks: changes(plancheck.ResourceActionNoop),
	}, resource.TestStep{
		Config:            config("Halted"),
		ConfigPlanChecks:  changes(plancheck.ResourceActionUpdate, planned("status", exactly("Stopped"))),
		ConfigStateChecks: is("Stopped", false),
	})
}
