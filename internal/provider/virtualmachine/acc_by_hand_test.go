package virtualmachine_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccDevices_undeclared: a map of devices that isn't declared isn't managed, whatever is done to it by hand. An
// import names the devices that only the running VM has.
func TestAccDevices_undeclared(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	const host = "kvm1"
	nic := writeDeviceXML(t, `<interface type="user"><mac address="52:54:00:77:00:03"/><model type="virtio"/></interface>`)
	disk := writeDeviceXML(t, fmt.Sprintf(`
		<disk type="file" device="disk"><driver name="qemu" type="raw"/><source file=%q/>`+
		`<target dev="vdz" bus="virtio"/></disk>`, l.Image(t, host, name+".raw", "raw", 1<<20)))
	tf := acctest.NewCLI(t)
	config := vmWithKernelWords(l, name).with(talking).with(hcl{"host": quote(host)})
	tf.Config(t, acctest.OneHost(l)+config.String())
	tf.Run(t, "apply")
	l.Virsh(t, host, "attach-device", name, nic, "--live", "--config")
	l.Virsh(t, host, "attach-device", name, disk, "--live")
	noChanges(t, tf)
	tf.Run(t, "apply", "-refresh-only")
	tf.Run(t, "apply", "-refresh-only")
	tf.Config(t, acctest.OneHost(l)+config.with(hcl{"labels": `{ app = "web" }`}).String())
	tf.Run(t, "apply")
	noChanges(t, tf)
	if err := contains(l.Virsh(t, host, "dumpxml", name), "52:54:00:77:00:03", "vdz", `value="web"`); err != nil {
		t.Error(err)
	}
	state, _ := tf.State(t, address)
	if _, ok := state["disks"].(map[string]any)["vdz"]; !ok {
		t.Errorf("the state has disks %v", state["disks"])
	}

	// An import doesn't have what is only in the running VM, and says so.
	tf.Run(t, "state", "rm", address)
	if out := tf.Run(t, "import", address, name); !inOrder("Imported virtual machine has devices only while it runs",
		name, host, "disks.vdz", "attach-device", "--config").MatchString(out) || strings.Contains(out, "interfaces.") {
		t.Errorf("the import says:\n%s", out)
	}
	state, _ = tf.State(t, address)
	if state["restart_required"] != true {
		t.Errorf("restart_required is %v", state["restart_required"])
	}

	// Declared, the map is complete: the definition loses its interface, and the running VM with it. What only the running
	// VM has when it is imported stays until it is off: no plan could show that it goes.
	tf.Config(t, acctest.OneHost(l)+config.with(hcl{"disks": "{}", "interfaces": "{}"}).String())
	if out := tf.Run(t, "apply"); strings.Contains(out, "vdz") {
		t.Errorf("the first apply says:\n%s", out)
	}
	noChanges(t, tf)
	tf.Config(t, acctest.OneHost(l)+config.with(hcl{
		"disks": "{}", "interfaces": "{}", "labels": `{ app = "later" }`,
	}).String())
	tf.Run(t, "apply")
	noChanges(t, tf)
	for option, has := range map[string]bool{"": true, "--inactive": false} {
		xml := l.Virsh(t, host, strings.Fields("dumpxml "+name+" "+option)...)
		if strings.Contains(xml, "52:54:00:77:00:03") || strings.Contains(xml, "vdz") != has {
			t.Errorf("virsh dumpxml %s:\n%s", option, xml)
		}
	}

	// After that it is like any other that a user attaches.
	l.Virsh(t, host, "destroy", name)
	tf.Run(t, "apply")
	l.Virsh(t, host, "attach-device", name, disk, "--live")
	tf.Run(t, "apply")
	if xml := l.Virsh(t, host, "dumpxml", name); strings.Contains(xml, "vdz") {
		t.Errorf("a device is still there:\n%s", xml)
	}
	noChanges(t, tf)
	destroyAndCheck(t, l, tf, name)
}

