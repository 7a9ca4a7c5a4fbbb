package virtualmachine_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

// TestAccExtraDevices_life: devices that are declared as XML, arguments for QEMU and ports for later, through
// everything that can become of them.
func TestAccExtraDevices_life(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	const host = "kvm1"
	process := &started{l: l, host: host, name: name}
	shmem := func(memory, size, unit string) string {
		return fmt.Sprintf(`{
    hub    = "<hub type='usb'/>"
    shared = <<-XML
      <!-- Shared with another VM. -->
      <shmem name="%s">
        <size unit="%s">%s</size>
        <model type="ivshmem-plain"/>
      </shmem>
      XML
  }`, memory, unit, size)
	}
	config := hcl{
		"name": quote(name), "type": quote("qemu"), "memory": `{ size = "64Mi" }`, "host": quote(host),
		"termination_grace_period": quote("0s"), // It has nothing to boot that could shut down.
		"extra_device_xml":         shmem(name, "4096", "KiB"),
		"qemu_commandline":         `{ args = ["-fw_cfg", "name=opt/org.example,string=a & b"], env = { LAB = "x=y <z>" } }`,
		"platform":                 `{ hotplug_ports = 3 }`,
	}
	step := func(change hcl, action plancheck.ResourceActionType, check resource.TestCheckFunc,
		know ...statecheck.StateCheck,
	) resource.TestStep {
		config = config.with(change)
		return resource.TestStep{
			Config: config.withHosts(l, change), ConfigPlanChecks: changes(action), Check: check,
			ConfigStateChecks: know,
		}
	}
	byHand := func(s resource.TestStep, old, changed string) resource.TestStep {
		s.PreConfig = func() {
			xml := l.Virsh(t, host, "dumpxml", "--inactive", name)
			if !strings.Contains(xml, old) {
				t.Errorf("%q isn't in:\n%s", old, xml)
			}
			l.Define(t, host, strings.ReplaceAll(xml, old, changed))
		}
		return s
	}
	refused := func(change hcl, texts ...string) resource.TestStep {
		return resource.TestStep{Config: config.withHosts(l, change), ExpectError: inOrder(texts...)}
	}
	both := resource.ComposeAggregateTestCheckFunc
	size := func(mebibytes string) string { return "<size unit='M'>" + mebibytes + "</size>" }
	story(t, l, []string{name},
		step(nil, plancheck.ResourceActionCreate, both(process.same(t), look(t, l, host, name, "ua-extra-shared", size("4"),
			"<hub type='usb'>", "ua-extra-hub", "<qemu:arg value='-fw_cfg'/>", "string=a &amp; b",
			"<qemu:env name='LAB' value='x=y &lt;z&gt;'/>", "ua-port-1", "ua-port-2", "ua-port-3"),
			lacks(t, l, host, name, "ua-port-4"))),
		// Another notation is no change.
		step(hcl{"extra_device_xml": shmem(name, "4", "MiB")}, plancheck.ResourceActionNoop, process.same(t)),
		refused(hcl{"host": quote("kvm2")}, "extra_device_xml.shared:", "shares memory"),
		// A running VM can't take it.
		refused(hcl{"extra_device_xml": shmem(name, "8", "M")}, "Change needs a restart", "extra_device_xml.shared"),
		refused(hcl{"qemu_commandline": `{ args = [] }`}, "Change needs a restart", "qemu_commandline.args"),
		refused(hcl{"platform": `{ hotplug_ports = 5 }`}, "Change needs a restart", "platform.hotplug_ports"),
		refused(hcl{"extra_device_xml": `{ a = "<shmem name='x'>" }`}, "Invalid virtual machine", "one element"),
		refused(hcl{"extra_device_xml": `{ a = "<watchdog model='i6300esb'/>" }`}, "devices.watchdog"),
		refused(hcl{
			"extra_device_xml": `{ a = "<shmem name='x'><model type='bad'/></shmem>" }`, "update_policy": quote("Restart"),
		}, "refuses this definition", "bad"),
		// What is changed by hand for the next start is seen and put right.
		byHand(step(nil, plancheck.ResourceActionUpdate, both(process.same(t), look(t, l, host, name, size("4")))),
			size("4"), size("16")),
		byHand(step(nil, plancheck.ResourceActionUpdate, both(process.same(t),
			look(t, l, host, name, "value='-fw_cfg'", "ua-port-3"))),
			"<qemu:arg value='-fw_cfg'/>", "<qemu:arg value='-name'/>"),
		// Left to the next start.
		step(hcl{"extra_device_xml": shmem(name+"-b", "8", "M"), "update_policy": quote("Stage")},
			plancheck.ResourceActionUpdate, process.same(t), know("restart_required", knownvalue.Bool(true))),
		step(nil, plancheck.ResourceActionNoop, process.same(t)),
		// With a restart.
		step(hcl{
			"update_policy": quote("Restart"), "qemu_commandline": `{ args = ["-fw_cfg", "name=opt/b,string=2"], env = {} }`,
			"platform": `{ hotplug_ports = 5 }`,
		}, plancheck.ResourceActionUpdate, both(process.restarted(t),
			look(t, l, host, name, size("8"), "opt/b", "ua-port-5"), lacks(t, l, host, name, "qemu:env")),
			know("restart_required", knownvalue.Bool(false))),
		// A device that is plugged in keeps its port.
		step(hcl{"interfaces": `{ more = { user = true } }`}, plancheck.ResourceActionUpdate, process.same(t)),
		step(nil, plancheck.ResourceActionNoop, process.same(t)),
		// What libvirt's schema refuses is said when it is defined.
		refused(hcl{"extra_device_xml": `{ hub = "<hub type='usb' color='red'/>" }`}, "schema", "extra_device_xml (hub)"),
		step(hcl{
			"extra_device_xml": "", "qemu_commandline": `{ args = [], env = {} }`, "platform": `{ hotplug_ports = 0 }`,
			"interfaces": `{}`,
		}, plancheck.ResourceActionUpdate, lacks(t, l, host, name, "<shmem", "<hub", "qemu:", "ua-port", "ua-extra")),
	)
	l.Run(t, host, "/bin/sh", "-c", "rm /dev/shm/"+name+"*") // QEMU leaves it there.
}
