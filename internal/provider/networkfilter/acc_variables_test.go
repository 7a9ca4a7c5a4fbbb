package networkfilter_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccNetworkFilter_variables: a filter can't get a variable for which an interface of a running VM has no value,
// also if the filter is only a part of the one that the interface names. libvirt would refuse it on that host only. Of
// a VM that is off the plan warns: libvirt doesn't start it.
func TestAccNetworkFilter_variables(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	c := acctest.NewCLI(t)
	config := func(port string) {
		c.Config(t, acctest.OneHost(l)+fmt.Sprintf(`
resource "virtfleet_network_filter" "part" {
  name  = "%[1]s-part"
  rules = [{ action = "accept", direction = "in", protocol = "tcp", match = {
    srcipaddr = "$IP", srcmacaddr = "$MAC", dstportstart = %[2]q } }]
}
resource "virtfleet_network_filter" "whole" {
  name       = "%[1]s-whole"
  references = [virtfleet_network_filter.part.name]
}`, name, port))
	}
	guest := func(vm, parameters string) string {
		return fmt.Sprintf(`<domain type='qemu'><name>%s</name><memory unit='MiB'>16</memory><os><type>hvm</type></os>
			<devices><interface type='bridge'><source bridge='%s'/><filterref filter='%s-whole'>
			<parameter name='IP' value='192.0.2.1'/>%s</filterref></interface></devices></domain>`, vm, lab.LANBridge, name,
			parameters)
	}
	has := func(port string) {
		t.Helper()
		if xml := l.Virsh(t, "kvm1", "nwfilter-dumpxml", name+"-part"); !strings.Contains(xml, "dstportstart='"+port+"'") {
			t.Errorf("want %s in %s", port, xml)
		}
	}
	config("22")
	c.Run(t, "apply")
	l.Define(t, "kvm1", guest(name, ""))
	l.Virsh(t, "kvm1", "start", "--paused", name)
	file := "/run/" + name + ".xml"
	if _, err := l.Host("kvm1").Run(t.Context(), "sh", "-ec", fmt.Sprintf(`virsh nwfilter-dumpxml %s-part |
		sed "s/'22'/'\$PORTS'/" >%s; virsh nwfilter-define %[2]s`, name, file)); err == nil {
		t.Error("libvirt accepts it, so the error is wrong")
	}
	has("22")
	l.Run(t, "kvm1", "rm", file)
	config("$PORTS[@1]")
	out := c.Fail(t, "plan")
	if !strings.Contains(out, "Unable to update network filter") || !strings.Contains(out, name+" (host kvm1): $PORTS") {
		t.Error(out)
	}
	l.Virsh(t, "kvm1", "destroy", name)
	out = c.Run(t, "apply")
	if !strings.Contains(out, "Network filter lacks values") || !strings.Contains(out, name+" (host kvm1): $PORTS") {
		t.Error(out)
	}
	has("$PORTS[@1]")
	if out, err := l.TryVirsh(t, "kvm1", "start", "--paused", name); err == nil {
		t.Errorf("libvirt starts the VM, so the warning is wrong: %s", out)
	}
	l.Virsh(t, "kvm1", "undefine", name)
	l.Define(t, "kvm1", guest(name, "<parameter name='PORTS' value='22'/>"))
	l.Virsh(t, "kvm1", "start", "--paused", name)
	config("$PORTS")
	if out := c.Run(t, "apply"); strings.Contains(out, "lacks values") {
		t.Error(out)
	}
	has("$PORTS")
	if out, empty := c.Empty(t); !empty {
		t.Error(out)
	}
	l.Virsh(t, "kvm1", "destroy", name)
	l.Virsh(t, "kvm1", "undefine", name)
	c.Run(t, "destroy")
	if all := l.Virsh(t, "kvm1", "nwfilter-list"); strings.Contains(all, name) {
		t.Errorf("left: %s", all)
	}
}
