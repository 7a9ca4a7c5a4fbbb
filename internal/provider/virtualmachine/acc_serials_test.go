package virtualmachine_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccSerials_life: serial ports of a running VM are a device of the host, a server, a client that connects again
// and again, and a sender of datagrams. They move with it to a host that has the device, where the server then is.
// Another VM can't have the server's port there. The VM is imported with the configuration that Terraform writes, what
// a user changes by hand is repaired, and the ports go. A port on USB keeps the VM on its host.
func TestAccSerials_life(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	tf := acctest.NewCLI(t)
	config := tinyVM(name).with(hcl{"host": quote("kvm1"), "update_policy": quote("Restart")})
	const server = `server = { type = "tcp", mode = "bind", host = "127.0.0.1", service = "4571", protocol = "telnet" }`
	ports := func(device, kind string) string {
		return fmt.Sprintf(`{ serials = {
    line   = { type = "dev", path = %q }
    %s
    client = { type = "tcp", host = "127.0.0.1", service = "4572", reconnect = 5, target_type = %q }
    log    = { type = "udp", host = "127.0.0.1", service = "4573", bind_host = "127.0.0.1", bind_service = "4574" }
  } }`, device, server, kind)
	}
	write := func(change hcl) {
		t.Helper()
		tf.Config(t, config.withHosts(l, change))
	}
	apply := func(change hcl, host string, parts ...string) {
		t.Helper()
		write(change)
		config = config.with(change)
		tf.Run(t, "apply")
		noChanges(t, tf)
		if err := look(t, l, host, name, parts...)(nil); err != nil {
			t.Error(err)
		}
	}
	listens := func(host string) {
		t.Helper()
		l.Run(t, host, "bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/4571")
	}

	write(hcl{"devices": ports("/dev/ttyS-none", "pci-serial")})
	expect(t, tf.Fail(t, "plan"), `it has no serial device "/dev/ttyS-none"`)
	apply(hcl{"devices": ports("/dev/null", "usb-serial")}, "kvm1", "<source path='/dev/null'/>",
		"<source mode='bind' host='127.0.0.1' service='4571'", "<protocol type='telnet'/>",
		"<reconnect enabled='yes' timeout='5'/>", "<source mode='connect' host='127.0.0.1' service='4573'",
		"<source mode='bind' host='127.0.0.1' service='4574'", "<target type='usb-serial'")
	listens("kvm1")
	write(hcl{"host": quote("kvm2")})
	expect(t, tf.Fail(t, "plan"), "devices.serials.client.target_type", "serial port on USB")

	apply(hcl{"devices": ports("/dev/null", "pci-serial")}, "kvm1", "<target type='pci-serial'")
	apply(hcl{"host": quote("kvm2")}, "kvm2", "<source path='/dev/null'/>", "<target type='pci-serial'")
	listens("kvm2")
	other := tinyVM(name + "-other").with(hcl{
		"host": quote("kvm2"), "devices": `{ serials = { ` + strings.Replace(server, "127.0.0.1", "0.0.0.0", 1) + ` } }`,
	})
	tf.Config(t, acctest.On(l, "kvm2")+config.String()+other.named("other"))
	expect(t, tf.Fail(t, "plan"), "TCP port 127.0.0.1/4571")

	tf.Run(t, "state", "rm", address)
	tf.Config(t, acctest.On(l, "kvm2")+fmt.Sprintf("import {\n  to = %s\n  id = %q\n}\n", address, name))
	generated := filepath.Join(tf.Dir, "generated.tf")
	change := tf.Plan(t, "-generate-config-out="+generated)[address]
	if protocol := attributeAt(change.After, "devices.serials.server.protocol"); change.Actions != "no-op" ||
		protocol != "telnet" {
		t.Errorf("an import does %q, the server's protocol is %v", change.Actions, protocol)
	}
	tf.Run(t, "apply")
	if err := os.Remove(generated); err != nil {
		t.Fatal(err)
	}
	apply(nil, "kvm2")

	l.Define(t, "kvm2", strings.NewReplacer("service='4574'", "service='4577'", "timeout='5'", "timeout='7'").
		Replace(l.Virsh(t, "kvm2", "dumpxml", "--inactive", name)))
	expectDiffers(t, tf.Plan(t)[address], []edit{
		{seen: "devices.serials.client.reconnect"}, {seen: "devices.serials.log.bind_service"},
	})
	apply(nil, "kvm2", "service='4574'", "timeout='5'")
	apply(hcl{"devices": `{ serials = {} }`}, "kvm2")
	if err := lacks(t, l, "kvm2", name, "<serial", "<console")(nil); err != nil {
		t.Error(err)
	}
	destroyAndCheck(t, l, tf, name)
}
