package virtualmachine_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// hugetlbfs is where the hosts have the file system of the huge pages.
const hugetlbfs = "/var/lib/libvirt/hugepages"

// hugePages gives the hosts huge pages of 2 MiB, for which the kernel may have to move what is in memory. All hosts of
// the lab report the same ones: those of its kernel.
func hugePages(t *testing.T, l *lab.Lab, pages int, hosts ...*lab.Host) {
	t.Helper()
	set := func(n int) {
		ctx := context.WithoutCancel(t.Context()) // The test may be over.
		out, err := hosts[0].Run(ctx, "bash", "-c", fmt.Sprintf(
			"for i in {1..60}; do echo 1 >/proc/sys/vm/compact_memory; echo %[1]d >/proc/sys/vm/nr_hugepages; "+
				`[ "$(cat /proc/sys/vm/nr_hugepages)" = %[1]d ] && exit; sleep 1; done; exit 1`, n))
		if err != nil {
			t.Error(out, err)
		}
	}
	set(pages)
	t.Cleanup(func() { set(0) })
	for _, h := range hosts {
		l.Run(t, h.Name, "mkdir", hugetlbfs)
		l.Run(t, h.Name, "mount", "-t", "hugetlbfs", "hugetlbfs", hugetlbfs)
		l.KillLibvirtd(t, h)() // libvirtd looks for such mounts when it starts.
	}
}

// handOut makes a network of the host hand out a PCI device. The lab has no card with SR-IOV, and libvirt defines such
// a network only for one, but loads any when it starts: the caller restarts it.
func handOut(t *testing.T, l *lab.Lab, h *lab.Host, network, device string) {
	t.Helper()
	address := strings.Replace(pciSource(device), "<address", `<address type="pci"`, 1)
	l.Run(t, h.Name, "bash", "-c", fmt.Sprintf("mkdir -p %[1]s && cat >%[1]s/%[2]s.xml <<'EOF'\n%[3]s\nEOF",
		"/etc/libvirt/qemu/networks", network, "<network><name>"+network+"</name>"+
			"<uuid>6d1f5c1e-3a52-4c39-9c0b-2f7f7b3d5a10</uuid><forward mode='hostdev' managed='yes'>"+address+
			"</forward></network>"))
}

