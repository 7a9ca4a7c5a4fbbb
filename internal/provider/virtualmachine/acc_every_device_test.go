package virtualmachine_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// everyDevice is a VM with each kind of device and setting at once. The lab couldn't start it: it has neither the
// cards nor the helpers.
func everyDevice(t *testing.T, l *lab.Lab, host, name, persistent string) hcl {
	t.Helper()
	disk := func(key string) string {
		export := l.NBD(t, name+"-"+key, 1<<20)
		return fmt.Sprintf(`network = { protocol = "nbd", name = %q, hosts = [%q] }`, export.Name, export.Address())
	}
	scratch := l.Image(t, host, name+".qcow2", "qcow2", 1<<20)
	pci := pciDevices(t, l, host)
	return hcl{
		"name": quote(name), "type": quote("qemu"), "run_strategy": quote("Halted"), "host": quote(host),
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
      bridge = "br-lab", mtu = 1400, queues = 2, isolated = true
      driver = { name = "qemu", rx_queue_size = 512, host_offloads = { tso4 = false }, guest_offloads = { ufo = true } }
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
    trunk  = {
      bridge = "br-lab", virtual_port = { type = "openvswitch", profile_id = "prod" }
      vlan   = { tags = [7, 8], native_tag = 7, native_mode = "tagged" }
    }
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
    second_graphics = { listen = "none", gl = true, rendernode = "/dev/dri/renderD128" }
    video       = { model = "virtio", heads = 2, accel3d = true }
    sound       = { model = "ich9" }
    audio       = { type = "file", path = "/var/lib/libvirt/audio.wav" }
    panic       = { model = "isa" }
    vsock       = { cid = 77 }
    iommu       = { caching_mode = true }
    smartcard   = { mode = "host" }
    inputs      = {
      tablet = { type = "tablet" }
      mouse  = { type = "passthrough", device = "/dev/input/event70" }
      keys   = { type = "evdev", device = "/dev/input/event71", grab = "all", repeat = true, grab_toggle = "alt-alt" }
    }
    serials     = {
      main = { type = "pty", log_file = "/var/log/main", log_append = true }
      pci  = { type = "null", target_type = "pci-serial" }
      usb  = { type = "null", target_type = "usb-serial" }
      line = { type = "dev", path = "/dev/ttyS7" }
      tcp  = {
        type = "tcp", host = "192.0.2.9", service = "4001", protocol = "telnet", reconnect = 5
        target_type = "pci-serial"
      }
      udp  = {
        type = "udp", host = "192.0.2.9", service = "4002", bind_host = "0.0.0.0", bind_service = "4003"
        target_type = "pci-serial"
      }
    }
    consoles    = { a = { type = "pty", log_file = "/var/log/a", log_append = true } }
    channels    = { z = { type = "unix", name = "org.z" } }
    redirdevs   = { usb = { type = "tcp", host = "10.0.0.1", service = "4000" } }
    filesystems = {
      share = { target = "share", source = "/srv", cache = "none", queue_size = 512, xattr = true }
      slow  = { target = "slow", source = "/mnt", driver = "9p", access_mode = "mapped" }
    }
    host_devices = {
      gpu  = { type = "pci", address = %q, rom_file = "/srv/gpu.rom", rom_bar = true }
      key  = { type = "usb", address = "1234:abcd" }
      vgpu = { type = "mdev", address = "6a9ae2dc-22f3-4d0c-a8d8-0a9b2f1dca10" }
      tape = { type = "scsi", address = "2:0:1:5" }
    }
    virtio_mem = { a = { size = "128Mi", requested = "32Mi", node = 1 } }
    nvdimms    = { log = { path = %q, size = "128Mi", label_size = "128Ki", align_size = "2Mi", node = 1 } }
  }`, pci[1], persistent),
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
    second_graphics = { type = "none" }, audio = { type = "none" }
    video = { model = "none" }, sound = { model = "none" }, panic = { model = "none" }, vsock = { model = "none" }
    iommu = { model = "none" }, smartcard = { mode = "none" }, inputs = {}, serials = {}, consoles = {}, channels = {}
    redirdevs = {}, filesystems = {}, host_devices = {}, virtio_mem = {}, nvdimms = {}
  }`,
	"extra_device_xml": `{}`, "qemu_commandline": `{ args = [], env = {} }`,
}

// tagsOfEveryDevice are the elements that are gone after that.
var tagsOfEveryDevice = []string{
	"<title", "<description", "<cputune", "<numatune", "<distances", "<memtune", "<locked", "<nosharepages", "<allocation",
	"type='memfd'", "memballoon model='virtio'", "<memory model", "firmware='efi'", "<bootmenu enable='yes'", "<disk ",
	"<interface ", "<iothreads", "ua-port", "<spinlocks", "<resource>", "<blkiotune", "<seclabel", "<sysinfo", "<tpm",
	"<rng", "<watchdog model='i6300esb'", "<graphics", "<sound", "audio.wav", "<panic", "<vsock", "<iommu", "<smartcard",
	"type='tablet'", "/dev/input", "<serial", "<console", "org.z", "<redirdev", "<filesystem", "<hostdev", "<shmem",
	"qemu:",
}

