package virtualmachine_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccConsoles_life: consoles on virtio in addition to a serial port whose log is kept, redirected USB devices and a
// smartcard reader, through everything that can become of them.
func TestAccConsoles_life(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	process := &started{l: l, host: "kvm1", name: name}
	file := func(what string) string { return "/var/log/libvirt/qemu/" + name + "-" + what + ".log" }
	devices := func(consoles, redirdevs, more string) hcl {
		return hcl{"devices": fmt.Sprintf(`{
    serials   = {
      main = { type = "pty", log_file = %q, log_append = true }
      pci  = { type = "null", target_type = "pci-serial" }
    }
    consoles  = { %s }
    redirdevs = { %s }
    %s
  }`, file("serial"), consoles, redirdevs, more)}
	}
	socket := func(key string) string {
		return fmt.Sprintf(`%s = { type = "unix", path = "/var/lib/libvirt/qemu/%s-%s.sock" }`, key, name, key)
	}
	a := fmt.Sprintf(`a = { type = "pty", log_file = %q }`, file("a"))
	const b = `b = { type = "null" }`
	config := vmWithKernelWords(l, name).with(talking).with(hcl{"host": quote("kvm1"), "memory": `{ size = "256Mi" }`}).
		with(devices(a, socket("usb"), ""))
	step := func(change hcl, action plancheck.ResourceActionType, check resource.TestCheckFunc) resource.TestStep {
		config = config.with(change)
		return resource.TestStep{
			Config: config.withHosts(l, change), ConfigPlanChecks: changes(action), Check: check,
		}
	}
	refused := func(change hcl, texts ...string) resource.TestStep {
		return resource.TestStep{Config: config.withHosts(l, change), ExpectError: inOrder(texts...)}
	}
	logged := func(host string) resource.TestCheckFunc {
		return func(*terraform.State) error {
			inGuest(t, l, host, name, "grep -q 0x0700 /sys/bus/pci/devices/*/class") // That of serial ports.
			for port, log := range map[string]string{"ttyS0": file("serial"), "hvc0": file("a")} {
				inGuest(t, l, host, name, "echo this is "+port+" >/dev/"+port)
				l.Run(t, host, "bash", "-c", `for i in {1..1000}; do grep "$1" "$2" && exit; sleep 0.1; done; exit 1`, "log",
					"this is "+port, log)
			}
			return nil
		}
	}
	both := resource.ComposeAggregateTestCheckFunc
	story(t, l, []string{name},
		step(nil, plancheck.ResourceActionCreate, both(process.same(t), logged("kvm1"), look(t, l, "kvm1", name,
			"<console type='pty'", "ua-console-a", "<target type='virtio' port", file("a"), file("serial"), "append='on'",
			"<redirdev bus='usb' type='unix'>", "ua-redirdev-usb", "<target type='pci-serial' port='1'"))),
		// Redirected devices and consoles come and go while the VM runs.
		step(devices(a+", "+b, socket("other"), ""), plancheck.ResourceActionUpdate, both(process.same(t),
			look(t, l, "kvm1", name, "ua-redirdev-other", "ua-console-b"),
			lacks(t, l, "kvm1", name, "ua-redirdev-usb"))),
		step(devices(a, socket("other"), ""), plancheck.ResourceActionUpdate, both(process.same(t), logged("kvm1"),
			lacks(t, l, "kvm1", name, "ua-console-b"))),
		refused(devices(a, "", `smartcard = { mode = "host" }`), "smartcard"),
		refused(devices(a, `usb = { type = "tcp", host = "10.0.0.1" }`, ""), `The type "tcp" needs one`),
		refused(devices(`a = { type = "file" }`, "", ""), `The type "file" needs one`),
		// It moves with all of them.
		step(hcl{"host": quote("kvm2")}, plancheck.ResourceActionUpdate,
			both(logged("kvm2"), look(t, l, "kvm2", name, "ua-console-a", "ua-redirdev-other"))),
		// What is changed by hand is seen and put right.
		func() resource.TestStep {
			s := step(nil, plancheck.ResourceActionUpdate, look(t, l, "kvm2", name, "ua-console-a", file("a")))
			s.PreConfig = func() {
				xml := l.Virsh(t, "kvm2", "dumpxml", "--inactive", name)
				l.Define(t, "kvm2", strings.ReplaceAll(xml, file("a"), file("c")))
			}
			return s
		}(),
		step(devices(b, "", "").with(hcl{"update_policy": quote("Restart")}), plancheck.ResourceActionUpdate,
			both(look(t, l, "kvm2", name, "ua-console-b"),
				lacks(t, l, "kvm2", name, "ua-console-a", "<redirdev"))),
		// The channel of the agent is unplugged from the running VM, and plugged in again.
		step(hcl{"guest_agent": `{ enabled = false }`, "wait_for": ""}, plancheck.ResourceActionUpdate,
			lacks(t, l, "kvm2", name, "org.qemu.guest_agent.0")),
		step(hcl{"guest_agent": `{ enabled = true }`}, plancheck.ResourceActionUpdate,
			look(t, l, "kvm2", name, "org.qemu.guest_agent.0")),
		step(hcl{"devices": `{ serials = {}, consoles = {}, redirdevs = {} }`}, plancheck.ResourceActionUpdate,
			lacks(t, l, "kvm2", name, "<serial", "<console", "<redirdev")),
	)
}

// TestAccSmartcard_defined: a reader for smartcards, of a VM that is off: QEMU starts with the host's reader only where
// there are certificates. A client lends its card by SPICE only, which this VM doesn't have.
func TestAccSmartcard_defined(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	const host = "kvm1"
	config := idleVM(l, name).with(hcl{"host": quote(host), "run_strategy": quote("Halted")})
	step := func(devices string, action plancheck.ResourceActionType, check resource.TestCheckFunc) resource.TestStep {
		config = config.with(hcl{"devices": devices})
		return resource.TestStep{
			Config: acctest.OneHost(l) + config.String(), ConfigPlanChecks: changes(action), Check: check,
		}
	}
	refused := func(devices string, texts ...string) resource.TestStep {
		return resource.TestStep{
			Config: acctest.OneHost(l) + config.with(hcl{"devices": devices}).String(), ExpectError: inOrder(texts...),
		}
	}
	const withSPICE = "qemu-system-modules-spice"
	byHand := step(`{ smartcard = { mode = "host" } }`, plancheck.ResourceActionUpdate,
		look(t, l, host, name, "<smartcard mode='host'"))
	byHand.PreConfig = func() {
		xml := l.Virsh(t, host, "dumpxml", "--inactive", name)
		begin, end := strings.Index(xml, "<smartcard"), strings.Index(xml, "</smartcard>")
		l.Define(t, host, xml[:begin]+xml[end+len("</smartcard>"):])
	}
	story(t, l, []string{name},
		step(`{ smartcard = { mode = "host" } }`, plancheck.ResourceActionCreate,
			look(t, l, host, name, "<smartcard mode='host'", "type='ccid'")),
		byHand,
		refused(`{ smartcard = { mode = "host", type = "spicevmc" } }`, `Only the mode "passthrough" has one`),
		refused(`{ smartcard = { mode = "passthrough" } }`, "because of devices.smartcard.mode",
			"refuses this definition", "spice", withSPICE),
		refused(`{ redirdevs = { usb = { type = "spicevmc" } } }`, "because of devices.redirdevs.usb.type",
			"refuses this definition", "spice", withSPICE),
		step(`{ smartcard = { mode = "none" } }`, plancheck.ResourceActionUpdate,
			lacks(t, l, host, name, "<smartcard")),
	)
}
