package virtualmachine_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccCompute_runs: the CPUs and the memory of a VM that runs are tuned as far as this host can, changed while it
// runs, imported, and put right after a drift. What can't change while it runs, or what the host lacks, is refused.
func TestAccCompute_runs(t *testing.T) {
	t.Parallel()
	s := newTale(t)
	cpu := func(numa, pin string) string {
		return fmt.Sprintf(`{ sockets = 2, cores = 2, dies = 1, mode = "custom", model = "Nehalem",
    features = { vme = "disable", x2apic = "optional" }, numa = %s, %s }`, numa, pin)
	}
	cells := `{
      0 = { cpus = "0-1", memory = "32Mi", memory_access = "shared", distances = { 1 = 21 } }
      1 = { cpus = "2-3", memory = "32Mi", discard = true, distances = { 0 = 21 } }
    }`
	memory := func(more string) string {
		return `{ size = "64Mi", source = "memfd", shared = true, nosharepages = true, allocation = "ondemand"
    numatune = { mode = "strict", nodeset = "0", cells = { 0 = { mode = "preferred", nodeset = "0" } } }
    balloon  = { autodeflate = true, free_page_reporting = true, stats_period = 5 }` + more + ` }`
	}
	s.apply(hcl{
		"cpu": cpu(cells, `pin = { 0 = "0", 3 = "0-1" }, emulator_pin = "0-1", iothread_pin = { 1 = "0-1", 2 = "1" }
    scheduler = { 0 = { type = "batch" }, 1 = { type = "idle" }, 2 = { type = "batch" } }
    iothread_scheduler = { 2 = { type = "batch" } }, emulator_scheduler = { type = "batch" }`),
		"memory":   memory(`, max_size = "1Gi"`),
		"platform": `{ iothreads = 2, seclabel = { dac = { type = "static", label = "+0:+0", relabel = true } } }`,
		"devices": `{
      virtio_mem  = { a = { size = "128Mi", requested = "32Mi", node = 1 } }
      filesystems = { share = { target = "share", source = "/srv" } }
    }`,
	}, plancheck.ResourceActionCreate, []string{
		"<cell id='0' cpus='0-1' memory='32768' unit='KiB' memAccess='shared'>", "<sibling id='1' value='21'/>",
		"<cell id='1' cpus='2-3' memory='32768' unit='KiB' discard='yes'>", "<sibling id='0' value='21'/>",
		"<requested unit='KiB'>32768<", "<node>1<", "<block unit='KiB'>2048<", "<memory unit='KiB'>196608<",
		"<seclabel type='static' model='dac' relabel='yes'>", "<memory mode='strict' nodeset='0'/>",
		"<memnode cellid='0' mode='preferred' nodeset='0'/>", "<feature policy='disable' name='vme'/>",
		"<vcpupin vcpu='0' cpuset='0'/>", "<vcpupin vcpu='3' cpuset='0-1'/>", "<emulatorpin cpuset='0-1'/>",
		"<source type='memfd'/>", "<access mode='shared'/>", "<nosharepages/>", "<allocation mode='ondemand'/>",
		"<iothreadpin iothread='2' cpuset='1'/>", "autodeflate='on'", "freePageReporting='on'", "<stats period='5'/>",
		"dies='1'", "<driver type='virtiofs'", "<target dir='share'/>",
		"<vcpusched vcpus='0' scheduler='batch'/>", "<vcpusched vcpus='1' scheduler='idle'/>",
		"<iothreadsched iothreads='2' scheduler='batch'/>", "<emulatorsched scheduler='batch'/>",
	}, nil, know("cpu.numa.1.memory_access", knownvalue.Null()), know("cpu.numa.0.cpus", exactly("0-1")),
		know("memory.size", exactly("64Mi")), know("devices.virtio_mem.a.block", exactly("2Mi")))
	s.imported("cpu.features", "cpu.migratable", "memory.balloon")
	s.apply(hcl{
		"cpu":    cpu(cells, `pin = { 0 = "1", 3 = "0-1" }, emulator_pin = "0", iothread_pin = { 1 = "0", 2 = "0" }`),
		"memory": strings.Replace(memory(""), "stats_period = 5", "stats_period = 7", 1),
		"devices": `{ virtio_mem = {
      a = { size = "128Mi", requested = "64Mi", node = 1 }
      b = { size = "64Mi", requested = "0" }
    } }`,
	}, plancheck.ResourceActionUpdate, []string{
		"<requested unit='KiB'>65536<", "<alias name='ua-virtio-mem-b'/>", "<memory unit='KiB'>262144<",
		"<vcpupin vcpu='0' cpuset='1'/>", "<emulatorpin cpuset='0'/>", "<iothreadpin iothread='2' cpuset='0'/>",
		"<stats period='7'/>",
	}, nil)
	s.refuse(hcl{"host": quote("kvm2")}, "VirtIOFSNotLiveMigratable")
	s.drift([]string{"<vcpupin vcpu='0' cpuset='1'/>"}, "vcpupin", s.name, "0", "0-1", "--live", "--config")
	pins := `pin = { 0 = "1", 3 = "0-1" }, emulator_pin = "0"`
	s.refuse(hcl{"cpu": cpu(cells, pins+`, scheduler = { 0 = { type = "idle" } }`)}, "Change needs a restart",
		"cpu.scheduler: The scheduler of threads is set when the VM starts")
	s.refuse(hcl{
		"update_policy": quote("Restart"), "cpu": cpu(cells, pins+`, scheduler = { 4 = { type = "idle" } }`),
	}, "cpu.scheduler", "There is no virtual CPU 4")
	const cache = `
    cachetune = { "0-1" = { caches = { "l3/0" = "3Mi" } } }`
	s.refuse(hcl{"update_policy": quote("Restart"), "cpu": cpu(cells, pins+cache)}, "cpu.cachetune",
		`Only a VM of type "kvm"`)
	kvm := hcl{"update_policy": quote("Restart"), "type": quote("kvm")}
	s.refuse(kvm.with(hcl{"cpu": cpu(cells, pins+cache)}), "cpu.cachetune",
		"it can't allocate L3 cache 0 to the virtual CPUs 0-1: that needs a CPU with CAT",
		"Use parts that a host can allocate")
	s.refuse(kvm.with(hcl{"cpu": cpu(cells, pins+`
    memorytune = { 0 = { bandwidth = { 0 = 60 } } }`)}), "cpu.memorytune", "it can't allocate memory bandwidth 0",
		"Use parts that a host can allocate")
	s.refuse(hcl{"cpu": cpu(strings.Replace(cells, `"0-1"`, `"0-2"`, 1), pins)}, "cpu.numa.1.cpus",
		"Virtual CPU 2 is in cell 0, too")
	s.refuse(hcl{"cpu": cpu(strings.ReplaceAll(cells, "32Mi", "16Mi"), pins)}, "The cells have 32 MiB together",
		"memory.size is 64 MiB")
	s.refuse(hcl{"cpu": cpu(strings.ReplaceAll(cells, `"2-3"`, `"2-4"`), pins)}, "The VM has virtual CPUs 0 to 3")
	s.refuse(hcl{"cpu": cpu(strings.Replace(cells, "shared", "private", 1), pins)}, "Change needs a restart",
		"cpu.numa: The guest finds its NUMA cells when it starts")
	s.refuse(hcl{"devices": `{ virtio_mem = {} }`}, "Change needs a restart",
		"devices.virtio_mem.a: A memory device can't be unplugged while the VM runs")
	s.refuse(hcl{"devices": `{ virtio_mem = { a = { size = "2Gi" } } }`, "update_policy": quote("Restart")},
		"memory.max_size", "The VM has 1024 MiB, and with the whole size of its memory devices 2112 MiB")
	s.refuse(hcl{"platform": `{ seclabel = { selinux = { type = "none" } } }`, "update_policy": quote("Restart")},
		"platform.seclabel", "it has no security driver selinux, only none, dac")
	s.refuse(hcl{"platform": `{ seclabel = {} }`}, "Change needs a restart",
		"platform.seclabel: QEMU keeps the security label that it started with")
	s.refuse(hcl{"cpu": cpu(cells, `pin = { 0 = "777", 3 = "0" }, emulator_pin = "0"`)}, "cpu.pin", "it has no CPU 777")
	s.refuse(hcl{"memory": strings.Replace(memory(""), `mode = "strict"`, `mode = "none"`, 1)}, "memory.numatune.mode",
		"The nodes need a mode")
	restart := func(memory string) hcl { return hcl{"memory": memory, "update_policy": quote("Restart")} }
	s.refuse(restart(strings.Replace(memory(""), `nodeset = "0", cells`, `nodeset = "0-7", cells`, 1)),
		"memory.numatune.nodeset", "it has no NUMA node 1-7")
	s.refuse(restart(memory(`, huge_pages = "64Ki"`)), "memory.allocation",
		`Huge pages are allocated at once, not "ondemand"`)
	pages := func(size string) hcl {
		return restart(strings.Replace(memory(", huge_pages = "+quote(size)), `, allocation = "ondemand"`, "", 1))
	}
	s.refuse(pages("1Gi"), "memory.huge_pages", "A page of 1Gi doesn't fit into the memory of cell 0")
	s.refuse(pages("64Ki"), "memory.huge_pages", "it has no pages of 64Ki")
	s.runSteps()
}

