package virtualmachine_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccCPUMode_typeOfHost: a VM that declares no type is planned with the type that it gets on its host. With KVM it
// can have the host's CPU; without KVM, or with the type qemu, the plan refuses that at cpu.mode.
func TestAccCPUMode_typeOfHost(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	tf := acctest.NewCLI(t)
	config := hcl{
		"name": quote(name), "memory": `{ size = "64Mi" }`, "run_strategy": quote("Halted"), "host": quote("kvm1"),
		"cpu": `{ mode = "host-passthrough" }`,
	}
	refused := func(change hcl) {
		t.Helper()
		tf.Config(t, acctest.OneHost(l)+config.with(change).String())
		expect(t, tf.Fail(t, "plan"), "because of cpu.mode", "CPU mode 'host-passthrough' for x86_64 qemu domain")
	}
	refused(hcl{"type": quote("qemu")})
	if !strings.Contains(l.Virsh(t, "kvm1", "capabilities"), "<domain type='kvm'/>") {
		refused(nil)
		return
	}
	tf.Config(t, acctest.OneHost(l)+config.String())
	tf.Run(t, "apply")
	if xml := l.Virsh(t, "kvm1", "dumpxml", "--inactive", name); !strings.Contains(xml, "<domain type='kvm'") ||
		!strings.Contains(xml, "<cpu mode='host-passthrough'") {
		t.Errorf("it is\n%s", xml)
	}
	noChanges(t, tf)
	destroyAndCheck(t, l, tf, name)
}

// TestAccCPUMode_staysOff: a CPU that the host lacks is a warning for a VM that stays off, when it is created and when
// it is changed. A plan that starts the VM fails, with another change and without one. If the configuration names no
// host, none takes it.
func TestAccCPUMode_staysOff(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	tf := acctest.NewCLI(t)
	// No CPU has both features: avx512f is new, and only old CPUs have the other.
	lacking := func(feature string) hcl {
		return hcl{"cpu": fmt.Sprintf(
			`{ mode = "custom", model = "Nehalem", features = { avx512f = "require", %q = "require" } }`, feature)}
	}
	config := hcl{
		"name": quote(name), "memory": `{ size = "64Mi" }`, "run_strategy": quote("Halted"), "host": quote("kvm1"),
		"type": quote("kvm"),
	}.with(lacking("fma4"))
	write := func(change hcl) {
		tf.Config(t, acctest.OneHost(l)+config.with(change).String())
	}
	refused := func(change hcl, text string) {
		t.Helper()
		write(change)
		expect(t, tf.Fail(t, "plan"), text)
	}
	if !strings.Contains(l.Virsh(t, "kvm1", "capabilities"), "<domain type='kvm'/>") {
		refused(nil, "No host can take the VM") // Without KVM, QEMU leaves out what it lacks.
		return
	}
	const because, warning = "because of cpu.mode", "Warning: Host can't start the VM"
	refused(hcl{"run_strategy": quote("Always")}, because)
	refused(hcl{"host": ""}, because)
	for _, feature := range []string{"fma4", "3dnow"} {
		write(lacking(feature))
		expect(t, tf.Run(t, "apply"), warning, `Host "kvm1" couldn't start it: the CPU is incompatible with host CPU`)
		if xml := l.Virsh(t, "kvm1", "dumpxml", "--inactive", name); !strings.Contains(xml, "name='"+feature+"'") {
			t.Errorf("it is\n%s", xml)
		}
		noChanges(t, tf)
	}
	starting := lacking("3dnow").with(hcl{"run_strategy": quote("Always"), "description": quote("on")})
	refused(starting, because)
	delete(starting, "description") // The definition stays as it is.
	refused(starting, because)
	write(lacking("3dnow"))
	destroyAndCheck(t, l, tf, name)
}

// TestAccStart_machineTypeIsGone: a VM that is off may have a machine type that its host had once. As long as it stays
// off, that is no problem; a plan that starts it fails.
func TestAccStart_machineTypeIsGone(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	h := l.StartHost(t)
	name := lab.Name(t)
	tf := acctest.NewCLI(t)
	write := func(strategy string) {
		tf.Config(t, acctest.Block{Lab: l, Hosts: []acctest.Host{{Of: h}}}.String()+
			tinyVM(name).with(hcl{"run_strategy": quote(strategy)}).String())
	}
	write("Halted")
	tf.Run(t, "apply")
	rewrite := func(from, to string) {
		t.Helper()
		start := l.KillLibvirtd(t, h)
		l.Run(t, h.Name, "sed", "-i", "-E", "s/machine='"+from+"'/machine='"+to+"'/", "/etc/libvirt/qemu/"+name+".xml")
		start()
		if xml := l.Virsh(t, h.Name, "dumpxml", "--inactive", name); !strings.Contains(xml, "machine='"+to+"'") {
			t.Fatalf("its machine type isn't %s:\n%s", to, xml)
		}
	}
	has, _, _ := strings.Cut(strings.SplitN(l.Virsh(t, h.Name, "dumpxml", "--inactive", name), "machine='", 2)[1], "'")
	rewrite("[^']*", "pc-q35-1.7")
	noChanges(t, tf)
	write("Always")
	expect(t, tf.Fail(t, "plan"), "Host can't take the change", "because of machine_type",
		`it does not know machine type "pc-q35-1.7" for x86_64`)
	rewrite("[^']*", has)
	tf.Run(t, "apply")
	noChanges(t, tf)
	tf.Run(t, "destroy")
	if left := l.Virsh(t, h.Name, "list", "--all", "--name"); strings.Contains(left, name) {
		t.Errorf("it is left: %s", left)
	}
}
