package virtualmachine_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/beevik/etree"
	"github.com/google/go-cmp/cmp"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// edit is a change of a definition that a user makes by hand.
type edit struct {
	// seen is the attribute that the plan then changes.
	seen string
	// element is the path of the element from the domain, and attribute the name of its attribute; "": its text.
	element, attribute string
	// value is the new value.
	value string
}

// editsOfEveryDevice change one thing in each device and setting of everyDevice.
var editsOfEveryDevice = []edit{
	{"title", "title", "", "By hand"},
	{"description", "description", "", "By hand"},
	{"cpu.model", "cpu/model", "", "Westmere"},
	{"cpu.features", "cpu/feature[@name='vme']", "policy", "require"},
	{"cpu.pin", "cputune/vcpupin[@vcpu='3']", "cpuset", "0"},
	{"cpu.emulator_pin", "cputune/emulatorpin", "cpuset", "0"},
	{"cpu.iothread_pin", "cputune/iothreadpin", "cpuset", "0"},
	{"cpu.shares", "cputune/shares", "", "100"},
	{"cpu.period", "cputune/period", "", "90000"},
	{"cpu.quota", "cputune/quota", "", "70000"},
	{"cpu.global_quota", "cputune/global_quota", "", "70000"},
	{"cpu.emulator_quota", "cputune/emulator_quota", "", "70000"},
	{"cpu.iothread_quota", "cputune/iothread_quota", "", "70000"},
	{"cpu.scheduler", "cputune/vcpusched", "priority", "7"},
	{"cpu.iothread_scheduler", "cputune/iothreadsched", "priority", "7"},
	{"cpu.emulator_scheduler", "cputune/emulatorsched", "priority", "7"},
	{"cpu.numa", "cpu/numa/cell/distances/sibling[@id='1']", "value", "30"},
	{"memory.numatune.mode", "numatune/memory", "mode", "preferred"},
	{"memory.hard_limit", "memtune/hard_limit", "", "2097152"},
	{"memory.soft_limit", "memtune/soft_limit", "", "262144"},
	{"memory.swap_hard_limit", "memtune/swap_hard_limit", "", "4194304"},
	{"memory.allocation", "memoryBacking/allocation", "mode", "ondemand"},
	{"memory.balloon.stats_period", "devices/memballoon/stats", "period", "9"},
	{"memory.balloon.autodeflate", "devices/memballoon", "autodeflate", "off"},
	{"devices.virtio_mem.a", "devices/memory/target/requested", "", "65536"},
	{"firmware.boot_menu.timeout", "os/bootmenu", "timeout", "7"},
	{"disks.root.io", "devices/disk/driver[@io='native']", "io", "threads"},
	{"disks.root.discard", "devices/disk/driver[@queues='2']", "discard", "ignore"},
	{"disks.root.detect_zeroes", "devices/disk/driver[@queues='2']", "detect_zeroes", "on"},
	{"disks.root.error_policy", "devices/disk/driver[@queues='2']", "error_policy", "report"},
	{"disks.root.queues", "devices/disk/driver[@queues='2']", "queues", "1"},
	{"disks.root.serial", "devices/disk/serial", "", "By hand"},
	{"disks.root.io_tune.read_iops_sec", "devices/disk/iotune/read_iops_sec", "", "7"},
	{"disks.root.physical_block_size", "devices/disk/blockio", "physical_block_size", "512"},
	{"disks.web.network.readahead", "devices/disk/source/readahead", "size", "7"},
	{"disks.tls.network.tls_hostname", "devices/disk/source[@tls='yes']", "tlsHostname", "by-hand.example.net"},
	{"disks.data.wwn", "devices/disk/wwn", "", "5000c50015ea71ae"},
	{"disks.data.vendor", "devices/disk/vendor", "", "HAND"},
	{"disks.data.rotation_rate", "devices/disk/target[@rotation_rate='1']", "rotation_rate", "7200"},
	{"interfaces.lan.mtu", "devices/interface/mtu", "size", "1300"},
	{"interfaces.lan.driver.rx_queue_size", "devices/interface/driver[@rx_queue_size='512']", "rx_queue_size", "256"},
	{"interfaces.lan.bandwidth.inbound.average", "devices/interface/bandwidth/inbound", "average", "70"},
	{"interfaces.lan.filter.parameters", "devices/interface/filterref/parameter", "value", "192.0.2.77"},
	{"interfaces.backup.teaming.type", "devices/interface/teaming[@type='persistent']", "type", ""},
	{"interfaces.fast.vlan.tags", "devices/interface/vlan/tag", "id", "77"},
	{"interfaces.switch.vhostuser.mode", "devices/interface/source[@type='unix']", "mode", "server"},
	{"interfaces.vdpa.vdpa", "devices/interface/source[@dev='/dev/vhost-vdpa-0']", "dev", "/dev/vhost-vdpa-7"},
	{"interfaces.tap.direct.mode", "devices/interface/source[@dev='eth0']", "mode", "vepa"},
	{"platform.clock.timezone", "clock", "timezone", "Asia/Tokyo"},
	{"platform.clock.tsc_frequency", "clock/timer[@name='tsc']", "frequency", "1000000000"},
	{"platform.clock.rtc_tickpolicy", "clock/timer[@name='rtc']", "tickpolicy", "catchup"},
	{"platform.events.on_crash", "on_crash", "", "destroy"},
	{"platform.features.vmport", "features/vmport", "state", "on"},
	{"platform.hyperv.spinlocks", "features/hyperv/spinlocks", "retries", "4096"},
	{"platform.resources.partition", "resource/partition", "", "/machine/hand"},
	{"platform.resources.blkio_weight", "blkiotune/weight", "", "700"},
	{"platform.seclabel", "seclabel/baselabel", "", "+1:+1"},
	{"platform.smbios.system.serial", "sysinfo[@type='smbios']/system/entry[@name='serial']", "", "By hand"},
	{"platform.fw_cfg", "sysinfo[@type='fwcfg']/entry[@name='opt/com.example/name']", "", "by hand"},
	{"devices.tpm.model", "devices/tpm", "model", "tpm-tis"},
	{"devices.tpm.persistent_state", "devices/tpm/backend", "persistent_state", "no"},
	{"devices.rng.rate_bytes", "devices/rng/rate", "bytes", "77"},
	{"devices.watchdog.action", "devices/watchdog[@model='i6300esb']", "action", "reset"},
	{"devices.graphics.keymap", "devices/graphics", "keymap", "fr"},
	{"devices.graphics.websocket", "devices/graphics", "websocket", "5777"},
	{"devices.graphics.share_policy", "devices/graphics", "sharePolicy", "ignore"},
	{"devices.video.heads", "devices/video/model", "heads", "4"},
	{"devices.video.accel3d", "devices/video/model/acceleration", "accel3d", "no"},
	{"devices.sound.model", "devices/sound", "model", "ac97"},
	{"devices.vsock.cid", "devices/vsock/cid", "address", "78"},
	{"devices.iommu.caching_mode", "devices/iommu/driver", "caching_mode", "off"},
	{"devices.inputs.tablet", "devices/input[@type='tablet']", "type", "mouse"},
	{"devices.serials.main", "devices/serial/log", "append", "off"},
	{"devices.channels.z", "devices/channel/target[@name='org.z']", "name", "org.y"},
	{"devices.redirdevs.usb", "devices/redirdev/source", "service", "7000"},
	{"devices.filesystems.share", "devices/filesystem/source[@dir='/srv']", "dir", "/mnt"},
	{"devices.host_devices.key", "devices/hostdev/source/vendor", "id", "0x7777"},
	{"extra_device_xml", "devices/shmem/size", "", "8"},
	{"qemu_commandline.env", "commandline/env", "value", "by hand"},
}

