package virtualmachine_test

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccBadInput_plan: what only the hosts can tell is told by the plan, which leaves no trace on them.
func TestAccBadInput_plan(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	own := l.StartHost(t)
	l.Run(t, own.Name, "mount", "--bind", "/dev/null", "/usr/bin/swtpm") // As if it weren't installed.
	l.Virsh(t, own.Name, "net-define", writeDeviceXML(t, `<network><name>asleep</name></network>`))
	l.Define(t, own.Name, `<domain type="qemu"><name>taken</name>
  <uuid>6f0c1a52-7f0e-4d6e-9a3b-0c1d2e3f4a5b</uuid><memory unit="MiB">64</memory><os><type>hvm</type></os>
  <metadata><virtfleet:vm xmlns:virtfleet="urn:virtfleet:1" version="1"
  uuid="6f0c1a52-7f0e-4d6e-9a3b-0c1d2e3f4a5b"><virtfleet:labels>
  <virtfleet:label key="app" value="web"/></virtfleet:labels></virtfleet:vm></metadata></domain>`)
	uuid := strings.TrimSpace(l.Virsh(t, own.Name, "domuuid", "taken"))
	before := creationTraces(t, l, own)

	all := mistakes{
		"type":        {hcl{"type": quote("xen")}, []string{`type`, `"xen"`, `kvm, qemu`}},
		"size_odd":    {hcl{"memory": `{ size = "1.5Mi" }`}, []string{`memory.size`, `1Mi and 2Mi`}},
		"size_none":   {hcl{"memory": `{ max_size = "1Gi" }`}, []string{`memory.size`}},
		"memory_none": {hcl{"memory": ""}, []string{`memory.size`}},
		"size_maximum": {
			hcl{"memory": `{ size = "2Gi", max_size = "1Gi" }`},
			[]string{`memory.max_size`, `less than the size`},
		},
		"disk_pool": {
			hcl{"disks": `{ root = { pool = "absent", size = "1Mi" } }`},
			[]string{`disks.root.pool`, `"` + own.Name + `": it has no storage pool "absent"`, `Correct the name`},
		},
		"disk_pool_of_medium": {
			hcl{"disks": `{ root = { pool = "absent", size = "1Mi" } }`, "cloud_init": `{ user_data = "#cloud-config" }`},
			[]string{`disks.root.pool`, `no storage pool "absent"`},
		},
		"disk_image": {
			hcl{"disks": `{ root = { pool = "default", image = "default/none", size = "1Mi" } }`},
			[]string{`disks.root.image`, own.Name + `": it has no copy of image "default/none"`, `Correct the id`},
		},
		"wait_for_no_interface": {
			hcl{"wait_for": `{ ip_address = "lan" }`},
			[]string{`wait_for.ip_address`, `no interface "lan"`},
		},
		"disk_bus": {
			hcl{"disks": `{ root = { file = "/a", bus = "pcie" } }`},
			[]string{`disks.root.bus`, `"pcie"`, `virtio`},
		},
		"disk_device": {
			hcl{"disks": `{ root = { file = "/a", device = "tape" } }`},
			[]string{`disks.root.device`, `cdrom`},
		},
		"disk_format": {
			hcl{"disks": `{ root = { file = "/a", format = "zip" } }`},
			[]string{`disks.root.format`, `qcow2`},
		},
		"cdrom_bus": {
			hcl{"disks": `{ cd = { device = "cdrom", bus = "virtio" } }`},
			[]string{`disks.cd.bus`, `sata`},
		},
		"model": {
			hcl{"interfaces": `{ lan = { user = true, model = "ne3000" } }`},
			[]string{`interfaces.lan.model`, `e1000`},
		},
		"host": {hcl{"host": quote("kvm9")}, []string{`"kvm9" is not among the configured hosts`, own.Name}},
		"disk_twice": {
			hcl{"disks": `{ a = { file = "/a", format = "raw" }, b = { file = "/a", format = "raw" } }`},
			[]string{`disks.b`, `The disks a and b are the same: /a`},
		},
		"mac_twice": {hcl{"interfaces": `{
    lan = { user = true, mac = "52:54:00:00:00:01" }
    wan = { user = true, mac = "52:54:00:00:00:01" }
  }`}, []string{`interfaces.wan.mac`, `lan and wan have the same address 52:54:00:00:00:01`}},
		"network": {
			hcl{"interfaces": `{ lan = { network = "nowhere" } }`},
			[]string{`no network "nowhere"`, `default`},
		},
		"network_pinned": {
			hcl{"host": quote(own.Name), "interfaces": `{ lan = { network = "nowhere" } }`},
			[]string{`no network "nowhere"`, own.Name},
		},
		"network_asleep": {
			hcl{"host": quote(own.Name), "interfaces": `{ lan = { network = "asleep" } }`},
			[]string{`"asleep" is not started`},
		},
		"tpm_backend": {
			hcl{"host": quote(own.Name), "devices": `{ tpm = {} }`},
			[]string{`it has no devices.tpm.backend "emulator": that needs swtpm and swtpm-tools`},
		},
		"tpm_kept": {
			hcl{"devices": `{ tpm = { model = "spapr-tpm-proxy" } }`},
			[]string{`devices.tpm.model`, `can be kept, but not declared`},
		},
		"bridge": {hcl{"interfaces": `{ lan = { bridge = "br-none" } }`}, []string{`no bridge "br-none"`}},
		"volume": {
			hcl{"disks": `{ root = { volume = "/var/lib/libvirt/images/none.qcow2" } }`},
			[]string{`no volume "/var`, `disks`},
		},
		"disk_file": {
			hcl{"disks": `{ root = { file = "/srv/none.qcow2" } }`},
			[]string{`disks.root.file`, own.Name + `": it has no file "/srv/none.qcow2"`, `Correct the path`},
		},
		"disk_block": {
			hcl{"host": quote(own.Name), "disks": `{ root = { block = "/dev/none" } }`},
			[]string{`disks.root.block`, own.Name + `": it has no file "/dev/none"`, `Correct the path`},
		},
		"cdrom": {
			hcl{"disks": `{ cd = { file = "/srv/none.iso", device = "cdrom" } }`},
			[]string{`disks.cd.file`, `no file "/srv/none.iso"`},
		},
		"kernel": {hcl{"kernel": `{ path = "/boot/none" }`}, []string{`kernel.path`, `no file "/boot/none"`}},
		"initrd": {
			hcl{"kernel": fmt.Sprintf(`{ path = %q, initrd = "/boot/none" }`, l.KernelPath())},
			[]string{`kernel.initrd`, `no file "/boot/none"`},
		},
		"boot_missing": {
			hcl{"firmware": `{ secure_boot = true }`, "disks": `{ root = { file = "/srv/none" } }`},
			[]string{`no file "/srv/none"`},
		},
		"memory":  {hcl{"memory": `{ size = "64Ti" }`}, []string{`memory.size`, `67108864Mi|64Ti`}},
		"machine": {hcl{"machine_type": quote("q36")}, []string{`machine type "q36" .* similar ones that it has: "q35"`}},
		"machine_newer": {
			hcl{"machine_type": quote("pc-q35-99.0")},
			[]string{`machine type "pc-q35-99.0"`, `needs QEMU 99.0.0, it has [1-9]\d?\.\d+\.\d+`},
		},
		"arch":  {hcl{"arch": quote("vax")}, []string{`architecture "vax", only of "`}},
		"vcpus": {hcl{"cpu": `{ vcpus = 400 }`}, []string{`cpu`, `400`, `288`}},
		"cpu_model": {
			hcl{"cpu": `{ mode = "custom", model = "Pentium9" }`},
			[]string{
				`because of cpu.model`, own.Name + `": its libvirt refuses this definition: .*Pentium9`,
				`similar ones that it has: "pentium", "pentium2", "pentium3"`, `model += "Pentium9"`,
			},
		},
		"cpu_feature": {
			hcl{"cpu": `{ mode = "custom", model = "Nehalem", features = { vmxx = "require" } }`},
			[]string{`because of cpu.features`, `Unknown CPU feature .*vmxx|vmxx`},
		},
		"tpm_model": {
			hcl{"host": quote("kvm2"), "devices": `{ tpm = { model = "tpm-spapr" } }`},
			[]string{`because of devices.tpm.model`, `it has no devices.tpm.model "tpm-spapr", only "tpm-tis"`},
		},
		"boot_menu": {hcl{"firmware": `{ boot_menu = { timeout = 5 } }`}, []string{`firmware.boot_menu`}},
		"channel":   {hcl{"devices": `{ channels = { a = { type = "unix" } } }`}, []string{`devices.channels.a.name`}},
		"filesystem": {
			hcl{"devices": `{ filesystems = { a = { target = "a", source = "srv" } } }`},
			[]string{`devices.filesystems.a.source`},
		},
		"virtiofs": {
			hcl{"devices": `{ filesystems = { a = { target = "a", source = "/srv", driver = "virtiofs" } } }`},
			[]string{
				`because of devices.filesystems`, `Add shared = true to memory`,
				own.Name + `": its libvirt refuses this definition: .*'virtiofs' requires shared memory`,
			},
		},
		"panic": {
			hcl{"devices": `{ panic = { model = "pseries" } }`},
			[]string{`because of devices.panic.model`, `refuses this definition: .*pseries`, `Use "isa" or "hyperv" on x86`},
		},
		"watchdog": {
			hcl{"devices": `{ watchdog = { model = "diag288" } }`},
			[]string{`because of devices.watchdog.model`, `refuses this definition: .*diag288`, `Use "i6300esb"`},
		},
		"iommu": {
			hcl{"devices": `{ iommu = { model = "smmuv3" } }`},
			[]string{`because of devices.iommu.model`, `refuses this definition: .*smmuv3`, `"intel" for q35`},
		},
		"spice": {
			hcl{"devices": `{ redirdevs = { usb = { type = "spicevmc" } } }`},
			[]string{
				`because of devices.redirdevs.usb.type`, `refuses this definition: .*spicevmc`, `Set devices.graphics.type`,
			},
		},
		// What a host doesn't have is given to no VM that starts.
		"sriov": {
			hcl{"host": quote(own.Name), "interfaces": `{ fast = { hostdev = "ffff:03:00.1" } }`},
			[]string{`interfaces.fast.hostdev`, own.Name + `": it has no pci device ffff:03:00.1`},
		},
		"vdpa": {
			hcl{"interfaces": `{ fast = { vdpa = "/dev/vhost-vdpa-0" } }`},
			[]string{`interfaces.fast.vdpa`, own.Name + `": it has no vDPA device /dev/vhost-vdpa-0`},
		},
		"gpu": {
			hcl{"devices": `{ host_devices = { gpu = { type = "pci", address = "ffff:65:00.0" } } }`},
			[]string{`devices.host_devices.gpu.address`, own.Name + `": it has no pci device ffff:65:00.0`},
		},
		"sev": {
			hcl{"platform": `{ launch_security = { type = "sev", policy = "0x3" } }`},
			[]string{own.Name + `": it has no platform.launch_security.type "sev": that needs an AMD CPU with SEV`},
		},
		"sev_snp": {
			hcl{"platform": `{ launch_security = { type = "sev-snp", policy = "0x30000" } }`},
			[]string{own.Name + `": .*platform.launch_security.type = "sev-snp" needs libvirt 10.5.0`},
		},
		"tdx": {
			hcl{"platform": `{ launch_security = { type = "tdx" } }`},
			[]string{own.Name + `": .*platform.launch_security.type = "tdx" needs libvirt 11.6.0`},
		},
		"labels": {
			hcl{"placement": `{ host_labels = { zone = "moon" } }`},
			[]string{`zone=moon`, `placement.host_labels`},
		},
		"anti_affinity": {
			hcl{"host": quote(own.Name), "placement": `{ anti_affinity = { labels = { app = "web" }, required = true } }`},
			[]string{`"taken"`, `app=web`},
		},
		"name": {
			hcl{"name": quote("taken")},
			[]string{`"taken" exists already`, own.Name, `terraform import \S+ ` + uuid},
		},
	}
	cli := acctest.NewCLI(t)
	hosts := acctest.Block{Lab: l, Hosts: []acctest.Host{{Of: own}, {Of: l.Host("kvm2")}}}
	cli.Config(t, hosts.String()+all.config(lab.Name(t)))
	said, err := cli.TryText(t, "plan")
	if err == nil {
		t.Error("the plan went through")
	}
	all.check(t, said)
	if after := creationTraces(t, l, own); after != before {
		t.Errorf("a plan wrote to a host:\n%s\nbefore:\n%s", after, before)
	}
}