// TestAccHostUse_taken: what a host has once, and its huge pages, count for VMs that run and for those that the host
// starts. A VM that needs them is refused by the plan where it is pinned, and placed elsewhere where it isn't. The
// candidates of a move and the plan of a drain say why. A VM that asks for a device by class gets one that is free.
func TestAccHostUse_taken(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	one, two := l.StartHost(t), l.StartHost(t)
	device := pciDevices(t, l, one.Name)[0]
	handOut(t, l, one, "vfs", device)
	hugePages(t, l, 64, one, two)
	t.Cleanup(func() {
		// As long as it is there, its pages can't be given back.
		if out, err := one.Run(context.WithoutCancel(t.Context()), "rm", "-f", hugetlbfs+"/other"); err != nil {
			t.Error(out, err)
		}
	})
	prefix := lab.Name(t) + "-"
	for _, key := range []string{"free", "needy", "second", "plugged"} {
		l.RemoveDomain(t, prefix+key)
	}
	l.Define(t, one.Name, `<domain type="qemu"><name>`+prefix+`holder</name><memory unit="MiB">96</memory>
  <memoryBacking><hugepages><page size="2" unit="MiB"/></hugepages></memoryBacking>
  <os><type arch="x86_64" machine="q35">hvm</type></os>
  <devices><vsock model="virtio"><cid auto="no" address="77"/></vsock>
    <hostdev mode="subsystem" type="pci" managed="yes">
      <source>`+pciSource(device)+`</source>
    </hostdev>
    <input type="passthrough" bus="virtio"><source evdev="/dev/input/event70"/></input>
    <input type="evdev"><source dev="/dev/input/event71"/></input></devices></domain>`)
	const pages = `{ size = "96Mi", huge_pages = "2Mi" }`
	tf := acctest.NewCLI(t)
	config := func(parts ...string) {
		tf.Config(t, acctest.Block{Lab: l, Hosts: []acctest.Host{
			{Of: one, Settings: "overcommit_guest_overhead = true"}, {Of: two, Settings: "overcommit_guest_overhead = true"},
		}}.String()+strings.Join(parts, "\n"))
	}
	needy := tinyVM(prefix + "needy").with(hcl{
		"host": quote(one.Name), "memory": pages,
		"devices": `{
    vsock = { cid = 77 }, host_devices = { gpu = { type = "pci", address = ` + quote(device) + ` } }
    inputs = {
      mouse = { type = "passthrough", device = "/dev/input/event70" }
      keys  = { type = "evdev", device = "/dev/input/event71" }
    }
  }`,
	})
	// A VM whose cells have pages of their own has as many.
	cells := hcl{"cpu": `{ vcpus = 2, numa = { 0 = { cpus = "0-1", memory = "32Mi" }, 1 = { memory = "64Mi" } } }`}
	free := tinyVM(prefix + "free").with(cells).with(hcl{
		"memory": `{ size = "96Mi", huge_pages_by_cell = { 0 = "2Mi", 1 = "2Mi" } }`,
	})

	// Huge pages that another program uses are no VM's.
	l.Run(t, one.Name, "fallocate", "-l", "80MiB", hugetlbfs+"/other")
	config(free.named("free"))
	expect(t, tf.Fail(t, "plan"), "No host can take the VM", `host "`+one.Name+
		`": it has 48Mi left of its 128Mi in pages of 2Mi (other programs use some), and the VM needs 96Mi`)
	second := tinyVM(prefix + "second").with(hcl{
		"host": quote(two.Name), "memory": pages, "run_strategy": quote("Halted"),
	})
	config(second.named("second"))
	tf.Run(t, "apply")
	config(second.with(hcl{"run_strategy": quote("Always")}).named("second"))
	expect(t, tf.Fail(t, "apply"), "Virtual machine can't be started now", `Host "`+two.Name+
		`" has 48Mi left of its 128Mi in pages of 2Mi (other programs use some)`)
	l.Run(t, one.Name, "rm", hugetlbfs+"/other")

	// A VM that is off and isn't started has nothing of its host. Without an IOMMU the host gives no PCI device to a VM.
	config(needy.with(hcl{
		"devices": `{ inputs = { mouse = { type = "passthrough", device = "/dev/input/event70" } } }`,
	}).named("needy"))
	tf.Run(t, "plan")
	config(needy.with(hcl{"devices": `{ vsock = { cid = 77 } }`}).named("needy"))
	if _, err := os.Stat(domain.VhostVsock); err == nil {
		tf.Run(t, "plan")
	} else if out := tf.Fail(t, "plan"); strings.Contains(out, "has given") {
		t.Errorf("the host lacks the device for vsock, and the plan says: %s", out)
	} else {
		expect(t, out, "because of devices.vsock", "it has no device")
	}

	l.Virsh(t, one.Name, "autostart", prefix+"holder")
	config(needy.named("needy"))
	out := tf.Fail(t, "plan")
	for _, part := range []string{
		"because of devices.vsock.cid", `it has given vsock address 77 to VM "` + prefix + `holder"`,
		"because of devices.host_devices.gpu.address", "it has given pci device " + device + " to VM",
		"because of devices.inputs.mouse.device", `it has given input device /dev/input/event70 to VM "` + prefix + `holder"`,
		"because of devices.inputs.keys.device", `it has given input device /dev/input/event71 to VM "` + prefix + `holder"`,
		"because of memory.huge_pages", "it has 32Mi left of its 128Mi in pages of 2Mi, and the VM needs 96Mi",
	} {
		expect(t, out, part)
	}
	// So is a device that a network hands out.
	l.Virsh(t, one.Name, "net-start", "vfs")
	config(tinyVM(prefix + "needy").with(hcl{
		"host": quote(one.Name), "interfaces": `{ fast = { network = "vfs" } }`,
	}).named("needy"))
	expect(t, tf.Fail(t, "plan"), "because of interfaces.fast.network", `it has 0 left of the PCI devices of its network `+
		`"vfs" (1), and the VM needs 1: others are given to VM "`+prefix+`holder"`)
	// A device that the host hasn't at all is refused alike.
	const vgpu = "5a9fc181-957e-5c32-9e5a-2de5e9673531"
	config(needy.with(hcl{"memory": `{ size = "64Mi" }`, "devices": `{ host_devices = {
    gpu  = { type = "pci", address = "ffff:00:00.0" }, key = { type = "usb", address = "1234:abcd" }
    vgpu = { type = "mdev", address = "` + vgpu + `" }, tape = { type = "scsi", address = "9:9:9:9" }
  } }`}).named("needy"))
	expect(t, tf.Fail(t, "plan"), `host "`+one.Name+`": it has no mdev device `+vgpu,
		`host "`+one.Name+`": it has no pci device ffff:00:00.0`, "it has no scsi device 9:9:9:9",
		"it has no usb device 1234:abcd")
	// One that stays off can have all of it, and isn't started while it is taken.
	config(needy.with(hcl{"run_strategy": quote("Halted")}).named("needy"))
	tf.Run(t, "apply")
	noChanges(t, tf)

	// Where there is a choice, the other host is taken.
	candidates := fmt.Sprintf(`
data "virtfleet_migration_candidates" "free" {
  virtual_machine_id = virtfleet_virtual_machine.free.id
}
data "virtfleet_evacuation_plan" "two" {
  host       = %q
  depends_on = [virtfleet_virtual_machine.free]
}
output "way" {
  value = one([for b in data.virtfleet_migration_candidates.free.hosts[%q].blockers : "${b.reason} ${b.message}"])
}
output "drain" {
  value = join(" ", flatten([for s in data.virtfleet_evacuation_plan.two.steps : s.blockers]))
}
`, two.Name, one.Name)
	config(free.named("free"), candidates)
	tf.Run(t, "apply")
	if err := look(t, l, two.Name, prefix+"free", "<page size='2048' unit='KiB' nodeset='0-1'/>")(nil); err != nil {
		t.Error(err)
	}
	const left = "has 32Mi left of its 128Mi in pages of 2Mi, and the VM needs 96Mi"
	expect(t, tf.Run(t, "output", "way"), `HostResourcesTaken host \"`+one.Name+`\" `+left)
	expect(t, tf.Run(t, "output", "drain"), "NoRoom", "has 32Mi left in pages of 2Mi of the 96Mi that it needs")

	// They count what other programs use, as the choice of a host does. The hosts of the lab share their pages, so that
	// what the VM has touched of its own counts, too.
	l.Virsh(t, one.Name, "autostart", "--disable", prefix+"holder")
	l.Run(t, one.Name, "fallocate", "-l", "32MiB", hugetlbfs+"/other")
	tf.Run(t, "apply")
	expect(t, tf.Run(t, "output", "way"), `HostResourcesTaken host \"`+one.Name+`\" has `,
		"left of its 128Mi in pages of 2Mi (other programs use some), and the VM needs 96Mi")
	expect(t, tf.Run(t, "output", "drain"), "NoRoom", "left in pages of 2Mi of the 96Mi that it needs")
	l.Run(t, one.Name, "rm", hugetlbfs+"/other")
	l.Virsh(t, one.Name, "autostart", prefix+"holder")
	tf.Run(t, "apply")
	noChanges(t, tf)

	// What a running VM has counts, too.
	config(free.named("free"), tinyVM(prefix+"second").with(hcl{"memory": pages}).named("second"))
	out = tf.Fail(t, "plan")
	expect(t, out, "No host can take the VM", `host "`+one.Name+`": it `+left, `host "`+two.Name+`": it `+left)

	// So do the start of a VM that is off, and a device that is plugged in.
	plugged := tinyVM(prefix + "plugged").with(hcl{"host": quote(one.Name)})
	config(free.named("free"), second.named("second"), plugged.named("plugged"))
	tf.Run(t, "apply")
	config(free.named("free"), second.with(hcl{"run_strategy": quote("Always")}).named("second"), plugged.named("plugged"))
	out = tf.Fail(t, "apply")
	expect(t, out, "Virtual machine can't be started now", `Host "`+two.Name+`" `+left)
	expect(t, out, "HostResourcesTaken")
	config(free.named("free"), second.named("second"),
		plugged.with(hcl{"devices": `{ vsock = { cid = 77 } }`}).named("plugged"))
	expect(t, tf.Fail(t, "plan"), "because of devices.vsock.cid", `it has given vsock address 77 to VM "`+prefix+`holder"`)

	config(free.named("free"), second.named("second"), plugged.named("plugged"))
	noChanges(t, tf)

	// Huge pages are read by an import, restored after a drift, and removed.
	const at = "virtfleet_virtual_machine.second"
	tf.Run(t, "state", "rm", at)
	tf.Run(t, "import", at, prefix+"second")
	expect(t, tf.Run(t, "state", "show", at), `huge_pages = "2Mi"`)
	xml := l.Virsh(t, two.Name, "dumpxml", "--inactive", prefix+"second")
	l.Define(t, two.Name, strings.Replace(xml, "<page size='2048' unit='KiB'/>", "", 1))
	expect(t, tf.Run(t, "plan"), "~ huge_pages ", `-> "2Mi"`)
	tf.Run(t, "apply")
	if err := look(t, l, two.Name, prefix+"second", "<page size='2048' unit='KiB'/>")(nil); err != nil {
		t.Error(err)
	}
	// So are those of single cells.
	ofCells := func(sizes string) {
		config(free.named("free"), second.with(cells).with(hcl{
			"memory": `{ size = "96Mi", huge_pages = "none", huge_pages_by_cell = ` + sizes + ` }`,
		}).named("second"), plugged.named("plugged"))
	}
	ofCells(`{ 0 = "2Mi", 1 = "64Ki" }`)
	expect(t, tf.Fail(t, "plan"), "because of memory.huge_pages_by_cell", "it has no pages of 64Ki")
	const one2Mi = "<page size='2048' unit='KiB' nodeset='1'/>"
	ofCells(`{ 1 = "2Mi" }`)
	tf.Run(t, "apply")
	tf.Run(t, "state", "rm", at)
	tf.Run(t, "import", at, prefix+"second")
	xml = l.Virsh(t, two.Name, "dumpxml", "--inactive", prefix+"second")
	expect(t, xml, one2Mi)
	l.Define(t, two.Name, strings.Replace(xml, one2Mi, strings.Replace(one2Mi, "'1'", "'0-1'", 1), 1))
	expect(t, tf.Run(t, "plan"), "~ huge_pages_by_cell ", `- "0" = "2Mi" -> null`)
	tf.Run(t, "apply")
	noChanges(t, tf)
	if err := look(t, l, two.Name, prefix+"second", one2Mi)(nil); err != nil {
		t.Error(err)
	}
	ofCells("{}")
	tf.Run(t, "apply")
	if err := lacks(t, l, two.Name, prefix+"second", "hugepages")(nil); err != nil {
		t.Error(err)
	}
	noChanges(t, tf)
	destroyAndCheck(t, l, tf, prefix+"free", prefix+"needy", prefix+"second", prefix+"plugged")

	deviceClasses(t, l, one, two, prefix+"holder")
	missingPrograms(t, l, one, two)
}

