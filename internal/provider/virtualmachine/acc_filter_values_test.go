package virtualmachine_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccInterface_filterOfSeveralAddresses: a VM whose filter was given two addresses by virsh is imported without a
// change, keeps both when another variable changes, and gets a third one.
func TestAccInterface_filterOfSeveralAddresses(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	const host = "kvm1"
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	tf := acctest.NewCLI(t)
	l.Define(t, host, fmt.Sprintf(`<domain type='qemu'><name>%s</name><memory unit='MiB'>64</memory>
  <os><type arch='x86_64' machine='q35'>hvm</type></os><devices><interface type='network'>
    <mac address='52:54:00:ad:00:11'/><source network='default'/><model type='virtio'/>
    <filterref filter='clean-traffic'><parameter name='CTRL_IP_LEARNING' value='none'/>
      <parameter name='IP' value='192.0.2.2'/><parameter name='IP' value='192.0.2.1'/></filterref>
  </interface></devices></domain>`, name))
	config := func(parameters string) {
		tf.Config(t, acctest.OneHost(l)+tinyVM(name).with(hcl{
			"host": quote(host), "run_strategy": quote("Halted"),
			"interfaces": `{ net0 = {
    network = "default", mac = "52:54:00:ad:00:11", model = "virtio"
    filter  = { name = "clean-traffic", parameters = ` + parameters + ` }
  } }`,
		}).String())
	}
	has := func(want string) {
		t.Helper()
		var values []string
		for line := range strings.Lines(l.Virsh(t, host, "dumpxml", "--inactive", name)) {
			if _, parameter, ok := strings.Cut(line, "<parameter name='"); ok {
				values = append(values, strings.NewReplacer("' value='", "=", "'/>", "").Replace(strings.TrimSpace(parameter)))
			}
		}
		if got := strings.Join(values, " "); got != want {
			t.Errorf("the filter's parameters are %s; want %s", got, want)
		}
	}
	config(`{ CTRL_IP_LEARNING = "none", IP = "192.0.2.2,192.0.2.1" }`)
	tf.Run(t, "import", address, name)
	tf.Run(t, "apply") // It records what only the provider knows, such as termination_grace_period.
	has("CTRL_IP_LEARNING=none IP=192.0.2.2 IP=192.0.2.1")
	noChanges(t, tf)
	apply := func(parameters, want string) {
		t.Helper()
		config(parameters)
		tf.Run(t, "apply")
		has(want)
		noChanges(t, tf)
	}
	apply(`{ CTRL_IP_LEARNING = "dhcp", IP = "192.0.2.2,192.0.2.1" }`,
		"CTRL_IP_LEARNING=dhcp IP=192.0.2.2 IP=192.0.2.1")
	apply(`{ CTRL_IP_LEARNING = "none", IP = "192.0.2.2,192.0.2.1,192.0.2.3" }`,
		"CTRL_IP_LEARNING=none IP=192.0.2.2 IP=192.0.2.1 IP=192.0.2.3")
	destroyAndCheck(t, l, tf, name)
}