// everyDevice is a VM with each kind of device and setting at once. The lab couldn't start it: it has neither the
// cards nor the helpers.
func everyDevice(t *testing.T, l *lab.Lab, name string) hcl {
	t.Helper()
	disk := func(key string) string {
		export := l.NBD(t, name+"-"+key, 1<<20)
		return fmt.Sprintf(`network = { protocol = "nbd", name = %q, hosts = [%q] }`, export.Name, export.Address())
	}
	scratch := l.Image(t, "kvm1", name+".qcow2", "qcow2", 1<<20)
	pci := pciDevices(t, l, "kvm1")
	return hcl{
		"name": quote(name), "type": quote("qemu"), "run_strategy": quote("Halted"), "host": quote("kvm1"),
		"title": quote("All"), "description": quote("Has all of them."),
		"cpu": `{
    sockets = 2, cores = 2, dies = 1, mode = "custom", model = "Nehalem", features = { vme = "disable" }
    pin = { 0 = "0", 3 = "0-1" }, emulator_pin = "0-1", iothread_pin = { 1 = "1" }
    shares = 2048, quota = 50000, period = 100000, global_quota = 90000, emulator_quota = 20000, iothread_quota = 30000
    scheduler = { 0 = { type = "fifo", priority = 3 } }, iothread_scheduler = { 1 = { type = "rr", priority = 2 } }
    emulator_scheduler = { type = "fifo", priority = 1 }
    numa = {
      0 = { cpus = "0-1", memory = "32Mi", distances = { 1 = 21 } }
      1 = { cpus = "2-3", memory = "32Mi", discard = true, distances = { 0 = 21 } }
    }
  }`,
		"memory": `{
    size = "64Mi", max_size = "1Gi", source = "memfd", shared = true, nosharepages = true, allocation = "immediate"
    locked = true, hard_limit = "1Gi", soft_limit = "512Mi", swap_hard_limit = "2Gi"
    numatune = { mode = "strict", nodeset = "0" }
    balloon  = { autodeflate = true, free_page_reporting = true, stats_period = 5 }
  }`,
		"firmware": `{ type = "efi", secure_boot = false, boot_menu = { enabled = true, timeout = 3000 } }`,
		"disks": fmt.Sprintf(`{
    root = {
      %s, boot_order = 1, cache = "none", io = "native", discard = "unmap", detect_zeroes = "unmap"
      error_policy = "stop", iothread = 1, queues = 2, serial = "R1", logical_block_size = 512
      physical_block_size = 4096, io_tune = { read_iops_sec = 50 }
    }
    data = {
      %s, bus = "scsi", shareable = true, wwn = "5000c50015ea71ad", vendor = "ACME", product = "Disk 1"
      rotation_rate = 1
    }
    scratch = { file = %q, transient = true }
    cd      = { device = "cdrom" }
    web     = {
      device  = "cdrom"
      network = { protocol = "https", name = "a.iso", hosts = ["192.0.2.9:443"], readahead = 65536 }
    }
    tls = {
      network = {
        protocol = "nbd", name = "a", hosts = ["192.0.2.9:10809"], tls = true, tls_hostname = "nbd.example.net"
      }
    }
  }`, disk("root"), disk("data"), scratch),
		"interfaces": fmt.Sprintf(`{
    lan = {
      bridge = "br-lab", mtu = 1400, queues = 2, isolated = true, driver = { name = "qemu", rx_queue_size = 512 }
      bandwidth = { inbound = { average = 1000 }, outbound = { average = 2000 } }
      filter    = { name = virtfleet_network_filter.address.name, parameters = { IP = "192.0.2.2" } }
    }
    backup = { network = "default", mac = "52:54:00:aa:bb:01", teaming = { type = "persistent" } }
    fast   = {
      hostdev = %q, mac = "52:54:00:aa:bb:01", vlan = { tags = [7] }
      teaming = { type = "transient", persistent = "backup" }
    }
    switch = { vhostuser = { path = "/run/switch.sock", mode = "client" } }
    vdpa   = { vdpa = "/dev/vhost-vdpa-0" }
    tap    = { direct = { device = "eth0", mode = "bridge" } }
    user   = { user = true }
  }`, pci[0]),
		"platform": `{
    iothreads = 1, hotplug_ports = 2
    clock     = {
      offset = "timezone", timezone = "Europe/Berlin", hpet = false, rtc_tickpolicy = "delay"
      tsc_frequency = 2000000000
    }
    events    = { on_crash = "preserve" }
    features  = { acpi = true, vmport = false }
    hyperv    = { relaxed = true, spinlocks = 8191 }
    resources = { partition = "/machine/prod", blkio_weight = 300, blkio_devices = { "/dev/b" = { weight = 200 } } }
    seclabel  = { dac = { type = "dynamic", baselabel = "+0:+0" } }
    smbios    = { mode = "sysinfo", system = { serial = " S1 " } }
    fw_cfg    = { "opt/com.example/name" = "one" }
  }`,
		"devices": fmt.Sprintf(`{
    tpm         = { model = "tpm-crb", persistent_state = true }
    rng         = { rate_bytes = 2048 }
    watchdog    = { action = "pause" }
    graphics    = {
      type = "vnc", keymap = "de", listen = "address", address = "127.0.0.1", websocket = 5799
      share_policy = "force-shared"
    }
    video       = { model = "virtio", heads = 2, accel3d = true }
    sound       = { model = "ich9" }
    panic       = { model = "isa" }
    vsock       = { cid = 77 }
    iommu       = { caching_mode = true }
    smartcard   = { mode = "host" }
    inputs      = { tablet = { type = "tablet" } }
    serials     = { main = { type = "pty", log_file = "/var/log/main", log_append = true } }
    consoles    = { a = { type = "pty", log_file = "/var/log/a", log_append = true } }
    channels    = { z = { type = "unix", name = "org.z" } }
    redirdevs   = { usb = { type = "tcp", host = "10.0.0.1", service = "4000" } }
    filesystems = {
      share = { target = "share", source = "/srv" }
      slow  = { target = "slow", source = "/mnt", driver = "9p", access_mode = "mapped" }
    }
    host_devices = {
      gpu  = { type = "pci", address = %q }
      key  = { type = "usb", address = "1234:abcd" }
      vgpu = { type = "mdev", address = "6a9ae2dc-22f3-4d0c-a8d8-0a9b2f1dca10" }
      tape = { type = "scsi", address = "2:0:1:5" }
    }
    virtio_mem = { a = { size = "128Mi", requested = "32Mi", node = 1 } }
  }`, pci[1]),
		"extra_device_xml": `{ shared = "<shmem name='a'><size unit='M'>4</size><model type='ivshmem-plain'/></shmem>" }`,
		"qemu_commandline": `{ args = ["-fw_cfg", "name=opt/b,string=2"], env = { LAB = "x" } }`,
	}
}

