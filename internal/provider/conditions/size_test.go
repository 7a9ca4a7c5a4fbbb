package conditions_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccConditions_sizes: what a VM started with, what it has and what its definition asks for differ, and each
// is told as it is.
func TestAccConditions_sizes(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	m := &testVM{t: t, lab: l, tf: acctest.NewCLI(t), host: "kvm2", id: uuid.NewString(), name: lab.Name(t)}
	l.Define(t, m.host, fmt.Sprintf(`<domain type="qemu"><name>%s</name><uuid>%s</uuid>
  <memory unit="MiB">192</memory><vcpu current="2">4</vcpu><cpu><topology sockets="2" cores="2" threads="1"/></cpu>
  <features><acpi/></features><os><type arch="x86_64" machine="q35">hvm</type>
    <kernel>%s</kernel><initrd>%s</initrd><cmdline>%s noagent</cmdline></os>
  <devices><serial type="file"><source path="%s"/></serial></devices></domain>`,
		m.name, m.id, l.KernelPath(), l.InitrdPath(), lab.GuestCmdline, lab.ConsoleLog(m.name)))
	m.config(acctest.On(l, m.host), "")
	m.virsh("start", m.name)
	l.AwaitConsole(t, m.host, m.name, lab.GuestUp)
	sizes := func(vcpus int, sockets string, current, requested uint64) {
		t.Helper()
		m.look().is("current_cpu_topology/sockets", sockets, "current_cpu_topology/cores", "2",
			"current_cpu_topology/threads", "1", "current_cpu_topology/vcpus", fmt.Sprint(vcpus),
			"memory/guest_at_boot_bytes", fmt.Sprint(192<<20), "memory/guest_current_bytes", fmt.Sprint(current),
			"memory/guest_requested_bytes", fmt.Sprint(requested))
	}
	sizes(2, "1", 192<<20, 192<<20)

	m.virsh("setvcpus", m.name, "3", "--live")
	m.virsh("setmem", m.name, "160M", "--live")
	m.virsh("setmem", m.name, "128M", "--config")
	// QEMU, which dommemstat asks, knows at once. It tells libvirt once a second.
	m.await("libvirt to hear that the guest gave its memory back", func() bool {
		return strings.Contains(m.virsh("dumpxml", m.name), fmt.Sprintf("<currentMemory unit='KiB'>%d</", 160<<10))
	})
	sizes(3, "null", 160<<20, 128<<20)
}
