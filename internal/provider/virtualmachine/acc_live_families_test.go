package virtualmachine_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// liveVM is a guest with everything that can be changed while it runs: that is one version of it, and the other one is
// another value or another device of each family. Its machine type has room for devices on PCI, a watchdog as well.
func liveVM(l *lab.Lab, name, data, medium string, version int) hcl {
	of := func(values ...any) any { return values[version] }
	text := func(values ...string) string { return quote(values[version]) }
	return guest(l, name).with(talking).with(hcl{
		"host": quote("kvm1"), "machine_type": quote("pc"),
		"title":       text("First", "Second"),
		"description": text("The first.", "The second."),
		"labels":      fmt.Sprintf(`{ version = "%d" }`, version),
		"cpu": fmt.Sprintf(`{
    vcpus = %d, max_sockets = 2, pin = { 0 = %q }, emulator_pin = %q, iothread_pin = { %s }
  }`, of(1, 2), of("0", "1"), of("0", "1"), of(`1 = "0"`, `1 = "1", 2 = "0"`)),
		"memory": fmt.Sprintf(`{ size = %q, max_size = "1Gi", balloon = { stats_period = %d } }`,
			of("256Mi", "224Mi"), of(5, 6)),
		"platform": fmt.Sprintf(`{ iothreads = %d, events = { on_crash = %q } }`, of(1, 2),
			of("destroy", "preserve")),
		"disks": fmt.Sprintf(`{
    data = { file = %q, bus = "scsi", boot_order = 1, io_tune = { read_iops_sec = %d } }
    cd   = { device = "cdrom"%s }
  }`, data, of(1000, 2000), of("", ", file = "+quote(medium))),
		"interfaces": fmt.Sprintf(`{ lan = { bridge = "br-lab", link_up = %t }%s }`, of(true, false),
			of("", ", more = { user = true }")),
		"graphics_access": fmt.Sprintf(`{ password_wo = %q, password_wo_version = "%d" }`, of("erstes", "zweites"), version),
		"devices": fmt.Sprintf(`{
    graphics   = { type = "vnc" }
    virtio_mem = { a = { size = "128Mi", requested = %q } }
    serials    = { main = { type = "pty" }%s }
    %s
  }`, of("32Mi", "64Mi"), of("", `, pci = { type = "null", target_type = "pci-serial" }
      usb = { type = "null", target_type = "usb-serial" }`),
			of(`rng = { model = "none" }, inputs = {}, channels = {}, consoles = {}, redirdevs = {}`,
				fmt.Sprintf(`rng = { rate_bytes = 2048 }
    watchdog  = { action = "pause" }
    inputs    = { mouse = { type = "mouse" } }
    channels  = { z = { type = "unix", name = "org.z" } }
    consoles  = { a = { type = "null" } }
    redirdevs = { usb = { type = "unix", path = "/var/lib/libvirt/qemu/%s-usb.sock" } }`, name))),
	})
}

// liveParts are what the definitions say of the second version.
var liveParts = []string{
	"<title>Second<", "<description>The second.<", `value="1"`, "<vcpupin vcpu='0' cpuset='1'/>",
	"<emulatorpin cpuset='1'/>",
	"<iothreadpin iothread='1' cpuset='1'/>", "<iothreadpin iothread='2' cpuset='0'/>",
	"<stats period='6'/>", "<requested unit='KiB'>65536<",
	"<on_crash>preserve<", "<read_iops_sec>2000<", "<link state='down'/>", "ua-net-more", "<rate bytes='2048'",
	"<watchdog model='i6300esb' action='pause'", "<input type='mouse' bus='usb'", "name='org.z'", "ua-console-a",
	"ua-redirdev-usb", "ua-serial-pci", "ua-serial-usb", "<vcpu placement='static'>2</vcpu>",
}

