package virtualmachine_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccVirtualMachine_goneNetwork: the plan of a start, of a restart and of a move misses what the VM's interfaces
// are connected to, if that was removed from the host by hand: a bridge, a device, a network, the bridge of a network,
// a filter, a port group. It also says that libvirt can't give the VLAN of a port group. A VM that stays off isn't
// looked at, nor is an interface that is removed. What a network of the same configuration is changed to counts.
func TestAccVirtualMachine_goneNetwork(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	tf := acctest.NewCLI(t)
	id := name[len(name)-6:]
	bridge, device, of, spare := "vq"+id, "vr"+id, "vs"+id, "vt"+id
	links := fmt.Sprintf("for link in %s %s %s %s; do", bridge, device, of, spare)
	sh := func(host, script string) { l.Run(t, host, "sh", "-ec", script) }
	add := func(link string) string {
		return fmt.Sprintf("ip link add %[1]s type bridge; ip link set %[1]s up\n", link)
	}
	for _, host := range []string{"kvm1", "kvm2"} {
		t.Cleanup(func() {
			_, _ = l.Host(host).Run(context.WithoutCancel(t.Context()), "sh", "-c", links+" ip link del $link; done\n"+
				"virsh net-destroy "+name+"-off; virsh net-undefine "+name+"-off; virsh nwfilter-undefine "+name)
		})
		sh(host, fmt.Sprintf(`%[1]s ip link add $link type bridge; ip link set $link up; done
echo "<network><name>%[2]s-off</name><portgroup name='prod'/></network>" >/run/%[2]s.xml
virsh net-define /run/%[2]s.xml
virsh net-start %[2]s-off
echo "<filter name='%[2]s'><rule action='accept' direction='in'/></filter>" >/run/%[2]s.xml
virsh nwfilter-define /run/%[2]s.xml`, links, name))
	}
	nics := map[string]string{
		"bridge": fmt.Sprintf("bridge = %q", bridge),
		"direct": fmt.Sprintf("direct = { device = %q, mode = \"bridge\" }", device),
		"of":     "network = virtfleet_network.of.name",
		"off":    fmt.Sprintf("network = \"%s-off\", port_group = \"prod\"", name),
		"filter": fmt.Sprintf("bridge = %q, filter = { name = %q }", spare, name),
	}
	declare := func(network string, keys []string, more hcl) {
		interfaces := "{\n"
		for _, key := range keys {
			interfaces += "    " + key + " = { " + nics[key] + " }\n"
		}
		tf.Config(t, acctest.Config(l)+fmt.Sprintf(
			"resource \"virtfleet_network\" \"of\" {\n  name = %q\n  forward = { mode = \"bridge\" }\n  bridge = %q\n}\n", name,
			network)+idleVM(l, name).with(hcl{
			"host": quote("kvm1"), "run_strategy": quote("Halted"), "interfaces": interfaces + "  }",
			"migration_options": `{ allow_network_change = true }`,
		}).with(more).String())
	}
	all := []string{"bridge", "direct", "filter", "of", "off"}
	declare(of, all, nil)
	tf.Run(t, "apply")

	remove := links[:strings.LastIndex(links, " "+spare)] + "; do ip link del $link; done\nvirsh net-destroy " + name +
		"-off\nvirsh nwfilter-undefine " + name
	sh("kvm1", remove)
	noChanges(t, tf)
	misses := func(out, says, ofNetwork string) {
		t.Helper()
		for _, missing := range []string{
			fmt.Sprintf(says, "bridge", bridge), fmt.Sprintf(says, "network device", device),
			fmt.Sprintf(says, "network filter", name), ofNetwork + fmt.Sprintf("network %q is connected to bridge %q", name, of),
			"Create the bridge on the host", fmt.Sprintf("network %q", name+"-off"), "is not started",
		} {
			expect(t, out, missing)
		}
	}
	always := hcl{"run_strategy": quote("Always")}
	declare(of, all, always)
	out := tf.Fail(t, "plan")
	misses(out, `host "kvm1": it has no %s %q`, `host "kvm1": its `)
	expect(t, out, `VM "`+name+`" can't be changed because of interfaces.of.network`)
	// Another bridge of the network in the same apply, and an interface less for all others.
	declare(spare, []string{"of"}, always)
	tf.Run(t, "apply")
	noChanges(t, tf)
	// While it runs, the bridge is of no interest, unless the guest is restarted.
	declare(spare, []string{"of"}, always.with(hcl{"termination_grace_period": quote("1s")}))
	sh("kvm1", "ip link del "+spare)
	tf.Run(t, "apply")
	declare(spare, []string{"of"}, always.with(hcl{"cpu": "{ vcpus = 2 }", "update_policy": quote("Restart")}))
	expect(t, tf.Fail(t, "plan"), `host "kvm1": its network "`+name+`" is connected to bridge "`+spare+`"`)
	if state := strings.TrimSpace(l.Virsh(t, "kvm1", "domstate", name)); state != "running" {
		t.Errorf("the VM is %s", state)
	}

	// What became of a port group.
	prod := func(host, command, vlan string) {
		t.Helper()
		l.Virsh(t, host, "net-update", name+"-off", command, "portgroup", "<portgroup name='prod'>"+vlan+"</portgroup>",
			"--live", "--config")
	}
	const vlan, refusal = "<vlan><tag id='7'/></vlan>", `port group "prod" of network "%s-off" (isolated) gives the ` +
		"interface a VLAN with which no VM starts: VLAN tags need an Open vSwitch"
	sh("kvm1", add(bridge)+add(device)+add(of)+add(spare)+"virsh net-start "+name+"-off\nvirsh nwfilter-define /run/"+name+
		".xml\n")
	declare(spare, []string{"of"}, nil)
	tf.Run(t, "apply")
	declare(spare, []string{"of", "off"}, nil)
	tf.Run(t, "apply")
	declare(spare, []string{"of", "off"}, always)
	prod("kvm1", "delete", "")
	expect(t, tf.Fail(t, "plan"), "interfaces.off.port_group", `its network "`+name+`-off" has no port group "prod"`)
	prod("kvm1", "add", vlan)
	expect(t, tf.Fail(t, "plan"), "interfaces.off.port_group", `host "kvm1": its `+fmt.Sprintf(refusal, name))
	prod("kvm1", "modify", "")

	// The same of a move.
	declare(of, all, nil)
	tf.Run(t, "apply")
	sh("kvm2", remove)
	declare(of, all, hcl{"host": quote("kvm2")})
	misses(tf.Fail(t, "plan"), `host "kvm2" has no %s %q`, `n host "kvm2", `)
	sh("kvm2", add(bridge)+add(device)+"virsh net-start "+name+"-off\nvirsh nwfilter-define /run/"+name+".xml\n")
	declare(spare, all, hcl{"host": quote("kvm2")})
	prod("kvm2", "modify", vlan)
	expect(t, tf.Fail(t, "plan"), `n host "kvm2", `+fmt.Sprintf(refusal, name))
	prod("kvm2", "modify", "")
	tf.Run(t, "apply")
	noChanges(t, tf)
	destroyAndCheck(t, l, tf, name)
}
