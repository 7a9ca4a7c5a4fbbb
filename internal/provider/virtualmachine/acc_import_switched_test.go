package virtualmachine_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/virtualmachine"
)

// switched is a VM of another tool with ports of Open vSwitch: on the bridge itself with an id and a profile, as a
// trunk with a native VLAN, with a limit and as what stays of a team, and by a network, of which one has a port group.
const switched = `<domain type="qemu"><name>%[1]s</name><memory unit="MiB">64</memory>
  <os><type arch="x86_64" machine="q35">hvm</type></os><devices>
    <interface type="bridge"><source bridge="%[2]s"/><virtualport type="openvswitch">
      <parameters interfaceid="ad6e4a1e-4a66-4c5a-b5a4-3f1c0c1d2e77" profileid="web"/></virtualport>
      <model type="virtio"/></interface>
    <interface type="bridge"><source bridge="%[2]s"/><virtualport type="openvswitch"/>
      <vlan trunk="yes"><tag id="61" nativeMode="untagged"/><tag id="62"/></vlan><model type="e1000e"/></interface>
    <interface type="bridge"><mac address="52:54:00:ad:00:77"/><source bridge="%[2]s"/>
      <virtualport type="openvswitch"/><vlan><tag id="63"/></vlan><model type="virtio"/>
      <bandwidth><inbound average="1000" peak="2000" burst="512"/></bandwidth><teaming type="persistent"/>
      <alias name="ua-team"/></interface>
    <interface type="network"><source network="%[3]s" portgroup="ops"/><model type="virtio"/></interface>
    <interface type="network"><source network="%[3]s"/><vlan><tag id="64"/></vlan><model type="virtio"/></interface>
  </devices></domain>`

// importsSwitched imports a running VM that another tool has connected to Open vSwitch, with the configuration that
// Terraform writes for it. That changes nothing, now or later, neither in the definitions nor in the switch.
func (c *connected) importsSwitched(t *testing.T) {
	t.Helper()
	name := c.name + "-switched"
	c.l.RemoveDomain(t, name)
	c.l.Define(t, interfaceHost, fmt.Sprintf(switched, name, vswitch, c.name))
	c.l.Virsh(t, interfaceHost, "start", name)
	is := func() string {
		return c.l.Virsh(t, interfaceHost, "dumpxml", "--security-info", name) +
			c.l.Virsh(t, interfaceHost, "dumpxml", "--security-info", "--inactive", name) +
			c.l.Run(t, interfaceHost, "ovs-vsctl", "--columns=name,tag,trunks,vlan_mode", "list", "port")
	}
	before := is()
	tf := acctest.NewCLI(t)
	tf.Config(t, acctest.OneHost(c.l)+
		fmt.Sprintf("import {\n  to = %s.switched\n  id = %q\n}\n", virtualmachine.TypeName, name))
	for at, action := range tf.Actions(t, "-generate-config-out="+filepath.Join(tf.Dir, "generated.tf")) {
		if action != "no-op" {
			t.Errorf("%s: %s", at, action)
		}
	}
	tf.Run(t, "apply")
	noChanges(t, tf)
	if after := is(); after != before {
		t.Errorf("it was changed:\n%s\nwas\n%s", after, before)
	}
	c.l.Virsh(t, interfaceHost, "destroy", name)
	destroyAndCheck(t, c.l, tf, name)
}