// TestAccFamilies_clock: a running guest is changed in everything that can change while it runs, what a user does to it
// by hand is in the plan by name and repaired, and all of it is removed. Its own clock runs on all the time.
func TestAccFamilies_clock(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	const host = "kvm1"
	data, medium := l.Image(t, host, name+".raw", "raw", 1<<20), l.Image(t, host, name+".iso", "raw", 1<<20)
	tf := acctest.NewCLI(t)
	boot := &boots{l: l, name: name}
	uptime := 0.0
	apply := func(config hcl, seen ...string) {
		t.Helper()
		tf.Config(t, acctest.OneHost(l)+config.String())
		tf.Run(t, "apply")
		if err := boot.same(t, host)(nil); err != nil {
			t.Fatal(err)
		}
		now, err := strconv.ParseFloat(strings.Fields(guestFile(t, l, host, name, "/proc/uptime"))[0], 64)
		if err != nil || now <= uptime {
			t.Errorf("the guest's clock was at %v before the change, and is at %v: %v", uptime, now, err)
		}
		uptime = now
		if err := look(t, l, host, name, seen...)(nil); err != nil {
			t.Error(err)
		}
		noChanges(t, tf)
	}
	first, second := liveVM(l, name, data, medium, 0), liveVM(l, name, data, medium, 1)
	apply(first)
	apply(second, liveParts...)
	// The driver of a port that isn't there says so: 0.
	kind := func() string { return guestFile(t, l, host, name, "/sys/class/tty/ttyS1/type") }
	lab.Await(t, "the guest to have another serial port", func() bool { return kind() != "0\n" })

	// A host gives a guest its devices only with an IOMMU, and vsock only with the kernel's module.
	with := func(devices string) hcl {
		return second.with(hcl{"devices": strings.Replace(second["devices"], "{", "{ "+devices, 1)})
	}
	if groups, _ := filepath.Glob("/sys/kernel/iommu_groups/*"); len(groups) == 0 {
		gpu := pciDevices(t, l, host)[0]
		devices := with(`host_devices = { gpu = { type = "pci", address = ` + quote(gpu) + ` } }`)
		tf.Config(t, acctest.OneHost(l)+devices.String())
		expect(t, tf.Fail(t, "plan"), "because of devices.host_devices.gpu.address", "it can't give pci device "+gpu+
			" to a VM, because its kernel uses no IOMMU")
		if err := lacks(t, l, host, name, "<hostdev")(nil); err != nil {
			t.Error(err)
		}
	}
	vsock := with("vsock = { cid = 77 }")
	if _, err := os.Stat("/dev/vhost-vsock"); err == nil {
		apply(vsock, `<cid auto="no" address="77"`)
	} else {
		tf.Config(t, acctest.OneHost(l)+vsock.String())
		expect(t, tf.Fail(t, "plan"), "Host can't take the change", "because of devices.vsock",
			`host "`+host+`": it has no device "/dev/vhost-vsock"`, `"modprobe vhost_vsock"`)
		if err := contains(l.Virsh(t, host, "dumpxml", "--inactive", name), "<vsock"); err == nil {
			t.Error("the next start has the device that the plan refused")
		}
	}
	apply(with(`vsock = { model = "none" }`), liveParts...)
	if err := lacks(t, l, host, name, "<vsock")(nil); err != nil {
		t.Error(err)
	}

	// What a user does by hand to the running guest.
	state, _ := tf.State(t, address)
	nics, _ := state["interfaces"].(map[string]any)
	lan, _ := nics["lan"].(map[string]any)
	var edits []edit
	for _, drift := range []struct{ seen, command string }{
		{"title", "desc NAME --live --title By-hand"},
		{"description", "desc NAME --live By-hand"},
		{"labels", "metadata NAME urn:virtfleet:1 --remove --live --config"},
		{"cpu.pin", "vcpupin NAME 0 0-1 --live"},
		{"cpu.emulator_pin", "emulatorpin NAME 0-1 --live"},
		{"cpu.iothread_pin", "iothreadpin NAME 1 0-1 --live"},
		{"memory.balloon.stats_period", "dommemstat NAME --period 9 --live"},
		{"memory.size", "setmem NAME 200M --config"},
		{
			"devices.virtio_mem.a.requested",
			"update-memory-device NAME --alias ua-virtio-mem-a --requested-size 16MiB --live",
		},
		{"platform.events.on_crash", "set-lifecycle-action NAME crash destroy --live"},
		{"disks.data.io_tune.read_iops_sec", "blkdeviotune NAME sda --read-iops-sec 7 --live"},
		{"disks.cd.file", "change-media NAME hda --eject --live"},
		{"interfaces.lan.link_up", "domif-setlink NAME " + fmt.Sprint(lan["mac"]) + " up"},
		{"devices.inputs.mouse", "detach-device-alias NAME ua-input-mouse --live"},
		{"devices.channels.z", "detach-device-alias NAME ua-channel-z --live"},
		{"devices.consoles.a", "detach-device-alias NAME ua-console-a --live"},
		{"devices.redirdevs.usb", "detach-device-alias NAME ua-redirdev-usb --live"},
		{"devices.serials.pci", "detach-device-alias NAME ua-serial-pci --live"},
		{"devices.serials.usb", "detach-device-alias NAME ua-serial-usb --live"},
		{"devices.rng", "detach-device-alias NAME rng0 --live"},
		{"devices.watchdog", "detach-device-alias NAME watchdog0 --live"},
	} {
		l.Virsh(t, host, strings.Fields(strings.Replace(drift.command, "NAME", name, 1))...)
		edits = append(edits, edit{seen: drift.seen})
	}
	lab.Await(t, "the guest to release the devices", func() bool {
		xml := l.Virsh(t, host, "dumpxml", name)
		return !strings.Contains(xml, "<rng") && !strings.Contains(xml, "<watchdog") &&
			!strings.Contains(xml, "ua-serial-pci") && !strings.Contains(xml, "ua-serial-usb")
	})
	expectDiffers(t, tf.Plan(t)[address], edits)
	apply(second, liveParts...)

	apply(first.with(hcl{
		"cpu": strings.Replace(second["cpu"], `, 2 = "0"`, "", 1), "title": quote(""), "description": quote(""), "labels": "",
		"devices": strings.Replace(first["devices"], "inputs =", `watchdog = { model = "none" }, inputs =`, 1),
		"disks":   `{ cd = { device = "cdrom" } }`, "interfaces": `{}`,
	}))
	if err := lacks(t, l, host, name, "iothread='2'", "<title", "<description", `value="1"`, "<iotune", medium,
		"<interface ", "<rng", "<watchdog", "type='mouse' bus='usb'", "org.z", "ua-console", "ua-redirdev", "ua-serial-pci",
		"ua-serial-usb")(nil); err != nil {
		t.Error(err)
	}
	destroyAndCheck(t, l, tf, name)
}