// noDevices is the same VM after all of them were removed.
var noDevices = hcl{
	"title": quote(""), "description": quote(""),
	"cpu": `{ sockets = 2, cores = 2, mode = "custom", model = "Nehalem", pin = {}, emulator_pin = "", iothread_pin = {}
    numa = { 0 = { cpus = "0-3", memory = "64Mi" } }, shares = 0, quota = 0, period = 0, global_quota = 0
    emulator_quota = 0, iothread_quota = 0, scheduler = {}, iothread_scheduler = {}
    emulator_scheduler = { type = "none" } }`,
	"memory": `{ size = "64Mi", source = "default", shared = false, nosharepages = false, allocation = "default"
    locked = false, hard_limit = "0", soft_limit = "0", swap_hard_limit = "0"
    numatune = { mode = "none", nodeset = "" }, balloon = { model = "none" } }`,
	"firmware": `{ type = "bios", boot_menu = { enabled = false } }`,
	"disks":    `{}`, "interfaces": `{}`,
	"platform": `{
    iothreads = 0, hotplug_ports = 0, clock = { offset = "utc", tsc_frequency = 0 }
    hyperv = { relaxed = false, spinlocks = 0 }
    resources = { partition = "", blkio_weight = 0, blkio_devices = {} }, seclabel = {}
    smbios = { mode = "emulate", system = {} }, fw_cfg = {}
  }`,
	"devices": `{
    tpm = { model = "none" }, rng = { model = "none" }, watchdog = { model = "none" }, graphics = { type = "none" }
    video = { model = "none" }, sound = { model = "none" }, panic = { model = "none" }, vsock = { model = "none" }
    iommu = { model = "none" }, smartcard = { mode = "none" }, inputs = {}, serials = {}, consoles = {}, channels = {}
    redirdevs = {}, filesystems = {}, host_devices = {}, virtio_mem = {}
  }`,
	"extra_device_xml": `{}`, "qemu_commandline": `{ args = [], env = {} }`,
}

