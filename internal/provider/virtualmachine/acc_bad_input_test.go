package virtualmachine_test

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/virtualmachine"
)

// mistake is a configuration that can't work, and what its user reads: regular expressions, each of which matches.
type mistake struct {
	in   hcl
	says []string
}

// mistakes are cases by name, which is the name of the resource, too.
type mistakes map[string]mistake

// tinyVM is a VM that could be made, were it not for the mistake.
func tinyVM(name string) hcl {
	return hcl{
		"name": quote(name), "type": quote("qemu"), "memory": `{ size = "64Mi" }`, "termination_grace_period": quote("0s"),
	}
}

// config is one configuration with all of the mistakes: they don't hide each other, and one command shows them all.
func (all mistakes) config(prefix string) string {
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(all)) {
		b.WriteString(tinyVM(prefix + "-" + key).with(all[key].in).named(key))
	}
	return b.String()
}

// aboutResource finds which resource an error is about.
var aboutResource = regexp.MustCompile(`with ` + regexp.QuoteMeta(virtualmachine.TypeName) + `\.(\w+),`)

// check finds each mistake's errors in what Terraform printed, and nothing else there. Only one stage can have printed
// something: Terraform doesn't plan what isn't valid, nor apply what can't be planned.
func (all mistakes) check(t *testing.T, printed string) {
	t.Helper()
	said := map[string][]string{}
	for _, message := range strings.Split("\n"+printed, "\nError: ")[1:] {
		found := aboutResource.FindStringSubmatch(message)
		if found == nil {
			t.Errorf("this is about no resource:\n%s", message)
			continue
		}
		said[found[1]] = append(said[found[1]], message)
	}
	for _, key := range slices.Sorted(maps.Keys(all)) {
		t.Run(key, func(t *testing.T) {
			if len(said[key]) != 1 {
				t.Errorf("got %d errors, want one", len(said[key]))
			}
			message := strings.Join(said[key], "\n\n")
			t.Logf("Error: %s", message)
			flat := strings.Join(strings.Fields(message), " ")
			for _, want := range all[key].says {
				if !regexp.MustCompile(want).MatchString(flat) {
					t.Errorf("it doesn't say %q", want)
				}
			}
		})
		delete(said, key)
	}
	for key := range said {
		t.Errorf("%s isn't a case", key)
	}
}