// coldChanges need a restart of a running VM, one for each family that has such.
var coldChanges = hcl{
	"cpu": `{ mode = "custom", model = "Nehalem", numa = { 0 = { cpus = "0", memory = "64Mi" } }
    scheduler = { 0 = { type = "batch" } } }`,
	"memory": `{ size = "64Mi", source = "memfd", shared = false, nosharepages = true, allocation = "immediate"
    numatune = { mode = "strict", nodeset = "0" }, balloon = { autodeflate = true } }`,
	"firmware": `{ boot_menu = { enabled = true } }`,
	"platform": `{
    hotplug_ports = 1, clock = { offset = "localtime" }, hyperv = { relaxed = true }
    features = { vmcoreinfo = true }, smbios = { mode = "sysinfo", system = { serial = "1" } }
    fw_cfg = { "opt/a" = "1" }, seclabel = { dac = { type = "static", label = "+0:+0" } }
  }`,
	"interfaces": `{
    own = { direct = { device = "vf-own0", mode = "passthrough" }, mtu = 1400, driver = { name = "qemu" } }
  }`,
	"devices": `{
    tpm = {}, graphics = { keymap = "de" }, video = { model = "virtio" }, sound = { model = "ac97" }
    panic = { model = "isa" }, iommu = {}, serials = { main = { type = "null" } }
    filesystems = { other = { target = "other", source = "/srv", driver = "9p" } }
  }`,
	"extra_device_xml": `{}`, "qemu_commandline": `{ args = ["-no-shutdown"] }`,
}

