package virtualmachine_test

import (
	"strings"
	"testing"

	"github.com/beevik/etree"
	"github.com/google/go-cmp/cmp"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// edit is a change of a definition that a user makes by hand.
type edit struct {
	// seen is the attribute that the plan then changes.
	seen string
	// element is the path of the element from the domain, and attribute the name of its attribute; "": its text.
	element, attribute string
	// value is the new value; "" as a text: the element is removed.
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
	{"memory.source", "memoryBacking/source", "type", "file"},
	{"memory.locked", "memoryBacking/locked", "", ""},
	{"memory.allocation", "memoryBacking/allocation", "mode", "ondemand"},
	{"memory.balloon.stats_period", "devices/memballoon/stats", "period", "9"},
	{"memory.balloon.autodeflate", "devices/memballoon", "autodeflate", "off"},
	{"devices.virtio_mem.a", "devices/memory/target/requested", "", "65536"},
	{"devices.nvdimms.log", "devices/memory[@model='nvdimm']/target/label/size", "", "256"},
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
	{"interfaces.lan.driver.host_offloads", "devices/interface/driver/host", "csum", "off"},
	{"interfaces.lan.driver.guest_offloads", "devices/interface/driver/guest", "ufo", "off"},
	{"interfaces.lan.bandwidth.inbound.average", "devices/interface/bandwidth/inbound", "average", "70"},
	{"interfaces.lan.filter.parameters", "devices/interface/filterref/parameter", "value", "192.0.2.77"},
	{"interfaces.backup.teaming.type", "devices/interface/teaming[@type='persistent']", "type", ""},
	{"interfaces.fast.vlan.tags", "devices/interface/vlan/tag", "id", "77"},
	{"interfaces.switch.vhostuser.mode", "devices/interface/source[@type='unix']", "mode", "server"},
	{"interfaces.vdpa.vdpa", "devices/interface/source[@dev='/dev/vhost-vdpa-0']", "dev", "/dev/vhost-vdpa-7"},
	{"interfaces.tap.direct.mode", "devices/interface/source[@dev='eth0']", "mode", "vepa"},
	{"interfaces.trunk.virtual_port.profile_id", "devices/interface/virtualport/parameters", "profileid", "hand"},
	{"interfaces.trunk.vlan.native_mode", "devices/interface/vlan/tag[@nativeMode='tagged']", "nativeMode", "untagged"},
	{"interfaces.trunk.vlan.native_tag", "devices/interface/vlan/tag[@nativeMode='untagged']", "id", "9"},
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
	{"devices.second_graphics.rendernode", "devices/graphics/gl", "rendernode", "/dev/dri/renderD129"},
	{"devices.video.heads", "devices/video/model", "heads", "4"},
	{"devices.video.accel3d", "devices/video/model/acceleration", "accel3d", "no"},
	{"devices.sound.model", "devices/sound", "model", "ac97"},
	{"devices.audio.path", "devices/audio", "path", "/var/lib/libvirt/hand.wav"},
	{"devices.panic.model", "devices/panic", "model", "hyperv"},
	{"devices.vsock.cid", "devices/vsock/cid", "address", "78"},
	{"devices.iommu.caching_mode", "devices/iommu/driver", "caching_mode", "off"},
	{"devices.inputs.tablet", "devices/input[@type='tablet']", "type", "mouse"},
	{"devices.inputs.mouse", "devices/input/source[@evdev='/dev/input/event70']", "evdev", "/dev/input/event77"},
	{"devices.inputs.keys.grab_toggle", "devices/input/source[@grabToggle='alt-alt']", "grabToggle", "meta-meta"},
	{"devices.inputs.keys.repeat", "devices/input/source[@dev='/dev/input/event71']", "repeat", "off"},
	{"devices.serials.main", "devices/serial/log", "append", "off"},
	{"devices.serials.tcp", "devices/serial/source[@service='4001']", "host", "192.0.2.77"},
	{"devices.serials.udp", "devices/serial/source[@service='4003']", "service", "4077"},
	{"devices.channels.z", "devices/channel/target[@name='org.z']", "name", "org.y"},
	{"devices.redirdevs.usb", "devices/redirdev/source", "service", "7000"},
	{"devices.filesystems.share", "devices/filesystem/source[@dir='/srv']", "dir", "/mnt"},
	{"devices.filesystems.share.cache", "devices/filesystem/binary/cache", "mode", "always"},
	{"devices.filesystems.share.queue_size", "devices/filesystem/driver[@queue='512']", "queue", "256"},
	{"devices.filesystems.share.xattr", "devices/filesystem/binary", "xattr", "off"},
	{"devices.host_devices.gpu.rom_file", "devices/hostdev/rom", "file", "/srv/hand.rom"},
	{"devices.host_devices.gpu.rom_bar", "devices/hostdev/rom", "bar", "off"},
	{"devices.host_devices.key", "devices/hostdev/source/vendor", "id", "0x7777"},
	{"extra_device_xml", "devices/shmem/size", "", "8"},
	{"qemu_commandline.env", "commandline/env", "value", "by hand"},
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
		switch {
		case e.attribute != "":
			found[0].CreateAttr(e.attribute, e.value)
		case e.value != "":
			found[0].SetText(e.value)
		default:
			found[0].Parent().RemoveChild(found[0])
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
