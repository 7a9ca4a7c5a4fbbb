package virtualmachine_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/tfjsonpath"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/virtualmachine"
)

// TestAccVirtualMachine_drift: whatever a user changes with virsh, in what runs or for the next start, is seen and
// repaired.
func TestAccVirtualMachine_drift(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	const mac = "52:54:00:0a:0b:0c"
	data := l.Image(t, "kvm1", name+"-data.raw", "raw", 1<<20)
	vm := guest(l, name).with(hcl{
		"host": quote("kvm1"), "cpu": `{ vcpus = 1, max_sockets = 2 }`, "memory": `{ size = "256Mi" }`,
		"labels":      `{ app = "web" }`,
		"disks":       fmt.Sprintf(`{ cd = { device = "cdrom", bus = "sata" }, data = { volume = %q } }`, data),
		"interfaces":  fmt.Sprintf(`{ lan = { network = "default", mac = %q, link_up = true } }`, mac),
		"guest_agent": `{ enabled = true }`, "wait_for": `{ guest_agent = true, timeout = "5m" }`,
	})
	config := acctest.OneHost(l) + vm.String()
	virsh := func(args ...string) func() { return func() { l.Virsh(t, "kvm1", args...) } }
	shrunk := func(which ...string) func() {
		return func() {
			l.Virsh(t, "kvm1", append([]string{"setmem", name, "200M"}, which...)...)
			lab.Await(t, "the guest to give memory back", func() bool { // libvirt only asks it to.
				return strings.Contains(l.Virsh(t, "kvm1", "dumpxml", name), "<currentMemory unit='KiB'>204800<")
			})
		}
	}
	nic := writeDeviceXML(t, `<interface type="user"><mac address="52:54:00:0f:0f:0f"/><model type="virtio"/></interface>`)
	disk := writeDeviceXML(t, fmt.Sprintf(`
		<disk type="file" device="disk"><driver name="qemu" type="raw"/><source file=%q/>`+
		`<target dev="vdz" bus="virtio"/></disk>`, l.Image(t, "kvm1", name+".raw", "raw", 1<<20)))
	all := []resource.TestStep{{Config: config, ConfigPlanChecks: changes(plancheck.ResourceActionCreate)}}
	// What differs at one time is told apart by its attribute.
	for _, drift := range []struct {
		causes []func()
		seen   []string
	}{
		{
			[]func(){
				shrunk("--live"), virsh("attach-device", name, nic, "--config"),
				virsh("change-media", name, "sda", "/var/lib/libvirt/images/"+name+".raw", "--insert", "--live"),
			},
			[]string{"memory.size", "interfaces", "disks.cd.file"},
		},
		{
			[]func(){
				virsh("setmem", name, "200M", "--config"), virsh("setvcpus", name, "2", "--config"),
				virsh("attach-device", name, nic, "--live"),
				virsh("attach-device", name, disk, "--live", "--config"),
			},
			[]string{"memory.size", "cpu.vcpus", "interfaces", "disks"},
		},
		{
			[]func(){
				shrunk("--live", "--config"), virsh("domif-setlink", name, mac, "down"),
				virsh("metadata", name, "urn:virtfleet:1", "--remove", "--live", "--config"),
			},
			[]string{"memory.size", "interfaces.lan.link_up", "labels"},
		},
		{
			[]func(){
				func() { unplugDevice(t, l, name, mac, "detach-interface", name, "network", "--mac", mac, "--live") },
				virsh("detach-disk", name, data, "--config"),
			},
			[]string{"interfaces.lan", "disks.data"},
		},
		{
			[]func(){
				func() { unplugDevice(t, l, name, data, "detach-disk", name, data, "--live") },
				virsh("detach-interface", name, "network", "--mac", mac, "--config"),
			},
			[]string{"interfaces.lan", "disks.data"},
		},
		{[]func(){virsh("destroy", name)}, []string{"status"}},
		{[]func(){virsh("suspend", name)}, []string{"status"}},
	} {
		all = append(all, resource.TestStep{
			PreConfig: func() {
				for _, cause := range drift.causes {
					cause()
				}
			},
			Config:           config,
			ConfigPlanChecks: changes(plancheck.ResourceActionUpdate, differs(drift.seen)),
		})
	}
	story(t, l, []string{name}, append(all, resource.TestStep{
		// No guest can be relied on to give a CPU back.
		PreConfig: func() { l.Virsh(t, "kvm1", "setvcpus", name, "2", "--live") }, Config: config,
		ConfigPlanChecks: changes(plancheck.ResourceActionUpdate, differs{"cpu.vcpus"}),
	}, resource.TestStep{
		Config:           acctest.OneHost(l) + vm.with(hcl{"update_policy": quote("Restart")}).String(),
		ConfigPlanChecks: changes(plancheck.ResourceActionUpdate, differs{"restart_required"}),
		Check:            look(t, l, "kvm1", name, "<vcpu placement='static' current='1'>2</vcpu>"),
	})...)
}

