package virtualmachine_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccDevices_live: everything that a running guest can be given and taken, seen from within the guest, without a
// restart.
func TestAccDevices_live(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	const host = "kvm1"
	root := l.Image(t, host, name+".qcow2", "qcow2", 8<<20)
	raw := l.Image(t, host, name+".raw", "raw", 8<<20)
	first, second := l.Image(t, host, name+"-1.iso", "raw", 1<<20), l.Image(t, host, name+"-2.iso", "raw", 1<<20)
	export := l.NBD(t, name, 16<<20)

	tf := acctest.NewCLI(t)
	config := vmWithKernelWords(l, name).with(talking).with(hcl{
		"host": quote(host), "cpu": `{ vcpus = 1, max_sockets = 2 }`, "memory": `{ size = "256Mi", max_size = "1Gi" }`,
		"interfaces": `{ lan = { bridge = "br-lab" } }`, "serial_console": `{ enabled = true }`,
		"wait_for": `{ guest_agent = true, ip_address = "lan", timeout = "5m" }`, "devices": `{ rng = { model = "none" } }`,
	})
	disks := func(medium string, more ...string) hcl {
		return hcl{"disks": fmt.Sprintf(`{
    root = { volume = %q, boot_order = 1 }
    cd   = { device = "cdrom"%[2]s }
    scsi = { device = "cdrom", bus = "scsi"%[2]s }
    %[3]s
  }`, root, medium, strings.Join(more, "\n"))}
	}
	inDrives := func(medium string, want int) {
		t.Helper()
		for _, of := range [][]string{{}, {"--inactive"}} {
			list := l.Virsh(t, host, append([]string{"domblklist", name}, of...)...)
			if n := strings.Count(list, medium); n != want {
				t.Errorf("%d of %d drives have the medium %s: %v\n%s", n, want, medium, of, list)
			}
		}
	}
	process := &started{l: l, host: host, name: name}
	apply := func(change hcl, seen ...string) {
		t.Helper()
		config = config.with(change)
		tf.Config(t, acctest.OneHost(l)+config.String())
		tf.Run(t, "apply")
		if err := process.same(t)(nil); err != nil {
			t.Fatal(err)
		}
		if err := look(t, l, host, name, seen...)(nil); err != nil {
			t.Error(err)
		}
		noChanges(t, tf)
	}
	partitions := func() string { return guestFile(t, l, host, name, "/proc/partitions") }
	address := func() (mac, ip string) {
		t.Helper()
		state, _ := tf.State(t, address)
		nic, _ := state["interfaces"].(map[string]any)["lan"].(map[string]any)
		all, _ := state["ip_addresses"].(map[string]any)["lan"].([]any)
		return fmt.Sprint(nic["mac"]), strings.Trim(fmt.Sprint(all), "[]")
	}

	apply(disks(""), `bridge='br-lab'`, `type='qcow2'`, `<boot order='1'/>`, `<console type=`, `<channel type='unix'>`)
	mac, ip := address()
	if lan := fmt.Sprintf("10.%d.1.", l.Net); !strings.HasPrefix(ip, lan) {
		t.Errorf("it got the address %q, want one of %s0", ip, lan)
	}
	before := guestMemory(t, l, host, name)

	// More of everything, a medium, and the cable out.
	apply(disks(", file = "+quote(first), fmt.Sprintf("raw = { file = %q, serial = \"R1\" }", raw), fmt.Sprintf(
		"data = { network = { protocol = \"nbd\", name = %q, hosts = [%q] }, cache = \"none\" }",
		export.Name, export.Address())).with(hcl{
		"cpu": `{ vcpus = 2, max_sockets = 2 }`, "memory": `{ size = "384Mi", max_size = "1Gi" }`,
		"interfaces": `{ lan = { bridge = "br-lab", link_up = false } }`,
		"wait_for":   `{ guest_agent = true, timeout = "5m" }`,
		"devices":    `{ rng = { backend = "builtin" } }`,
	}), `<backend model='builtin'/>`, first, raw, `ua-disk-data`, `protocol='nbd'`, `cache='none'`, `>2</vcpu>`,
		`<memory unit='KiB'>393216</memory>`, `<link state='down'/>`)
	inDrives(first, 2)
	lab.Await(t, "the guest to have two more disks", func() bool { return strings.Count(partitions(), " vd") == 3 })
	lab.Await(t, "the guest to have two processors", func() bool {
		return guestFile(t, l, host, name, "/sys/devices/system/cpu/online") == "0-1\n"
	})
	lab.Await(t, "the guest to have 128 MiB more", func() bool { return guestMemory(t, l, host, name)-before > 120<<10 })

	// Another medium, another network, one more interface, less memory.
	apply(disks(", file = "+quote(second)).with(hcl{
		"memory": `{ size = "320Mi", max_size = "1Gi" }`, "devices": `{ rng = { model = "none" } }`,
		"interfaces": `{ lan = { network = "default", link_up = true }, more = { user = true, mac = "52:54:00:77:00:01" } }`,
	}), second, `<link state='up'/>`, `network='default'`, `ua-net-more`,
		`<currentMemory unit='KiB'>327680</currentMemory>`)
	inDrives(second, 2)
	lab.Await(t, "the guest to have one disk", func() bool { return strings.Count(partitions(), " vd") == 1 })
	lab.Await(t, "the guest to have two interfaces", func() bool {
		return strings.Count(guestFile(t, l, host, name, "/proc/net/dev"), "eth") == 2
	})
	// It is gone only once the guest has given it back.
	if err := lacks(t, l, host, name, "<rng")(nil); err != nil {
		t.Error(err)
	}
	if now, _ := address(); now != mac {
		t.Errorf("its interface had the address %s, and has %s", mac, now)
	}

	// What is ejected by hand comes back.
	l.Virsh(t, host, "change-media", name, "sdb", "--eject", "--live", "--config")
	inDrives(second, 1)
	apply(nil, second)
	inDrives(second, 2)
	apply(disks(""))
	inDrives(second, 0)

	// What isn't declared any more is left alone.
	apply(hcl{"cpu": "", "memory": "", "interfaces": "", "disks": "", "serial_console": "", "type": "", "kernel": ""},
		`>2</vcpu>`, `<currentMemory unit='KiB'>327680</currentMemory>`, `ua-net-more`, `ua-disk-root`, `<kernel>`)
	tf.Config(t, acctest.OneHost(l)+config.with(hcl{"cpu": `{ vcpus = 1 }`}).String())
	expect(t, tf.Fail(t, "plan"), "Error: Change needs a restart",
		"cpu.vcpus: Not every guest can give up virtual CPUs while it runs")
	tf.Config(t, acctest.OneHost(l)+config.String())
	destroyAndCheck(t, l, tf, name)
}