// TestAccDrift_isSeenAgain: what departs from the configuration stays drift, however often it was read into the state
// before it is repaired.
func TestAccDrift_isSeenAgain(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	const host = "kvm2"
	nic := writeDeviceXML(t, `<interface type="user"><mac address="52:54:00:77:00:04"/><model type="virtio"/></interface>`)
	tf := acctest.NewCLI(t)
	tf.Config(t, acctest.On(l, host)+vmWithKernelWords(l, name).with(talking).with(hcl{
		"host": quote(host), "cpu": `{ vcpus = 1, max_sockets = 2 }`, "interfaces": `{}`,
	}).String())
	tf.Run(t, "apply")
	l.Virsh(t, host, "attach-device", name, nic, "--live")
	l.Virsh(t, host, "setvcpus", name, "2", "--config")
	for range 3 {
		change := tf.Plan(t, "-out=planned")[address]
		nics, _ := change.Before["interfaces"].(map[string]any)
		cpu, _ := change.Before["cpu"].(map[string]any)
		if change.Actions != "update" || len(nics) != 1 || fmt.Sprint(cpu["vcpus"]) != "2" {
			t.Fatalf("the plan does %q about interfaces %v and cpu %v", change.Actions, nics, cpu)
		}
		tf.Run(t, "apply", "-refresh-only")
	}
	tf.Run(t, "apply")
	noChanges(t, tf)
	if xml := l.Virsh(t, host, "dumpxml", name); strings.Contains(xml, "52:54:00:77:00:04") {
		t.Errorf("the interface is still there:\n%s", xml)
	}
	destroyAndCheck(t, l, tf, name)
}

// TestAccDevices_notGivenBack: a guest that runs no operating system doesn't give a device back. The apply says so in
// its time, and the next start is without the device.
func TestAccDevices_notGivenBack(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	tf := acctest.NewCLI(t)
	config := tinyVM(name).with(hcl{"host": quote("kvm2"), "interfaces": `{ lan = { user = true } }`})
	tf.Config(t, acctest.On(l, "kvm2")+config.String())
	tf.Run(t, "apply")

	// What its host refuses to plug in isn't left to the next start, which would fail with it.
	raw := l.Image(t, "kvm2", name+".raw", "raw", 1<<20)
	for device, refused := range map[string]hcl{
		"disks.other":    {"disks": fmt.Sprintf(`{ other = { file = %q, format = "qcow2" } }`, raw)},
		"disks.own":      {"disks": `{ own = { pool = "default", size = "1Mi", queues = 100000 } }`},
		"interfaces.own": {"interfaces": `{ lan = { user = true }, own = { bridge = "lo" } }`},
	} {
		tf.Config(t, acctest.On(l, "kvm2")+config.with(refused).String())
		expect(t, tf.Fail(t, "apply"), "Error: Unable to update virtual machine",
			"Changing "+device+" of the running VM")
		xml := l.Virsh(t, "kvm2", "dumpxml", "--inactive", name)
		if strings.Contains(xml, "ua-net-own") || strings.Contains(xml, raw) || strings.Contains(xml, name+"-own") {
			t.Errorf("the next start has %s, or a record of it:\n%s", device, xml)
		}
		if has := l.Virsh(t, "kvm2", "vol-list", "default"); strings.Contains(has, name+"-own") {
			t.Errorf("%s is refused, and its volume stays:\n%s", device, has)
		}
		if action := tf.Actions(t)[address]; action != "update" {
			t.Errorf("%s is refused, and the plan does %q", device, action)
		}
	}
	tf.Config(t, acctest.On(l, "kvm2")+config.String())
	noChanges(t, tf)
	tf.Config(t, acctest.On(l, "kvm2")+config.with(hcl{"interfaces": `{}`}).String())
	expect(t, tf.Fail(t, "apply"), "Error: Unable to update virtual machine",
		"Changing interfaces.lan of the running VM", "hasn't released the device", "Host: kvm2",
		"Wait until it does", "Then apply again.")
	if action := tf.Actions(t)[address]; action != "update" {
		t.Errorf("the plan does %q", action)
	}

	// It is pending until a restart: it can be left to the next start, and the guest isn't asked again then.
	later := config.with(hcl{"interfaces": `{}`, "update_policy": quote("Stage")})
	tf.Config(t, acctest.On(l, "kvm2")+later.String())
	tf.Run(t, "apply")
	noChanges(t, tf)
	if state, _ := tf.State(t, address); state["restart_required"] != true {
		t.Errorf("restart_required is %v", state["restart_required"])
	}
	if err := contains(l.Virsh(t, "kvm2", "dumpxml", name), "ua-net-lan"); err != nil {
		t.Error(err)
	}
	tf.Config(t, acctest.On(l, "kvm2")+later.with(hcl{"update_policy": quote("Restart")}).String())
	expect(t, tf.Run(t, "plan", "-out=planned"), "Virtual machine will be restarted",
		"interfaces.lan: The guest hasn't released it when it was asked to. A restart removes it.")
	tf.Run(t, "apply", "planned")
	noChanges(t, tf)
	if err := lacks(t, l, "kvm2", name, "ua-net-lan", "virtfleet-run")(nil); err != nil {
		t.Error(err)
	}
	destroyed(t, l, "kvm2", name)
	tf.Run(t, "apply")
	noChanges(t, tf)
	destroyAndCheck(t, l, tf, name)
}
