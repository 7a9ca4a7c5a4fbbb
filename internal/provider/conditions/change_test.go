package conditions_test

import (
	"fmt"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccConditions_whatIsToChange: a creation that isn't finished, a host that isn't the one that the configuration
// wants, and a definition that isn't what runs: each is told by who knows it, what can be given to the running VM
// apart from what waits for a restart. Forced off, the VM has failed, and nothing is to change about it any more.
func TestAccConditions_whatIsToChange(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	id := marked(t, l, "kvm2", name, `<virtfleet:host>kvm1</virtfleet:host>
    <virtfleet:creating owner="alice@desk" spec="4711" since="2026-01-02T03:04:05Z"/>`)
	m := &testVM{t: t, lab: l, tf: acctest.NewCLI(t), host: "kvm2", id: id, name: name}
	m.config(acctest.Config(l), "")
	m.virsh("start", "--paused", name)

	s := m.look()
	s.condition("Provisioning", "True", "Creating", "metadata", "alice@desk")
	s.is("conditions/Provisioning/last_transition_time", "2026-01-02T03:04:05Z")
	s.condition("MigrationRequired", "True", "PinnedToOtherHost", "metadata", `wants it on host "kvm1".* on host "kvm2"`)
	s.condition("RestartRequired", "False", "NothingPending", "libvirt", "")
	s.condition("HotVCPUChange", "False", "NoChange", "libvirt", "")
	s.condition("HotMemoryChange", "False", "NoChange", "libvirt", "")

	m.virsh("setvcpus", name, "3", "--config")
	m.virsh("setmem", name, "24M", "--config")
	s = m.look()
	s.condition("HotVCPUChange", "True", "ChangePending", "libvirt", "has 1 virtual CPUs, and its definition asks for 3")
	s.condition("HotMemoryChange", "True", "ChangePending", "libvirt",
		fmt.Sprintf("has %d bytes of memory, and its definition asks for %d", 32<<20, 24<<20))

	m.virsh("setvcpus", name, "6", "--config", "--maximum")
	m.virsh("setvcpus", name, "6", "--config")
	s = m.look()
	s.condition("HotVCPUChange", "False", "RestartRequired", "libvirt", "asks for 6 .* takes 4 at most")
	s.condition("RestartRequired", "True", "RestartRequired", "libvirt", "cpu.max_sockets: ")

	m.virsh("destroy", name)
	s = m.look()
	s.is("phase", "Failed", "status", "Stopped", "status_reason", "Destroyed")
	for _, condition := range []string{"HotVCPUChange", "HotMemoryChange"} {
		s.condition(condition, "False", "GuestNotRunning", "libvirt", "")
	}
	s.condition("RestartRequired", "False", "NothingPending", "libvirt", "")
}