// tagsOfEveryDevice are the elements that are gone after that.
var tagsOfEveryDevice = []string{
	"<title", "<description", "<cputune", "<numatune", "<distances", "<memtune", "<locked", "<nosharepages", "<allocation",
	"type='memfd'", "memballoon model='virtio'", "<memory model", "firmware='efi'", "<bootmenu enable='yes'", "<disk ",
	"<interface ", "<iothreads", "ua-port", "<spinlocks", "<resource>", "<blkiotune", "<seclabel", "<sysinfo", "<tpm",
	"<rng", "<watchdog model='i6300esb'", "<graphics", "<sound", "<panic", "<vsock", "<iommu", "<smartcard",
	"type='tablet'", "<serial", "<console", "org.z", "<redirdev", "<filesystem", "<hostdev", "<shmem", "qemu:",
}

// TestAccEveryDevice: a VM that is off has every device and setting at once. It is imported with the configuration that
// Terraform writes; whatever a user edits is in the plan by its name, and an apply repairs that and nothing else; it
// moves as it is; and one apply removes all of them.
func TestAccEveryDevice(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	tf := acctest.NewCLI(t)
	config := everyDevice(t, l, name)
	defined := func(host string) string { return l.Virsh(t, host, "dumpxml", "--inactive", "--security-info", name) }
	block := acctest.Config(l) + fmt.Sprintf(`
resource "virtfleet_network_filter" "address" {
  name  = %q
  hosts = ["kvm1", "kvm2"]
  rules = [{ action = "drop", direction = "out", protocol = "ip", match = { srcipaddr = "$IP" }, negate = true }]
}
`, name)
	apply := func(change hcl) {
		t.Helper()
		config = config.with(change)
		tf.Config(t, block+config.String())
		tf.Run(t, "apply")
		noChanges(t, tf)
	}
	apply(nil)
	l.Define(t, "kvm1", defined("kvm1")) // libvirt sorts the controllers that it added itself when it reads them again.
	created := defined("kvm1")
	lines := func(xml string) []string {
		return slices.DeleteFunc(linesWithoutOurs(t, xml), func(line string) bool {
			// libvirt numbers the consoles on virtio again when a serial port changes.
			return strings.Contains(line, "{}target port=") && strings.Contains(line, `type="virtio"`)
		})
	}
	unchanged := func(host, what string) {
		t.Helper()
		if diff := cmp.Diff(lines(created), lines(defined(host))); diff != "" {
			t.Errorf("after %s, the definition is another one (-before +after):\n%s", what, diff)
		}
	}

	tf.Run(t, "state", "rm", address)
	tf.Config(t, block+fmt.Sprintf("import {\n  to = %s\n  id = %q\n}\n", address, name))
	generated := filepath.Join(tf.Dir, "generated.tf")
	if change := tf.Plan(t, "-generate-config-out="+generated)[address]; change.Actions != "no-op" {
		t.Fatalf("an import does %q:\n%s", change.Actions, cmp.Diff(change.Before, change.After))
	}
	tf.Run(t, "apply")
	if err := os.Remove(generated); err != nil {
		t.Fatal(err)
	}
	apply(nil)
	unchanged("kvm1", "the import")

	l.Define(t, "kvm1", editAll(t, created))
	expectDiffers(t, tf.Plan(t)[address], editsOfEveryDevice)
	apply(nil)
	unchanged("kvm1", "the repair")

	// The other host has only the PCI device.
	tf.Config(t, block+config.with(hcl{"host": quote("kvm2")}).String())
	refused := tf.Fail(t, "plan")
	expect(t, refused, "can't be moved: HostResourcesNotAvailable", "interfaces.vdpa.vdpa",
		`host "kvm2" has no vDPA device /dev/vhost-vdpa-0`)
	for _, device := range []string{"usb device 1234:abcd", "scsi device 2:0:1:5", "mdev device"} {
		expect(t, refused, `host "kvm2" has no `+device)
	}
	apply(hcl{
		"devices":    strings.NewReplacer("key  =", "#", "vgpu =", "#", "tape =", "#").Replace(config["devices"]),
		"interfaces": strings.Replace(config["interfaces"], `vdpa = "/dev/vhost-vdpa-0"`, "user = true", 1),
		"disks":      strings.Replace(config["disks"], "scratch =", "#", 1),
	})
	l.Define(t, "kvm1", defined("kvm1"))
	created = defined("kvm1")
	apply(hcl{"host": quote("kvm2")})
	unchanged("kvm2", "the move")

	apply(noDevices)
	if err := lacks(t, l, "kvm2", name, tagsOfEveryDevice...)(nil); err != nil {
		t.Error(err)
	}
	destroyAndCheck(t, l, tf, name)
}

