package virtualmachine_test

import (
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccSmartcard_life: a running VM listens for a card by TCP, then on a socket, to which programs of the host
// connect. Drift is repaired. With certificates of its host, which the lab lacks to start it, the VM is off, and it
// goes back to a card that a client lends.
func TestAccSmartcard_life(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	const host = "kvm1"
	socket := "/var/lib/libvirt/qemu/" + name + ".sock"
	tf := acctest.NewCLI(t)
	config := tinyVM(name).with(hcl{"host": quote(host), "update_policy": quote("Restart")})
	write := func(smartcard string, change hcl) {
		t.Helper()
		config = config.with(change)
		tf.Config(t, acctest.OneHost(l)+config.with(hcl{
			"devices": `{ graphics = { type = "spice" }, smartcard = { ` + smartcard + " } }",
		}).String())
	}
	apply := func(smartcard string, change hcl, parts ...string) {
		t.Helper()
		write(smartcard, change)
		tf.Run(t, "apply")
		noChanges(t, tf)
		xml := l.Virsh(t, host, "dumpxml", "--inactive", name)
		for _, part := range parts {
			if !strings.Contains(xml, part) {
				t.Errorf("%s isn't in:\n%s", part, xml)
			}
		}
	}
	const tcp = `type = "tcp", host = "127.0.0.1", service = "4581"`
	apply(tcp, nil, "type='tcp'", "<source mode='bind' host='127.0.0.1' service='4581'")
	l.Run(t, host, "bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/4581")
	l.Define(t, host, strings.Replace(l.Virsh(t, host, "dumpxml", "--inactive", name), "4581", "4582", 1))
	expectDiffers(t, tf.Plan(t)[address], []edit{{seen: "devices.smartcard.service"}})
	apply(tcp, nil, "service='4581'")
	apply(`type = "unix", path = "`+socket+`"`, nil, "<source mode='bind' path='"+socket+"'")
	l.Run(t, host, "test", "-S", socket)
	write(`mode = "host-certificates", certificates = ["a"]`, nil)
	expect(t, tf.Fail(t, "validate"), "It isn't a list of three names")
	apply(`mode = "host-certificates", certificates = ["a", "b", "c"], database = "/etc/pki/nssdb"`,
		hcl{"run_strategy": quote("Halted")}, "<smartcard mode='host-certificates'>", "<certificate>c</certificate>",
		"<database>/etc/pki/nssdb</database>")
	apply(`mode = "passthrough"`, nil, "<smartcard mode='passthrough' type='spicevmc'")
	apply(`mode = "none"`, nil)
	if xml := l.Virsh(t, host, "dumpxml", name); strings.Contains(xml, "<smartcard") {
		t.Error(xml)
	}
	destroyAndCheck(t, l, tf, name)
}