// TestBadInput_validate: what needs no host to be refused is refused without one.
func TestBadInput_validate(t *testing.T) {
	t.Parallel()
	all := mistakes{
		"size_unit": {
			hcl{"memory": `{ size = "2 Gb" }`},
			[]string{`"2 Gb" is not a valid quantity`, `such as "2Gi"`},
		},
		"size_negative": {
			hcl{"memory": `{ size = "-1Gi" }`},
			[]string{`"-1Gi" is not a valid quantity: it isn't greater`},
		},
		"size_bytes":   {hcl{"memory": `{ size = "1000" }`}, []string{`1000`, `KiB`}},
		"name_slash":   {hcl{"name": quote("a/b")}, []string{`name`, `slashes`}},
		"name_empty":   {hcl{"name": quote("")}, []string{`name`}},
		"name_control": {hcl{"name": `"a\u0007b"`}, []string{`name`}},
		"name_long":    {hcl{"name": quote(strings.Repeat("n", 201))}, []string{`name`, `at most 200 bytes`}},
		"mac": {
			hcl{"interfaces": `{ lan = { user = true, mac = "52:54:00:zz:00:01" } }`},
			[]string{`interfaces.lan.mac: "52:54:00:zz:00:01" isn't a MAC`},
		},
		"mac_multicast": {
			hcl{"interfaces": `{ lan = { user = true, mac = "53:54:00:00:00:01" } }`}, []string{`groups`},
		},
		"interface_two_sources": {
			hcl{"interfaces": `{ lan = { network = "default", bridge = "br0" } }`}, []string{`network`, `bridge`},
		},
		"interface_no_source": {
			hcl{"interfaces": `{ lan = { model = "virtio" } }`},
			[]string{`network, bridge, direct, user`},
		},
		"interface_key": {hcl{"interfaces": `{ "l an" = { user = true } }`}, []string{`letters, digits`}},
		"disk_two_sources": {
			hcl{"disks": `{ root = { file = "/a", block = "/dev/b" } }`}, []string{`file and block are`},
		},
		"disk_no_unit": {hcl{"disks": `{ root = { pool = "default", size = "20" } }`}, []string{`20 bytes`, `20Gi`}},
		"disk_image_name": {
			hcl{"disks": `{ root = { pool = "default", image = "debian-12" } }`},
			[]string{`disks.root.image: "debian-12" isn't the id`, `write virtfleet_image.<name>.id`},
		},
		"disk_no_source":     {hcl{"disks": `{ root = { bus = "virtio" } }`}, []string{`needs a source`}},
		"disk_key":           {hcl{"disks": `{ "a.b" = { file = "/a" } }`}, []string{`letters, digits`}},
		"disk_relative_path": {hcl{"disks": `{ root = { file = "a.qcow2" } }`}, []string{`absolute path`}},
		"tpm_model": {
			hcl{"devices": `{ tpm = { model = "tmp" } }`}, []string{`devices.tpm.model: "tmp" isn't one of tpm-crb`},
		},
		"tpm_version": {
			hcl{"devices": `{ tpm = { model = "tpm-crb", version = "1.2" } }`}, []string{`version 2.0 only`},
		},
		"rng_rate": {
			hcl{"devices": `{ rng = { rate_period = 10 } }`}, []string{`devices.rng.rate_period: .* needs rate_bytes`},
		},
		"rng_none":    {hcl{"devices": `{ rng = { model = "none", backend = "random" } }`}, []string{`isn't there`}},
		"watchdog":    {hcl{"devices": `{ watchdog = { action = "bark" } }`}, []string{`"bark" isn't one of reset`}},
		"title_lines": {hcl{"title": `"a\nb"`}, []string{`A title is one line`}},
		"events": {
			hcl{"platform": `{ events = { on_poweroff = "restart", on_reboot = "destroy" } }`}, []string{`QEMU can't start`},
		},
		"disk_cache": {
			hcl{"disks": `{ root = { file = "/a", cache = "fast" } }`},
			[]string{`"fast" isn't one of`, `none`},
		},
		"nbd_host": {
			hcl{"disks": `{ root = { network = { protocol = "nbd", name = "a", hosts = ["10.0.0.1:"] } } }`},
			[]string{`"10.0.0.1:" isn't host:port`},
		},
		"nbd_no_host": {
			hcl{"disks": `{ root = { network = { protocol = "nbd", name = "a", hosts = [] } } }`}, []string{`At least one host`},
		},
		"protocol": {
			hcl{"disks": `{ root = { network = { protocol = "smb", name = "a", hosts = ["b:1"] } } }`},
			[]string{`disks.root.network.protocol: "smb" isn't one of`},
		},
		"boot_order_twice": {hcl{"disks": `{
    root = { file = "/a", boot_order = 1 }
    data = { file = "/b", boot_order = 1 }
  }`}, []string{`boot order`, `disks.data`}},
		"boot_order_zero": {hcl{"disks": `{ root = { file = "/a", boot_order = -1 } }`}, []string{`from 1`}},
		"secure_boot":     {hcl{"firmware": `{ type = "bios", secure_boot = true }`}, []string{`"efi"`}},
		"secure_boot_pc": {
			hcl{"machine_type": quote("pc"), "firmware": `{ type = "efi", secure_boot = true }`}, []string{`"q35"`},
		},
		"firmware":     {hcl{"firmware": `{ type = "uefi" }`}, []string{`"uefi" isn't one of bios, efi`}},
		"initrd_alone": {hcl{"kernel": `{ initrd = "/boot/initrd" }`}, []string{`needs a kernel`}},
		"initrd_of_no_kernel": {
			hcl{"kernel": `{ path = "", initrd = "/boot/initrd" }`}, []string{`needs a kernel`},
		},
		"wait_for_interface": {
			hcl{"interfaces": `{ lan = { user = true } }`, "wait_for": `{ ip_address = "wan" }`}, []string{`"wan"`, `lan`},
		},
		"wait_for_agent": {
			hcl{"guest_agent": `{ enabled = false }`, "wait_for": `{ guest_agent = true }`},
			[]string{`wait_for.guest_agent: .* guest_agent.enabled is false`},
		},
		"wait_for_timeout": {
			hcl{"wait_for": `{ timeout = "5 minutes" }`},
			[]string{`"5 minutes" is not a valid duration`},
		},
		"grace_period": {
			hcl{"termination_grace_period": quote("-1s")},
			[]string{`"-1s" is not a valid duration: it is negative`},
		},
		"timeouts": {
			hcl{"timeouts": `{ create = "soon" }`},
			[]string{`timeouts.create: "soon" is not a valid duration`},
		},
		"run_strategy": {
			hcl{"run_strategy": quote("OnFire")},
			[]string{`run_strategy: "OnFire" isn't one of Always, RerunOnFailure`},
		},
		"update_policy": {
			hcl{"update_policy": quote("Now")},
			[]string{`update_policy: "Now" isn't one of Live, Restart, Stage`},
		},
		"topology": {
			hcl{"cpu": `{ vcpus = 3, sockets = 1, cores = 2, threads = 1 }`}, []string{`vcpus`, `sockets`},
		},
		"cores_zero":     {hcl{"cpu": `{ cores = 0 }`}, []string{`from 1 to 512`}},
		"vcpus_too_many": {hcl{"cpu": `{ vcpus = 1000 }`}, []string{`from 1 to 512`}},
		"max_sockets":    {hcl{"cpu": `{ sockets = 4, max_sockets = 2 }`}, []string{`less than the sockets`}},
		"cpu_mode":       {hcl{"cpu": `{ mode = "fast" }`}, []string{`"fast" isn't one of`, `host-passthrough`}},
		"cpu_custom":     {hcl{"cpu": `{ mode = "custom" }`}, []string{`needs a model`}},
		"cpu_model": {
			hcl{"cpu": `{ mode = "host-model", model = "Nehalem" }`},
			[]string{`mode "custom" only`},
		},
		"balloon":       {hcl{"memory": `{ size = "64Mi", balloon = { model = "xen" } }`}, []string{`"xen" isn't one of`}},
		"memory_source": {hcl{"memory": `{ size = "64Mi", source = "disk" }`}, []string{`"disk" isn't one of anonymous`}},
		"disk_discard": {
			hcl{"disks": `{ root = { file = "/a", discard = "trim" } }`}, []string{`disks.root.discard: "trim" isn't one of`},
		},
		"disk_wwn": {hcl{"disks": `{ root = { file = "/a", bus = "scsi", wwn = "5" } }`}, []string{`disks.root.wwn`}},
		"nic_queue": {
			hcl{"interfaces": `{ lan = { user = true, driver = { rx_queue_size = 300 } } }`}, []string{`rx_queue_size`},
		},
		"nic_bandwidth": {
			hcl{"interfaces": `{ lan = { bridge = "br0", bandwidth = { inbound = { peak = 5 } } } }`},
			[]string{`inbound.peak: It requires average`},
		},
		"nic_teaming": {
			hcl{"interfaces": `{ lan = { bridge = "br0", teaming = { type = "transient" } } }`}, []string{`persistent`},
		},
		"nic_vhostuser": {
			hcl{"interfaces": `{ lan = { vhostuser = { path = "/a", mode = "peer" } } }`}, []string{`"peer" isn't one of`},
		},
		"nic_vlan": {hcl{"interfaces": `{ lan = { bridge = "br0", vlan = { tags = [5000] } } }`}, []string{`5000`, `4095`}},
		"clock":    {hcl{"platform": `{ clock = { offset = "gmt" } }`}, []string{`"gmt" isn't one of utc`}},
		"hyperv": {
			hcl{"platform": `{ hyperv = { vendor_id = "more than twelve" } }`}, []string{`hyperv.vendor_id`, `12`},
		},
		"hotplug_ports": {hcl{"platform": `{ hotplug_ports = 4000 }`}, []string{`platform.hotplug_ports`}},
		"graphics":      {hcl{"devices": `{ graphics = { type = "rdp" } }`}, []string{`"rdp" isn't one of vnc`}},
		"video":         {hcl{"devices": `{ video = { model = "qxl", ram = 3 } }`}, []string{`devices.video.ram`}},
		"sound":         {hcl{"devices": `{ sound = { model = "loud" } }`}, []string{`"loud" isn't one of ich9`}},
		"panic":         {hcl{"devices": `{ panic = { model = "calm" } }`}, []string{`"calm" isn't one of isa`}},
		"iommu": {
			hcl{"devices": `{ iommu = { model = "intel", aw_bits = 40 } }`}, []string{`devices.iommu.aw_bits: .* 39 or 48`},
		},
		"input":  {hcl{"devices": `{ inputs = { a = { type = "joystick" } } }`}, []string{`"joystick" isn't one of`}},
		"serial": {hcl{"devices": `{ serials = { a = { type = "file" } } }`}, []string{`devices.serials.a.path`}},
		"host_device": {
			hcl{"devices": `{ host_devices = { a = { type = "pci", address = "65" } } }`},
			[]string{`devices.host_devices.a.address`},
		},
		"label_key":        {hcl{"labels": `{ "" = "x" }`}, []string{`labels`}},
		"label_unreadable": {hcl{"labels": `{ app = "a\u0001b" }`}, []string{`labels`}},
		"anti_affinity_unreadable": {
			hcl{"placement": `{ anti_affinity = { labels = { app = "a\u0001b" } } }`}, []string{`anti_affinity`},
		},
		"cmdline_unreadable": {
			hcl{"kernel": `{ path = "/boot/vmlinuz", cmdline = "a\u0001b" }`}, []string{`cmdline`},
		},
	}
	cli := acctest.NewCLI(t)
	cli.Config(t, acctest.Local("")+all.config("bad"))
	said, err := cli.TryText(t, "validate")
	if err == nil {
		t.Error("the configuration was found to be valid")
	}
	all.check(t, said)
}