// creationTraces is everything on a host that a failed creation could leave behind.
func creationTraces(t *testing.T, l *lab.Lab, h *lab.Host) string {
	t.Helper()
	return l.Virsh(t, h.Name, "list", "--all") + l.Virsh(t, h.Name, "secret-list") +
		l.Run(t, h.Name, "find", "/var/lib/libvirt/qemu", "/etc/libvirt/qemu", "/run/libvirt/qemu", "-type", "f")
}

// TestAccBadInput_apply: what shows only when the VM is made leaves nothing of it behind.
func TestAccBadInput_apply(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	own := l.StartHost(t)
	raw := l.Image(t, own.Name, "raw.img", "raw", 1<<20)
	export := l.NBD(t, lab.Name(t), 1<<20)
	silent := net.JoinHostPort(export.Host, "1")
	nbd := func(name, host string) string {
		return fmt.Sprintf(`{ root = { network = { protocol = "nbd", name = %q, hosts = [%q] } } }`, name, host)
	}
	before := creationTraces(t, l, own)
	all := mistakes{
		"disk_format": {
			hcl{"disks": fmt.Sprintf(`{ root = { file = %q, format = "qcow2" } }`, raw)},
			[]string{
				`does not start; nothing of it was left`, `Host: ` + own.Name, `not in qcow2 format`,
				`/var/log/libvirt/qemu/\S+disk_format.log`,
			},
		},
		"nbd_silent":  {hcl{"disks": nbd("a", silent)}, []string{`Connection refused`}},
		"nbd_unknown": {hcl{"disks": nbd("unknown", export.Address())}, []string{`unknown`}},
	}
	cli := acctest.NewCLI(t)
	cli.Config(t, acctest.Block{Lab: l, Hosts: []acctest.Host{{Of: own}}}.String()+all.config(lab.Name(t)))
	said, err := cli.TryText(t, "apply")
	if err == nil {
		t.Error("the apply went through")
	}
	all.check(t, said)
	if after := creationTraces(t, l, own); after != before {
		t.Errorf("something was left behind:\n%s\nbefore:\n%s", after, before)
	}
}

// TestBadInput_duplicateName: two resources of one name are refused by the plan, whichever of them Terraform plans
// first, be both new or one of them there.
func TestBadInput_duplicateName(t *testing.T) {
	t.Parallel()
	const name = "test" // The VM that libvirt's built-in driver comes with.
	twin := hcl{"name": quote(name), "memory": `{ size = "64Mi" }`}
	cli := acctest.NewCLI(t)
	refused := func(name string) {
		t.Helper()
		said := cli.Fail(t, "plan")
		expect(t, said, "Error: Duplicate virtual machine name", `have the name "`+name+`"`, "Choose another name")
		if n := strings.Count(said, "Error: "); n != 1 {
			t.Errorf("got %d errors, want one:\n%s", n, said)
		}
	}
	cli.Config(t, builtIn+hcl{"name": quote(name)}.String())
	cli.Run(t, "import", address, name)
	cli.Config(t, builtIn+hcl{"name": quote(name)}.String()+twin.named("twin"))
	refused(name)

	cli.Run(t, "state", "rm", address)
	twin = twin.with(hcl{"name": quote("new"), "arch": quote("i686")})
	cli.Config(t, builtIn+twin.named("one")+twin.named("two"))
	refused("new")
}