// TestAccCompute_off: what this host can't run is defined, imported, changed, put right after a drift and removed in a
// VM that is off.
func TestAccCompute_off(t *testing.T) {
	t.Parallel()
	s := newTale(t)
	has := func(parts ...string) resource.TestCheckFunc { return look(t, s.l, "kvm1", s.name, parts...) }
	step := func(change hcl, action plancheck.ResourceActionType, checks ...resource.TestCheckFunc) {
		s.config = s.config.with(change)
		s.steps = append(s.steps, resource.TestStep{
			Config: acctest.OneHost(s.l) + s.config.String(), ConfigPlanChecks: changes(action),
			Check: resource.ComposeAggregateTestCheckFunc(checks...),
		})
	}
	step(hcl{
		"run_strategy": quote("Halted"),
		"cpu": `{ vcpus = 2, mode = "maximum", migratable = false, shares = 2048, quota = 50000, period = 100000
    global_quota = 90000, emulator_period = 50000, emulator_quota = 20000
    iothread_period = 60000, iothread_quota = 30000
    scheduler = { 0 = { type = "fifo", priority = 3 }, 1 = { type = "fifo", priority = 3 } }
    iothread_scheduler = { 1 = { type = "rr", priority = 2 } }, emulator_scheduler = { type = "fifo", priority = 1 }
    numa = { 0 = { cpus = "0-1", memory = "32Mi" }, 1 = { memory = "32Mi" } } }`,
		"memory": `{ size = "64Mi", source = "file", locked = true, hard_limit = "1Gi", soft_limit = "512Mi"
    swap_hard_limit = "2Gi", discard = true, balloon = { model = "none" }
    numatune = { mode = "interleave", nodeset = "0" } }`,
		"platform": `{ iothreads = 1, resources = { partition = "/machine/prod", blkio_weight = 300, blkio_devices = {
    "/dev/disk/by-id/a.1" = { weight = 200, read_bytes_sec = 1000000 }, "/dev/b" = { write_iops_sec = 50 } } } }`,
	}, plancheck.ResourceActionCreate, has("<shares>2048<", "<quota>50000<", "<period>100000<",
		"<global_quota>90000<", "<emulator_period>50000<", "<emulator_quota>20000<", "<iothread_period>60000<",
		"<iothread_quota>30000<", "<partition>/machine/prod<", "<weight>300<", "migratable='off'",
		"<source type='file'/>", "<locked/>", "<hard_limit unit='KiB'>1048576<", "<soft_limit unit='KiB'>524288<",
		"<swap_hard_limit unit='KiB'>2097152<", "<discard/>", "<memballoon model='none'",
		"<cell id='1' memory='32768' unit='KiB'/>", "<memory mode='interleave' nodeset='0'/>",
		"<vcpusched vcpus='0' scheduler='fifo' priority='3'/>", "<vcpusched vcpus='1' scheduler='fifo' priority='3'/>",
		"<iothreadsched iothreads='1' scheduler='rr' priority='2'/>", "<emulatorsched scheduler='fifo' priority='1'/>",
		"<path>/dev/disk/by-id/a.1<", "<weight>200<", "<read_bytes_sec>1000000<", "<path>/dev/b<", "<write_iops_sec>50<"))
	s.imported()
	s.refuse(hcl{"memory": `{ size = "64Mi", huge_pages = "2Mi" }`}, "hugetlbfs filesystem is not mounted",
		"Mount hugetlbfs for pages of this size")
	step(hcl{
		"cpu": `{ vcpus = 2, mode = "maximum", shares = 0, quota = 60000, emulator_quota = 0
    numa = { 0 = { cpus = "0-1", memory = "64Mi" } }
    scheduler = { 0 = { type = "batch" } }, iothread_scheduler = {}, emulator_scheduler = { type = "none" } }`,
		"memory": `{ size = "64Mi", locked = false, hard_limit = "0", soft_limit = "256Mi"
    numatune = { mode = "none", nodeset = "" } }`,
		"platform": `{ features = { acpi = true, vmport = false }, resources = { partition = "", blkio_weight = 0
    blkio_devices = { "/dev/disk/by-id/a.1" = { read_bytes_sec = 2000000 } } } }`,
		"devices": fmt.Sprintf(`{
    rng          = { rate_bytes = 2048 }
    watchdog     = { action = "pause" }
    vsock        = { cid = 77 }
    host_devices = { gpu = { type = "pci", address = %q } }
    redirdevs    = { usb = { type = "tcp", host = "10.0.0.1", service = "4000" } }
  }`, pciDevices(t, s.l, "kvm1")[0]),
	}, plancheck.ResourceActionUpdate, has("<quota>60000<", "<soft_limit unit='KiB'>262144<", "<swap_hard_limit",
		"<cell id='0' cpus='0-1' memory='65536' unit='KiB'/>", "<vcpusched vcpus='0' scheduler='batch'/>",
		"<read_bytes_sec>2000000<"),
		lacks(t, s.l, "kvm1", s.name, "<shares>", "<locked/>", "<hard_limit", "<cell id='1'", "<numatune", "<emulator_quota>",
			"<partition", "<weight>", "/dev/b", "<iothreadsched", "<emulatorsched", "'fifo'"))
	s.refuse(hcl{"platform": `{ resources = { blkio_devices = { sda = { weight = 5 } } } }`},
		"platform.resources.blkio_devices", `The key "sda" isn't the absolute path`)
	step(nil, plancheck.ResourceActionUpdate, has("<cell id='0' cpus='0-1' memory='65536' unit='KiB'/>", "<quota>60000<",
		"<vcpusched vcpus='0' scheduler='batch'/>", "<read_bytes_sec>2000000<", "<acpi/>", "<vmport state='off'/>",
		"<rate bytes='2048'", "action='pause'", "<cid auto='no' address='77'/>", "ua-host-device-gpu", "ua-redirdev-usb",
		"<source mode='connect' host='10.0.0.1' service='4000'/>"),
		lacks(t, s.l, "kvm1", s.name, "'idle'", "/dev/zero"))
	s.steps[len(s.steps)-1].ConfigPlanChecks = changes(plancheck.ResourceActionUpdate, differs{
		"cpu.quota", "cpu.numa", "cpu.scheduler", "platform.resources.blkio_devices",
		"platform.features.acpi", "platform.features.vmport", "devices.rng.rate_bytes", "devices.watchdog.action",
		"devices.vsock.cid", "devices.host_devices.gpu", "devices.redirdevs.usb",
	})
	s.steps[len(s.steps)-1].PreConfig = func() {
		s.l.Virsh(t, "kvm1", "blkiotune", s.name, "--device-write-iops-sec", "/dev/zero,7", "--config")
		for _, alias := range []string{"ua-host-device-gpu", "ua-redirdev-usb"} {
			s.l.Virsh(t, "kvm1", "detach-device-alias", s.name, alias, "--config")
		}
		xml := s.l.Virsh(t, "kvm1", "dumpxml", "--inactive", s.name)
		s.l.Define(t, "kvm1", strings.NewReplacer("<quota>60000<", "<quota>70000<", "scheduler='batch'", "scheduler='idle'",
			"memory='65536' unit='KiB'/>", "memory='65536' unit='KiB' memAccess='private'/>",
			"<acpi/>", "", "<vmport state='off'/>", "<vmport state='on'/>", "<rate bytes='2048'", "<rate bytes='4096'",
			"action='pause'", "action='reset'", "address='77'", "address='78'").Replace(xml))
	}
	step(hcl{
		"cpu":      `{ vcpus = 2, numa = {}, quota = 0, scheduler = {} }`,
		"platform": `{ resources = { blkio_devices = {} } }`,
	}, plancheck.ResourceActionUpdate, lacks(t, s.l, "kvm1", s.name, "<numa>", "<quota>", "<vcpusched", "<blkiotune"))
	s.runSteps()
}