// coldAttributes are what the plan of coldChanges refuses.
var coldAttributes = []string{
	"cpu.model", "cpu.numa", "cpu.scheduler", "memory.shared", "memory.nosharepages", "memory.allocation",
	"memory.numatune.mode", "memory.balloon.autodeflate", "firmware.boot_menu.enabled",
	"platform.hotplug_ports", "platform.clock.offset", "platform.hyperv.relaxed", "platform.features.vmcoreinfo",
	"platform.smbios.system", "platform.fw_cfg", "platform.seclabel", "disks.scratch.io", "disks.scratch.serial",
	"disks.scratch.transient", "interfaces.own.mtu", "interfaces.own.driver.name", "devices.tpm",
	"devices.graphics.keymap", "devices.video.model", "devices.sound.model", "devices.panic", "devices.iommu",
	"devices.serials.main", "devices.filesystems.share", "devices.filesystems.other",
	"extra_device_xml.shared", "qemu_commandline.args",
}

// TestAccFamilies_refused: each device that a running VM can't take to another host is named by the plan of a move, and
// each change that a running VM can't take is named by the plan of an update. What blocks the move, conditions,
// candidates and the plan of a drain say, too.
func TestAccFamilies_refused(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	one, two := l.StartHost(t), l.StartHost(t) // A plan of a drain shows all VMs of a host.
	host, block := one.Name, acctest.Block{Lab: l, Hosts: []acctest.Host{{Of: one}, {Of: two}}}.String()
	const card = "vf-own0"
	l.Run(t, host, "ip", "link", "add", card, "type", "veth", "peer", "name", "vf-own1")
	tf := acctest.NewCLI(t)
	config := tinyVM(name).with(hcl{
		"host": quote(host), "memory": `{ size = "64Mi", source = "memfd", shared = true }`,
		"disks": fmt.Sprintf(`{ scratch = { file = %q, transient = true } }`,
			l.Image(t, host, name+".raw", "raw", 1<<20)),
		"interfaces": fmt.Sprintf(`{ own = { direct = { device = %q, mode = "passthrough" } } }`, card),
		"devices": `{
    sound       = { model = "usb" }
    filesystems = {
      share = { target = "share", source = "/srv" }
      slow  = { target = "slow", source = "/srv", driver = "9p", access_mode = "mapped" }
    }
  }`,
		"extra_device_xml": fmt.Sprintf(
			`{ shared = "<shmem name='%s'><size unit='M'>4</size><model type='ivshmem-plain'/></shmem>" }`, name),
	})
	tf.Config(t, block+config.String())
	tf.Run(t, "apply")
	noChanges(t, tf)
	tf.Config(t, block+config.with(hcl{"host": quote(two.Name)}).String())
	if err := contains(tf.Fail(t, "plan"), "disks.scratch: ", `disk "scratch" is transient`,
		"interfaces.own: ", `has the device "`+card+`" of its host for itself`,
		"devices.sound.model: ", "which QEMU can't migrate", `shares a directory with its host as "share" (virtiofs)`,
		`shares a directory with its host as "slow"`, "extra_device_xml.shared: ",
		`it shares memory "`+name+`"`); err != nil {
		t.Error(err)
	}
	// Of a directory over 9p, which blocks only while the guest has it mounted, a drain finds out when it tries.
	blockersEverywhere(t, tf, block, config, host, two.Name,
		`DisksNotLiveMigratable: disk "scratch" is transient`,
		`has the device "`+card+`" of its host for itself`,
		`QEMUNotLiveMigratable: it has a sound card of model usb, which QEMU can't migrate`,
		`VirtIOFSNotLiveMigratable: it shares a directory with its host as "share" (virtiofs)`,
		`QEMUNotLiveMigratable: it shares memory "`+name+`"`)
	tf.Config(t, block+config.with(coldChanges).with(hcl{
		"disks": strings.Replace(config["disks"], "transient = true", `transient = false, io = "threads", serial = "S1"`, 1),
	}).String())
	said := tf.Fail(t, "plan")
	expect(t, said, "Change needs a restart")
	for _, attribute := range coldAttributes {
		if !strings.Contains(said, "- "+attribute+": ") {
			t.Errorf("the plan doesn't refuse %s", attribute)
		}
	}
	if t.Failed() {
		t.Log(said)
	}
	tf.Config(t, block+config.String())
	destroyAndCheck(t, l, tf, name)
	l.Run(t, host, "sh", "-c", "rm -f /dev/shm/"+name+"*") // QEMU leaves it there.
	l.Run(t, host, "ip", "link", "del", card)
}
