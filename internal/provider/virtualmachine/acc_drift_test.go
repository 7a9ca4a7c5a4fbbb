package virtualmachine_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/tfjsonpath"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
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
		ExpectError: regexp.MustCompile(`Change needs a restart`),
	}, resource.TestStep{
		Config:           acctest.OneHost(l) + vm.with(hcl{"update_policy": quote("Restart")}).String(),
		ConfigPlanChecks: changes(plancheck.ResourceActionUpdate, differs{"cpu.vcpus"}),
		Check:            look(t, l, "kvm1", name, "<vcpu placement='static' current='1'>2</vcpu>"),
	})...)
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
			before, _ := tfjsonpath.Traverse(r.Change.Before, path(attribute))
			after, _ := tfjsonpath.Traverse(r.Change.After, path(attribute))
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
	said, err := l.TryVirsh(t, "kvm1", args...)
	for strings.Contains(l.Virsh(t, "kvm1", "dumpxml", name), device) {
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
