package hostmaintenance_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccHostMaintenance_offAndMoved: a change of host, of a VM that is off. If a user has turned the VM off since the
// plan, the apply doesn't move it before it refuses to start it. A VM that a maintenance of its host has turned off is
// moved and started, as the plan says.
func TestAccHostMaintenance_offAndMoved(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	on := func(host string) string {
		return p.managed(t, "off", fmt.Sprintf("memory = { size = \"32Mi\" }\n  eviction_strategy = \"None\"\n"+
			"  host = %q", host))
	}
	p.tf.Config(t, p.block()+on(p.from.Name))
	p.tf.Run(t, "apply")

	p.tf.Config(t, p.block()+on(p.to.Name))
	p.tf.Plan(t)
	p.l.Virsh(t, p.from.Name, "destroy", p.prefix+"-off")
	if out := unwrapped(p.tf.Fail(t, "apply", "planned")); !strings.Contains(out, "which was not planned") {
		t.Errorf("it isn't said why: %s", out)
	}
	if out := p.l.Virsh(t, p.from.Name, "dumpxml", p.prefix+"-off"); strings.Contains(out, "<virtfleet:migration ") {
		t.Errorf("it was moved: %s", out)
	}

	p.tf.Config(t, p.block()+on(p.from.Name))
	p.tf.Run(t, "apply")
	closed := p.maintenance("restore = true")
	p.tf.Config(t, p.block()+closed+on(p.from.Name))
	p.tf.Run(t, "apply")
	p.expect(t, map[string]string{"off": ""})
	p.tf.Config(t, p.block()+closed+on(p.to.Name))
	p.tf.Run(t, "apply")
	if got := p.howRuns(t, "off"); got != p.to.Name+" running (booted)" {
		t.Errorf("it is %s", got)
	}
	if out, empty := p.tf.Empty(t); !empty {
		t.Errorf("left to do:\n%s", out)
	}
	p.tf.Run(t, "destroy")
	p.expect(t, map[string]string{"off": ""})
	p.nothingLeft(t)
}

// TestAccHostMaintenance_startedSince: the end of a maintenance doesn't shut down a guest that was off in its plan, and
// that its user has started since, although a policy lets the VM move while it is off.
func TestAccHostMaintenance_startedSince(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.defineVM(t, "cold", "", "")
	p.l.Virsh(t, p.from.Name, "destroy", p.prefix+"-cold")
	config := p.block() + p.policies(map[string]string{"cold": "\"LiveMigrate\"\n  fallback = \"ColdMigrate\""})
	p.tf.Config(t, config+p.maintenance("move_stopped = true\n  restore = true"))
	p.tf.Run(t, "apply")
	p.tf.Config(t, config)
	p.tf.Plan(t)
	p.l.Virsh(t, p.to.Name, "start", p.prefix+"-cold")
	out := unwrapped(p.tf.Run(t, "apply", "planned"))
	if !strings.Contains(out, "it wasn't among the guests to be shut down") {
		t.Errorf("it isn't said why the VM isn't brought back: %s", out)
	}
	if got := p.howRuns(t, "cold"); got != p.to.Name+" running (booted)" {
		t.Errorf("it is %s", got)
	}
	if out, empty := p.tf.Empty(t); !empty {
		t.Errorf("left to do:\n%s", out)
	}
	p.tf.Run(t, "destroy")
	p.nothingLeft(t, "cold")
}

// TestAccHostMaintenance_deviceClass: a VM that is off leaves a drained host with another device of the class that it
// asks for: the one that is free where it comes. If none is, it stays, and the plan says why. With the end of the
// maintenance it has the first host's device again.
func TestAccHostMaintenance_deviceClass(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	listed := strings.Fields(p.l.Virsh(t, p.from.Name, "nodedev-list", "--cap", "pci"))
	if len(listed) < 3 {
		t.Fatalf("the lab has too few PCI devices: %q", listed)
	}
	// As libvirt lists them, as a class does, and as a definition has them.
	device := func(i int) (inClass, inXML string) {
		part := strings.Split(listed[i], "_")
		return fmt.Sprintf("pci:%s:%s:%s.%s", part[1], part[2], part[3], part[4]), fmt.Sprintf(
			"<address domain='0x%s' bus='0x%s' slot='0x%s' function='0x%s'/>", part[1], part[2], part[3], part[4])
	}
	block := func(ofTarget string) string {
		own, _ := device(0)
		host := func(h *lab.Host, devices string) acctest.Host {
			of := p.host(h)
			of.Settings += fmt.Sprintf("\n      devices = { gpu = [%s] }", devices)
			return of
		}
		return acctest.Block{
			Lab: p.l, Hosts: []acctest.Host{host(p.from, fmt.Sprintf("%q", own)), host(p.to, ofTarget)},
		}.String()
	}
	has := func(h *lab.Host, i int) {
		t.Helper()
		_, want := device(i)
		for j := range listed {
			_, other := device(j)
			if xml := p.l.Virsh(t, h.Name, "dumpxml", p.prefix+"-off"); strings.Contains(xml, other) != (other == want) {
				t.Errorf("on %s it should have %s:\n%s", h.Name, want, xml)
				return
			}
		}
	}
	vm := p.managed(t, "off", "memory = { size = \"32Mi\" }\n  run_strategy = \"Halted\"\n"+
		"  devices = { host_devices = { gpu = { class = \"gpu\" } } }")
	inClass, _ := device(1)
	free, none := block(fmt.Sprintf("%q", inClass)), block("")
	p.tf.Config(t, none+vm)
	p.tf.Run(t, "apply")
	has(p.from, 0)

	drain := p.maintenance("move_stopped = true\n  restore = true")
	p.tf.Config(t, none+vm+drain)
	out := unwrapped(p.tf.Fail(t, "apply"))
	if !strings.Contains(out, `no devices of class "gpu"`) {
		t.Errorf("it isn't said why: %s", out)
	}
	has(p.from, 0)
	p.tf.Config(t, free+vm+drain)
	p.tf.Run(t, "apply")
	has(p.to, 1)
	if p.l.Has(t, p.from.Name, "list", p.prefix+"-off") {
		t.Error("it is still defined on the host that was drained")
	}
	if out, empty := p.tf.Empty(t); !empty {
		t.Errorf("left to do:\n%s", out)
	}
	p.tf.Config(t, free+vm)
	p.tf.Run(t, "apply")
	has(p.from, 0)
	if out, empty := p.tf.Empty(t); !empty {
		t.Errorf("left to do:\n%s", out)
	}
	p.tf.Run(t, "destroy")
	p.nothingLeft(t)
}