// editAll makes all of the edits.
func editAll(t *testing.T, xml string) string {
	t.Helper()
	doc := etree.NewDocument()
	if err := doc.ReadFromString(xml); err != nil {
		t.Fatal(err)
	}
	for _, e := range editsOfEveryDevice {
		found := doc.Root().FindElements("./" + e.element)
		if len(found) == 0 {
			t.Errorf("there is no %s", e.element)
			continue
		}
		if e.attribute == "" {
			found[0].SetText(e.value)
		} else {
			found[0].CreateAttr(e.attribute, e.value)
		}
	}
	out, err := doc.WriteToString()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// expectDiffers expects that the plan changes each of the attributes that were edited.
func expectDiffers(t *testing.T, change acctest.Change, edits []edit) {
	t.Helper()
	if change.Actions != "update" {
		t.Fatalf("the plan does %q", change.Actions)
	}
	for _, e := range edits {
		before, after := attributeAt(change.Before, e.seen), attributeAt(change.After, e.seen)
		if cmp.Equal(before, after) {
			t.Errorf("the plan doesn't change %s: %v", e.seen, before)
		}
	}
}

// attributeAt is the value at a path, and nil if there is none.
func attributeAt(v any, path string) any {
	for _, step := range strings.Split(path, ".") {
		object, _ := v.(map[string]any)
		v = object[step]
	}
	return v
}