// missingPrograms takes programs and files from the host, on which the plan then refuses the VMs that need them, with
// the packages that have them. If another host has them, the VM is created there, although it has less memory.
func missingPrograms(t *testing.T, l *lab.Lab, host, other *lab.Host) {
	t.Helper()
	tf := acctest.NewCLI(t)
	shares := hcl{
		"memory":  `{ size = "64Mi", source = "memfd", shared = true }`,
		"devices": `{ filesystems = { srv = { target = "srv", source = "/srv" } } }`,
	}
	for _, missing := range []struct {
		hide   string
		vm     hcl
		errors []string
	}{
		{
			"mount -t tmpfs none /usr/share/qemu/vhost-user",
			shares,
			[]string{"because of devices.filesystems", "Unable to find a satisfying virtiofsd", "qemu-system-common"},
		},
		{
			"mount -t tmpfs none /usr/share/qemu/firmware",
			hcl{"firmware": `{ type = "efi" }`},
			[]string{"because of firmware.type", `it has no firmware.type "efi"`, "ovmf", "edk2-ovmf"},
		},
		{
			"mount --bind /dev/null /usr/bin/swtpm",
			hcl{"devices": `{ tpm = { model = "tpm-crb" } }`},
			[]string{"because of devices.tpm.backend", `it has no devices.tpm.backend "emulator"`, "swtpm-tools"},
		},
	} {
		name := lab.Name(t) + "-lacks"
		tf.Config(t, acctest.Block{Lab: l, Hosts: []acctest.Host{{Of: host}}}.String()+
			tinyVM(name).with(missing.vm).named("vm"))
		tf.Run(t, "plan")
		l.Run(t, host.Name, "sh", "-ec", missing.hide)
		expect(t, tf.Fail(t, "plan"), slices.Insert(missing.errors, 1, `host "`+host.Name+`": `)...)
	}
	name := lab.Name(t) + "-elsewhere"
	l.RemoveDomain(t, name)
	tf.Config(t, acctest.Block{Lab: l, Hosts: []acctest.Host{
		{Of: host}, {Of: other, Settings: `memory_limit = "1Gi"`},
	}}.String()+tinyVM(name).with(shares).with(hcl{"run_strategy": quote("Halted")}).named("vm"))
	tf.Run(t, "apply")
	l.Virsh(t, other.Name, "dominfo", name)
	noChanges(t, tf)
	destroyAndCheck(t, l, tf, name)
}