// TestAccDevices_cold: every kind of disk and interface, defined while the VM is off, is the same when it runs.
func TestAccDevices_cold(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	const host = "kvm2"
	image := func(suffix, format string) string { return l.Image(t, host, name+suffix, format, 1<<20) }
	tf := acctest.NewCLI(t)
	config := idleVM(l, name).with(hcl{
		"host": quote(host), "run_strategy": quote("Halted"), "disks": fmt.Sprintf(`{
    root  = { volume = %q, boot_order = 1 }
    raw   = { file = %q, bus = "scsi", format = "raw", serial = "R1", cache = "writeback" }
    cold  = { file = %q, bus = "sata", format = "qcow2" }
    stick = { file = %q, bus = "usb", read_only = true }
    cd    = { file = %q, device = "cdrom", boot_order = 3 }
    tray  = { device = "cdrom", bus = "scsi" }
  }`, image("-1.qcow2", "qcow2"), image("-2.raw", "raw"), image("-3.img", "qcow2"), image("-4.raw", "raw"),
			image("-5.iso", "raw")),
		"interfaces": `{
    lan  = { network = "default", boot_order = 2 }
    wan  = { bridge = "br-lab", model = "e1000e", link_up = false }
    user = { user = true, model = "rtl8139", mac = "52:54:00:77:00:02" }
  }`,
	})
	apply := func(change hcl, seen ...string) {
		t.Helper()
		config = config.with(change)
		tf.Config(t, acctest.On(l, host)+config.String())
		tf.Run(t, "apply")
		if err := contains(l.Virsh(t, host, "dumpxml", "--inactive", name), seen...); err != nil {
			t.Error(err)
		}
		noChanges(t, tf)
	}
	apply(nil, `<boot order='1'/>`, `<boot order='2'/>`, `<boot order='3'/>`, `<serial>R1</serial>`, `bus='usb'`,
		`type='e1000e'`)
	apply(hcl{"run_strategy": quote("Always")})
	apply(hcl{
		"run_strategy": quote("Halted"), "disks": `{ tray = { device = "cdrom", bus = "sata" } }`,
		"interfaces": `{ wan = { bridge = "br-lab", model = "virtio", boot_order = 1 } }`,
		"cpu":        `{ sockets = 1, cores = 2 }`,
		"memory":     `{ size = "96Mi" }`, "machine_type": "", "serial_console": `{ enabled = false }`,
	}, `<vcpu placement='static'>2</vcpu>`, `<boot order='1'/>`)
	apply(hcl{"run_strategy": quote("Always")})
	destroyAndCheck(t, l, tf, name)
}

// guestMemory is how much the guest has, in KiB.
func guestMemory(t *testing.T, l *lab.Lab, host, name string) int {
	t.Helper()
	n, err := strconv.Atoi(strings.Fields(guestFile(t, l, host, name, "/proc/meminfo"))[1])
	if err != nil {
		t.Fatal(err)
	}
	return n
}