// TestAccEveryDevice: a VM that is off has every device and setting at once. It is imported with the configuration that
// Terraform writes; whatever a user edits is in the plan by its name, and an apply repairs that and nothing else; what
// prevents its move is said alike by the plan of the move, by data sources and by the plan of a drain; it moves as it
// is; and one apply removes all of them.
func TestAccEveryDevice(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	tf := acctest.NewCLI(t)
	one, two := l.StartHost(t), l.StartHost(t) // A plan of a drain shows all VMs of a host.
	config := everyDevice(t, l, one.Name, name, nvdimmFile(t, l, name, one.Name, two.Name))
	defined := func(host string) string { return l.Virsh(t, host, "dumpxml", "--inactive", "--security-info", name) }
	block := acctest.Block{Lab: l, Hosts: []acctest.Host{{Of: one}, {Of: two}}}.String() + fmt.Sprintf(`
resource "virtfleet_network_filter" "address" {
  name  = %q
  hosts = [%q, %q]
  rules = [{ action = "drop", direction = "out", protocol = "ip", match = { srcipaddr = "$IP" }, negate = true }]
}
`, name, one.Name, two.Name)
	apply := func(change hcl) {
		t.Helper()
		config = config.with(change)
		tf.Config(t, block+config.String())
		tf.Run(t, "apply")
		noChanges(t, tf)
	}
	apply(nil)
	l.Define(t, one.Name, defined(one.Name)) // libvirt sorts controllers of its own when it reads them again.
	created := defined(one.Name)
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
	unchanged(one.Name, "the import")

	l.Define(t, one.Name, editAll(t, created))
	expectDiffers(t, tf.Plan(t)[address], editsOfEveryDevice)
	apply(nil)
	unchanged(one.Name, "the repair")

	// The other host has only the PCI device.
	tf.Config(t, block+config.with(hcl{"host": quote(two.Name)}).String())
	refused := tf.Fail(t, "plan")
	expect(t, refused, "can't be moved: HostResourcesNotAvailable", "interfaces.vdpa.vdpa",
		`host "`+two.Name+`" has no vDPA device /dev/vhost-vdpa-0`)
	for _, device := range []string{"usb device 1234:abcd", "scsi device 2:0:1:5", "mdev device"} {
		expect(t, refused, `host "`+two.Name+`" has no `+device)
	}
	expect(t, refused, "DisksNotLiveMigratable", "it has persistent memory in", "of its host, which isn't copied")
	var lacking []string
	for _, device := range []string{"usb device 1234:abcd", "scsi device 2:0:1:5", "mdev device", "vDPA device"} {
		lacking = append(lacking, fmt.Sprintf("HostResourcesNotAvailable: host %q has no %s", two.Name, device))
	}
	blockersEverywhere(t, tf, block, config, one.Name, two.Name, lacking...)
	leaves := strings.NewReplacer("key  =", "#", "vgpu =", "#", "tape =", "#", "nvdimms    =", "nvdimms = {} #")
	apply(hcl{
		"devices":    leaves.Replace(config["devices"]),
		"interfaces": strings.Replace(config["interfaces"], `vdpa = "/dev/vhost-vdpa-0"`, "user = true", 1),
		"disks":      strings.Replace(config["disks"], "scratch =", "#", 1),
	})
	l.Define(t, one.Name, defined(one.Name))
	created = defined(one.Name)
	apply(hcl{"host": quote(two.Name)})
	unchanged(two.Name, "the move")

	apply(noDevices)
	if err := lacks(t, l, two.Name, name, tagsOfEveryDevice...)(nil); err != nil {
		t.Error(err)
	}
	destroyAndCheck(t, l, tf, name)
}

// blockersEverywhere expects the data sources to say of the VM on one host what keeps it from the other, each as
// "reason: message", as the plan of the move does. A drain of the host must not meet the VM's pin.
func blockersEverywhere(t *testing.T, tf *acctest.CLI, block string, config hcl, one, two string, blockers ...string) {
	t.Helper()
	tf.Config(t, block+config.with(hcl{"host": ""}).String()+fmt.Sprintf(`
data "virtfleet_conditions" "this" {
  virtual_machine_id = %[1]s.id
  target_host        = %[3]q
}
data "virtfleet_migration_candidates" "this" {
  virtual_machine_id = %[1]s.id
}
data "virtfleet_evacuation_plan" "this" {
  host         = %[2]q
  move_stopped = true
  depends_on   = [%[1]s]
}
output "conditions" {
  value = [for b in data.virtfleet_conditions.this.blockers : "${b.reason}: ${b.message}"]
}
output "candidates" {
  value = [for b in data.virtfleet_migration_candidates.this.hosts[%[3]q].blockers : "${b.reason}: ${b.message}"]
}
output "evacuation" {
  value = one([for s in data.virtfleet_evacuation_plan.this.steps : s.blockers if s.virtual_machine_id == %[1]s.id])
}
`, address, one, two))
	tf.Run(t, "apply")
	for _, output := range []string{"conditions", "candidates", "evacuation"} {
		got := strings.ReplaceAll(tf.Run(t, "output", output), `\"`, `"`)
		for _, want := range blockers {
			if !strings.Contains(got, want) {
				t.Errorf("%s don't say %q:\n%s", output, want, got)
			}
		}
	}
}