// TestAccVirtualMachine_driftUntilARestart: what only a restart undoes is a change of the plan, and fails neither the
// VM's plan nor those of others. After the apply it waits for the next start.
func TestAccVirtualMachine_driftUntilARestart(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	other := name + "-other"
	for _, n := range []string{name, other} {
		l.RemoveDomain(t, n)
	}
	tf := acctest.NewCLI(t)
	vm := idleVM(l, name).with(hcl{
		"host": quote("kvm1"), "cpu": `{ vcpus = 1, max_sockets = 2 }`, "interfaces": "{}",
	})
	declare := func(change, ofOther hcl) {
		tf.Config(t, acctest.OneHost(l)+vm.with(change).String()+
			idleVM(l, other).with(hcl{"host": quote("kvm1"), "run_strategy": quote("Halted")}).with(ofOther).named("other"))
	}
	declare(nil, nil)
	tf.Run(t, "apply")
	process := &started{l: l, host: "kvm1", name: name}
	process.pid = process.read(t)

	l.Virsh(t, "kvm1", "setvcpus", name, "2", "--live")
	out, empty := tf.Empty(t)
	if empty {
		t.Error("the plan should show what was changed by hand")
	}
	expect(t, out, "Warning: Running virtual machine differs from its definition", name, `host "kvm1"`,
		"cpu.vcpus: The running VM has 2, declared is 1.")
	declare(hcl{"cpu": `{ vcpus = 1, max_sockets = 2, mode = "maximum" }`}, nil)
	expect(t, tf.Fail(t, "plan"), "Error: Change needs a restart", "cpu.mode:")

	titled := hcl{"title": quote("Web")}
	declare(nil, titled)
	changes := tf.Plan(t)
	if is, others := changes[address].Actions, changes[virtualmachine.TypeName+".other"].Actions; is != "update" ||
		others != "update" {
		t.Errorf("planned is %q, and %q for the other VM", is, others)
	}
	tf.Run(t, "apply", "planned")
	if out, empty := tf.Empty(t); !empty {
		t.Errorf("the plan should be empty:\n%s", out)
	}
	if state, _ := tf.State(t, address); state["restart_required"] != true ||
		fmt.Sprint(attributeOf(state["cpu"], "vcpus")) != "1" {
		t.Errorf("the state has restart_required = %v, cpu = %v", state["restart_required"], state["cpu"])
	}
	declare(titled, titled)
	tf.Run(t, "apply")
	if err := look(t, l, "kvm1", name, "<title>Web</title>")(nil); err != nil {
		t.Error(err)
	}
	if n := strings.TrimSpace(l.Virsh(t, "kvm1", "vcpucount", name, "--live", "--current")); n != "2" {
		t.Errorf("the running VM has %s virtual CPUs", n)
	}
	if err := process.same(t)(nil); err != nil {
		t.Error(err)
	}

	l.Virsh(t, "kvm1", "destroy", name)
	l.Virsh(t, "kvm1", "start", name)
	if out, empty := tf.Empty(t); !empty {
		t.Errorf("restarted, the VM should be as declared:\n%s", out)
	}

	// What the host has to give to the next start isn't the size, which stays as declared.
	l.Virsh(t, "kvm1", "setmaxmem", name, "96M", "--config")
	out, _ = tf.Empty(t)
	expect(t, out, "Warning: Next start takes more memory", name, "takes 96Mi", "has taken 64Mi")
	l.Virsh(t, "kvm1", "setmaxmem", name, "65536", "--config")
	if out, empty := tf.Empty(t); !empty || strings.Contains(out, "takes more memory") {
		t.Errorf("the plan should be empty:\n%s", out)
	}

	// What someone changed for the next start as well is set back there, and what the guest can take at once.
	l.Virsh(t, "kvm1", "setvcpus", name, "2", "--live", "--config")
	l.Virsh(t, "kvm1", "desc", name, "--live", "--config", "--title", "by hand")
	out = tf.Run(t, "plan", "-out", "planned")
	expect(t, out, "1 to change", "Warning: Running virtual machine differs from its definition",
		"cpu.vcpus: The running VM has 2, declared is 1.")
	process.pid = process.read(t)
	// Nor does the apply remove what the VM got after the plan.
	nic := []string{"bridge", lab.LANBridge, "--mac", "52:54:00:0d:0d:01", "--config"}
	l.Virsh(t, "kvm1", append([]string{"attach-interface", name}, nic...)...)
	expect(t, tf.Fail(t, "apply", "planned"), "Error: Unable to update virtual machine", "it has got interfaces.net0",
		"declare it")
	if err := contains(l.Virsh(t, "kvm1", "dumpxml", "--inactive", name), "52:54:00:0d:0d:01"); err != nil {
		t.Error(err)
	}
	l.Virsh(t, "kvm1", "detach-interface", name, "bridge", "--mac", "52:54:00:0d:0d:01", "--config")
	tf.Run(t, "apply")
	if out, empty := tf.Empty(t); !empty {
		t.Errorf("the plan should be empty:\n%s", out)
	}
	if state, _ := tf.State(t, address); state["restart_required"] != true ||
		fmt.Sprint(attributeOf(state["cpu"], "vcpus")) != "1" {
		t.Errorf("the state has restart_required = %v, cpu = %v", state["restart_required"], state["cpu"])
	}
	for when, want := range map[string]string{"--live": "2", "--config": "1"} {
		if n := strings.TrimSpace(l.Virsh(t, "kvm1", "vcpucount", name, when, "--current")); n != want {
			t.Errorf("%s virtual CPUs with %s", n, when)
		}
	}
	if err := look(t, l, "kvm1", name, "<title>Web</title>")(nil); err != nil {
		t.Error(err)
	}
	if err := process.same(t)(nil); err != nil {
		t.Error(err)
	}
	l.Virsh(t, "kvm1", "destroy", name)
	l.Virsh(t, "kvm1", "start", name)
	if out, empty := tf.Empty(t); !empty {
		t.Errorf("restarted, the VM should be as declared:\n%s", out)
	}
	destroyAndCheck(t, l, tf, name, other)
}

