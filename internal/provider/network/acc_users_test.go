package network_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccNetwork_usersOfBridge: a VM on the bridge that libvirt creates for a network uses the network, and so does a
// transient VM in a network on a host's bridge. A VM on that bridge itself doesn't. What a restart cuts off is named,
// also if it fails.
func TestAccNetwork_usersOfBridge(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	own, plain, taken := "vb"+name[len(name)-6:], "vh"+name[len(name)-6:], "vk"+name[len(name)-6:]
	outside, transient := name+"-outside", name+"-transient"
	for _, link := range []string{plain, taken} {
		l.Run(t, "kvm1", "ip", "link", "add", link, "type", "bridge")
		t.Cleanup(func() {
			if _, err := l.Host("kvm1").Run(context.WithoutCancel(t.Context()), "ip", "link", "del", link); err != nil {
				t.Error(err)
			}
		})
	}
	c := acctest.NewCLI(t)
	bridge := own
	config := func(says string) {
		t.Helper()
		c.Config(t, acctest.OneHost(l)+fmt.Sprintf(`
resource "virtfleet_network" "this" {
  name   = %q
  bridge = %q
  %s
}
resource "virtfleet_network" "host" {
  name    = "%[1]s-host"
  bridge  = %[4]q
  forward = { mode = "bridge" }
}`, name, bridge, says, plain))
	}
	guest := func(name, kind, source string) string {
		return fmt.Sprintf(`<domain type='qemu'><name>%s</name><memory unit='MiB'>16</memory><os><type>hvm</type></os>
			<devices><interface type='%s'><source %s/></interface></devices></domain>`, name, kind, source)
	}
	expect := func(out string, words ...string) {
		t.Helper()
		for _, word := range words {
			if !strings.Contains(out, word) {
				t.Errorf("%q isn't in %s", word, out)
			}
		}
	}
	config("")
	c.Run(t, "apply")
	l.Define(t, "kvm1", guest(name, "bridge", "bridge='"+own+"'"), guest(outside, "bridge", "bridge='"+plain+"'"))
	l.Virsh(t, "kvm1", "start", "--paused", name)
	config("mtu = 1400")
	expect(c.Fail(t, "plan"), "Network would be interrupted", "Running virtual machines that use it there: "+name)
	const cutOff = "cut off until they are shut down"
	// A restart that fails names the VMs that the old definition, which is started again, doesn't connect.
	bridge = taken
	config("update_policy = \"Restart\"")
	expect(c.Fail(t, "apply", "-target=virtfleet_network.this"), "The network runs again with its old definition",
		"These virtual machines ran in it when it was stopped, and are "+cutOff, "while it is active: "+name+".")
	l.Virsh(t, "kvm1", "destroy", name)
	l.Virsh(t, "kvm1", "start", "--paused", name)
	bridge = own
	config("")
	// libvirt starts a network without the VMs that ran when it was stopped by hand.
	bridged := func() string {
		return l.Run(t, "kvm1", "sh", "-c", "ls /sys/class/net/"+own+"/brif")
	}
	if strings.TrimSpace(bridged()) == "" {
		t.Error("the running VM isn't connected")
	}
	l.Virsh(t, "kvm1", "net-destroy", name)
	out := c.Run(t, "plan")
	expect(out, "Network is interrupted", "is started on host kvm1", cutOff, name)
	out = c.Run(t, "apply", "-target=virtfleet_network.this")
	expect(out, "Network is interrupted", "is started on host kvm1", cutOff, name)
	if strings.TrimSpace(bridged()) != "" {
		t.Error("libvirt has connected the VM again, so the warning is wrong")
	}
	if out, empty := c.Empty(t); !empty {
		t.Error(out)
	}
	expect(c.Fail(t, "destroy", "-target=virtfleet_network.this"), "Network is in use: "+name,
		"definitions of these virtual machines use it or its bridge: "+name)
	l.Virsh(t, "kvm1", "destroy", name)
	expect(c.Fail(t, "destroy", "-target=virtfleet_network.this"), "definitions of these virtual machines")
	l.Virsh(t, "kvm1", "undefine", name)

	file := "/run/" + transient + ".xml"
	l.RemoveDomain(t, transient)
	l.Run(t, "kvm1", "sh", "-ec", fmt.Sprintf(`echo "%s" >%s; virsh create --paused %[2]s; rm %[2]s`,
		guest(transient, "network", "network='"+name+"-host'"), file))
	expect(l.Virsh(t, "kvm1", "dumpxml", transient), "<interface type='bridge'>")
	out = c.Fail(t, "destroy", "-target=virtfleet_network.host")
	if expect(out, "Network is in use: "+name+"-host", transient); strings.Contains(out, outside) {
		t.Errorf("%s uses it: %s", outside, out)
	}
	l.Virsh(t, "kvm1", "destroy", transient)
	c.Run(t, "apply")
	if out, empty := c.Empty(t); !empty {
		t.Error(out)
	}
	destroyAndCheck(t, l, c, name)
	if all := l.Virsh(t, "kvm2", "net-list", "--all", "--name"); strings.Contains(all, name) {
		t.Errorf("left: %s", all)
	}
}

