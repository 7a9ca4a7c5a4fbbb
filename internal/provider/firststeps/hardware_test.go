package firststeps_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// halted is what an override file says of a VM that isn't started, and more of it.
func halted(vm string, more ...string) string {
	return fmt.Sprintf("resource \"virtfleet_virtual_machine\" %q {\n  run_strategy = \"Halted\"\n  %s\n}\n", vm,
		strings.Join(more, "\n  "))
}

// ofHardware are the examples that need hardware or servers which the lab's hosts lack. The plan of such an example is
// refused as it is. What the hosts can define of it is applied, and not started.
func (u *user) ofHardware() []example {
	const refused, small = "No host can take the VM", `memory = { size = "64Mi" }`
	return []example{
		// The lab's hosts have few CPUs, no second NUMA node, no huge pages and no resctrl. The VMs analytics and controller
		// have nothing without them.
		{
			dir: "tuned-vms", off: true, before: u.hasBridges,
			args: " -target=virtfleet_virtual_machine.database -target=virtfleet_virtual_machine.tenant" +
				" -target=virtfleet_virtual_machine.router",
			refused: []string{
				refused, `VM "database" can't be placed`, `VM "analytics" can't be placed`, `VM "controller" can't be placed`,
			},
			lab: halted("database", `memory = { size = "64Mi", locked = true, hard_limit = "1Gi" }`,
				`cpu = { sockets = 1, cores = 4, dies = 2, pin = { 0 = "0" }, emulator_pin = "0", iothread_pin = { 1 = "0" } }`) +
				halted("tenant") + halted("router"),
			has: []string{
				"<total_bytes_sec_max_length>30<", "<partition>/machine/prod<", "adjustment='3600'", "iothread='1'", "dies='2'",
				"<quota>50000<", "<emulator_quota>20000<", "rotation_rate='7200'", "<size_iops_sec>65536<",
				"filter='clean-traffic'", "nativeMode='untagged'", "type='openvswitch'",
				"<source dev='eth1' mode='bridge'/>",
			},
		},
		// The lab's hosts have no vDPA device, no huge pages, no KVM for host-passthrough, and a libvirt without passt.
		{
			dir: "devices/fast-interfaces", off: true,
			refused: []string{
				refused, `VM "appliance" can't be placed`, "/dev/vhost-vdpa-0", `VM "firewall" can't be placed`,
				`VM "builder" can't be placed`,
			},
			lab: halted("appliance", small) +
				halted("firewall", "cpu = { vcpus = 4 }", `memory = { size = "64Mi", shared = true, huge_pages = "2Mi" }`) +
				halted("builder", small, "interfaces = { out = { user = true } }"),
			has: []string{
				"<source dev='/dev/vhost-vdpa-0'/>", "packed='on'", "path='/run/openvswitch/firewall-inside.sock' mode='server'",
				"rx_queue_size='1024'", "<host gso='off' tso4='off' tso6='off'/>",
				"<guest tso4='off' tso6='off'/>", "<interface type='user'>",
			},
		},
		// The lab's hosts have no such card. Any PCI device that they list can be given to a VM that isn't started.
		{
			dir: "devices/device-class", off: true, before: u.hasCards,
			refused: []string{refused, `has no free device of class "gpu"`, `VM "render-2" can't be placed`},
			lab:     halted("render", small),
			has:     []string{"<name>render-0<", "<name>render-1<", "<name>render-2<", "<hostdev mode="},
		},
		// The lab's hosts have no card with virtual functions: libvirt defines a network of them there, but can't start it.
		{
			dir: "devices/sr-iov", off: true, before: u.hasBridges, args: " -target=virtfleet_virtual_machine.router",
			refused: []string{refused, "has no pci device 0000:03:10.0", `VM "router" can't be placed`}, lab: halted("router"),
			has: []string{"<interface type='hostdev'", "<teaming type='transient' persistent='ua-net-slow'/>"},
		},
		// The lab's hosts have no disks to format, and no server of Ceph or iSCSI: the resource's tests have their own.
		{
			dir: "resources/virtfleet_storage_pool", off: true, rest: provided,
			args: " -target=virtfleet_storage_pool.vms -target=virtfleet_storage_pool.multipath" +
				" -target=virtfleet_secret.chap -target=virtfleet_secret.ceph" +
				" -var chap_password=correct-horse -var ceph_key=c2VjcmV0",
			has: []string{"/srv/vms", "/dev/mapper", "san.example.net", "client.libvirt"},
		},
		// The bastion is one of the lab's hosts. That both others answer shows that it is used.
		{
			dir: "provider", off: true,
			rest: "data \"virtfleet_hosts\" \"all\" {\n  lifecycle {\n    postcondition {\n      condition = alltrue([\n" +
				"        self.hosts[\"kvm1\"].reachable, self.hosts[\"kvm1\"].labels.zone == \"a\",\n" +
				"        self.hosts[\"kvm2\"].memory_limit_bytes == 48 * pow(1024, 3),\n      ])\n" +
				"      error_message = \"The hosts are not what the provider block says.\"\n    }\n  }\n}\n",
			lab: "provider \"virtfleet\" {\n  ssh = { jump_hosts = [\"root@kvm3.example.net\"] }\n}\n",
		},
	}
}