// differs expects that the plan changes these attributes: that they were read as what a user made of them.
type differs []string

func (d differs) CheckPlan(_ context.Context, req plancheck.CheckPlanRequest, resp *plancheck.CheckPlanResponse) {
	for _, r := range req.Plan.ResourceChanges {
		if r.Address != address {
			continue
		}
		for _, attribute := range d {
			// What isn't there can't be traversed, and is nil.
			before, _ := tfjsonpath.Traverse(r.Change.Before, acctest.At(attribute))
			after, _ := tfjsonpath.Traverse(r.Change.After, acctest.At(attribute))
			if reflect.DeepEqual(before, after) {
				resp.Error = errors.Join(resp.Error, fmt.Errorf("%s was read as it is declared: %v", attribute, before))
			}
		}
	}
}

// unplugDevice has virsh take a device from the running guest, which may be slow to give it up, or too busy to hear of
// it.
func unplugDevice(t *testing.T, l *lab.Lab, name, device string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	has := func() bool { // The metadata names a disk's file, too.
		_, devices, _ := strings.Cut(l.Virsh(t, "kvm1", "dumpxml", name), "<devices>")
		return strings.Contains(devices, device)
	}
	said, err := l.TryVirsh(t, "kvm1", args...)
	for has() {
		select {
		case <-tick.C:
			said, err = l.TryVirsh(t, "kvm1", args...)
		case <-ctx.Done():
			t.Fatalf("the guest doesn't give up %s: %s %v", device, said, err)
		}
	}
}

// writeDeviceXML writes a device's XML where virsh on the host can read it.
func writeDeviceXML(t *testing.T, xml string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "device.xml")
	if err := os.WriteFile(file, []byte(xml), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