// TestAccNetwork_usersOfPortGroup: a plan warns of VMs whose interfaces have a port group that is removed: libvirt
// starts them without its settings. It doesn't warn of others, nor of a port group that changes. One warning names the
// VMs of all hosts, because Terraform shows only one of those with the same title. So does that of a restart.
func TestAccNetwork_usersOfPortGroup(t *testing.T) {
	t.Parallel()
	const title = "Port group is in use"
	l := lab.Open(t)
	name := lab.Name(t)
	c := acctest.NewCLI(t)
	hosts, more := []string{"kvm1", "kvm2"}, ""
	config := func(groups string) {
		t.Helper()
		c.Config(t, acctest.Config(l)+fmt.Sprintf("resource \"virtfleet_network\" \"this\" {\n  name = %q\n  "+
			"port_groups = { %s }\n  hosts = [\"kvm1\", \"kvm2\"]\n%s}\n", name, groups, more))
	}
	const gold = "gold = { bandwidth = { inbound = { average = %d } } }"
	config(fmt.Sprintf(gold, 1000) + ", spare = { bandwidth = { inbound = { average = 9 } } }")
	c.Run(t, "apply")
	for _, host := range hosts {
		l.Define(t, host, fmt.Sprintf(`<domain type='qemu'><name>%[1]s-%[2]s</name><memory unit='MiB'>16</memory>
			<os><type>hvm</type></os><devices><interface type='network'><source network='%[1]s' portgroup='gold'/></interface>
			</devices></domain>`, name, host))
	}
	config(fmt.Sprintf(gold, 2000))
	if out := c.Run(t, "apply"); strings.Contains(out, title) {
		t.Errorf("a port group that nothing uses: %s", out)
	}
	config("")
	out := c.Run(t, "apply")
	for _, host := range hosts {
		if !strings.Contains(out, title) || !strings.Contains(out, fmt.Sprintf("On host %s the port group \"gold\" of "+
			"network %q is used by virtual machine %[2]s-%[1]s.", host, name)) {
			t.Error(out)
		}
		for _, flags := range [][]string{nil, {"--inactive"}} {
			xml := l.Virsh(t, host, append([]string{"net-dumpxml", name}, flags...)...)
			if strings.Contains(xml, "<portgroup") {
				t.Error(xml)
			}
		}
		l.Virsh(t, host, "start", "--paused", name+"-"+host)
	}
	if out, empty := c.Empty(t); !empty {
		t.Error(out)
	}
	more = "mtu = 1400\nupdate_policy = \"Restart\"\n"
	config("")
	out = c.Run(t, "plan")
	for _, host := range hosts {
		want := "on host " + host + ". Running virtual machines that use it there: " + name + "-" + host
		if !strings.Contains(out, want) {
			t.Errorf("%q isn't in %s", want, out)
		}
		l.Virsh(t, host, "destroy", name+"-"+host)
		l.Virsh(t, host, "undefine", name+"-"+host)
	}
	c.Run(t, "destroy")
	if left := l.Virsh(t, "kvm1", "net-list", "--all", "--name"); strings.Contains(left, name) {
		t.Errorf("left: %s", left)
	}
}

// TestAccNetwork_destroyedTogether: while a VM of one host uses the network, a destroy removes it from no host.
func TestAccNetwork_destroyedTogether(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	bridge := "vf" + name[len(name)-6:]
	c := acctest.NewCLI(t)
	c.Config(t, acctest.Config(l)+fmt.Sprintf("resource \"virtfleet_network\" \"this\" {\n  name = %q\n  bridge = %q\n}\n",
		name, bridge))
	c.Run(t, "apply")
	l.Define(t, "kvm1", fmt.Sprintf(`<domain type='qemu'><name>%s</name><memory unit='MiB'>16</memory>
		<os><type>hvm</type></os><devices><interface type='bridge'><source bridge='%s'/></interface></devices></domain>`,
		name, bridge))
	out := c.Fail(t, "destroy")
	for _, want := range []string{"Host: kvm1", "It stays on kvm2 as well, because it can't be removed from this host"} {
		if !strings.Contains(out, want) {
			t.Errorf("the destroy doesn't say %q: %s", want, out)
		}
	}
	if out, empty := c.Empty(t); !empty {
		t.Errorf("a host has lost the network: %s", out)
	}
	l.Virsh(t, "kvm1", "undefine", name)
	destroyAndCheck(t, l, c, name)
	if all := l.Virsh(t, "kvm2", "net-list", "--all", "--name"); strings.Contains(all, name) {
		t.Errorf("left: %s", all)
	}
}