// hasBridges gives the hosts the bridges and the filter that examples name.
func (u *user) hasBridges(t *testing.T, _ string) {
	t.Helper()
	for _, h := range u.hosts {
		u.lab.Run(t, h.Name, "sh", "-ec", `
for bridge in br0 ovsbr0; do ip link show "$bridge" >/dev/null 2>&1 || ip link add "$bridge" type bridge; done
echo "<filter name='clean-traffic' chain='root'/>" >/run/filter.xml
virsh nwfilter-dumpxml clean-traffic >/dev/null 2>&1 || virsh nwfilter-define /run/filter.xml`)
	}
}

// hasCards says that PCI devices of the lab's hosts are the cards of the example.
func (u *user) hasCards(t *testing.T, dir string) {
	t.Helper()
	var cards []string
	for _, name := range strings.Fields(u.lab.Virsh(t, u.hosts["kvm1"].Name, "nodedev-list", "--cap", "pci")) {
		part := strings.Split(name, "_") // pci_0000_00_01_0
		cards = append(cards, fmt.Sprintf("\"pci:%s:%s:%s.%s\"", part[1], part[2], part[3], part[4]))
	}
	if len(cards) < 3 {
		t.Fatalf("the lab has too few PCI devices: %q", cards)
	}
	u.write(t, filepath.Join(dir, "cards_override.tf"), fmt.Sprintf("provider \"virtfleet\" {\n  hosts = {\n"+
		"    kvm1 = { uri = \"qemu+ssh://root@kvm1.example.net/system\", devices = { gpu = [%s, %s] } }\n"+
		"    kvm2 = { uri = \"qemu+ssh://root@kvm2.example.net/system\", devices = { gpu = [%s] } }\n  }\n}\n",
		cards[0], cards[1], cards[2]), 0o644)
}

// refuses has the plan of the example as it is refused.
func (u *user) refuses(t *testing.T, e example, dir string) {
	t.Helper()
	said, err := u.tries(t, dir, plan, "")
	if err == nil {
		t.Errorf("%s: the plan isn't refused:\n%s", e.dir, said)
	}
	for _, word := range e.refused {
		if !strings.Contains(said, word) {
			t.Errorf("%s: the plan doesn't say %q:\n%s", e.dir, word, said)
		}
	}
}

// finds looks on the hosts for what an example defined.
func (u *user) finds(t *testing.T, e example) {
	t.Helper()
	var all strings.Builder
	for _, h := range u.hosts {
		for _, vm := range strings.Fields(u.lab.Virsh(t, h.Name, "list", "--all", "--name")) {
			all.WriteString(u.lab.Virsh(t, h.Name, "dumpxml", "--inactive", vm))
		}
		for _, pool := range strings.Fields(u.lab.Virsh(t, h.Name, "pool-list", "--name")) {
			all.WriteString(u.lab.Virsh(t, h.Name, "pool-dumpxml", pool))
		}
		all.WriteString(u.lab.Virsh(t, h.Name, "secret-list"))
	}
	for _, word := range e.has {
		if !strings.Contains(all.String(), word) {
			t.Errorf("%s: the hosts have no %q:\n%s", e.dir, word, all.String())
		}
	}
}
