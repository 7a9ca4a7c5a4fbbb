package placement

import (
	"slices"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
)

// TestRefused_attribute: a refusal is reported at the attribute that declares what is refused.
func TestRefused_attribute(t *testing.T) {
	t.Parallel()

	for refusal, want := range map[string]string{
		"internal error: Unknown CPU model Pentium9":                                                    "cpu.model",
		"unsupported configuration: CPU model Pentium9 not supported by hypervisor":                     "cpu.model",
		"internal error: Unknown CPU feature vmxx":                                                      "cpu.features",
		"unsupported configuration: CPU mode 'host-passthrough' for x86_64 qemu domain isn't supported": "",
		"unsupported configuration: CPU mode 'host-passthrough' for x86_64 qemu domain on x86_64 host is not supported " +
			"by hypervisor": "cpu.mode",
		"unsupported configuration: Requested TSC frequency 2000000000 Hz is outside tolerance range ([1, 2] Hz) around " +
			"host frequency 2 Hz and TSC scaling is not supported by the host CPU": "platform.clock.tsc_frequency",
		"unsupported configuration: 'virtiofs' requires shared memory":                 "devices.filesystems",
		"unsupported configuration: unknown panic model 'pvpanic'":                     "devices.panic.model",
		"only pSeries guests support panic device of model 'pseries'":                  "devices.panic.model",
		"diag288 model of watchdog is allowed for s390 and s390x only":                 "devices.watchdog.model",
		"IOMMU device: 'smmuv3' is only supported with ARM Virt machines":              "devices.iommu.model",
		"unsupported configuration: Unsupported interface 'tpm-crb' for TPM 1.2":       "devices.tpm.version",
		"chardev 'spicevmc' not supported without spice graphics":                      "devices.graphics.type",
		"XML error: Invalid value for attribute 'model' in element 'sound': 'virtio'.": "devices.sound.model",
		"XML error: Invalid value for attribute 'bus' in element 'input': 'none'.":     "devices.inputs",
		"XML error: Invalid value for attribute 'cpus' in element 'vcpu': 'x'.":        "",
		"the CPU is incompatible with host CPU: Host CPU does not provide required features: " +
			"avx512f": "cpu.mode",
	} {
		if p := refused(refusal, domain.Spec{}); p.Attribute != want || (p.Remedy == "") != (want == "") {
			t.Errorf("%q: %+v", refusal, p)
		}
	}
}

// TestRefused: the remedy is about a program only if libvirt's refusal names that program.
func TestRefused(t *testing.T) {
	t.Parallel()

	for refusal, remedy := range map[string]string{
		"XML error: Invalid value for attribute 'type' in element 'backend': 'passt'.":                  "package passt",
		"operation failed: Unable to find a satisfying virtiofsd":                                       "Install virtiofsd",
		"unsupported configuration: chardev 'spicevmc' not supported without spice graphics":            "-modules-spice",
		"internal error: hugetlbfs filesystem is not mounted or disabled by administrator config":       "Mount hugetlbfs",
		"internal error: Unable to find any usable hugetlbfs mount for 1048576 KiB":                     "Mount hugetlbfs",
		"unsupported configuration: CPU mode 'host-passthrough' for x86_64 qemu domain isn't supported": "",
	} {
		p := refused(refusal, domain.Spec{})
		if !strings.Contains(p.Detail, refusal) || !strings.Contains(p.Remedy, remedy) || remedy == "" && p.Remedy != "" {
			t.Errorf("%q: %+v", refusal, p)
		}
	}
}

// TestRefused_hugePages: pages that libvirt finds no file system for are refused at the attribute that declares them.
func TestRefused_hugePages(t *testing.T) {
	t.Parallel()

	const all, ofCells = "memory.huge_pages", "memory.huge_pages_by_cell"

	for _, tt := range []struct {
		values domain.Values
		want   string
	}{
		{domain.Values{all: "2Mi"}, all},
		{domain.Values{ofCells: "0=2Mi\n"}, ofCells},
		{domain.Values{all: "default"}, all},
		{domain.Values{all: "none", ofCells: "0=2Mi\n"}, ofCells},
		{domain.Values{all: "2Mi", ofCells: "0=1Gi\n"}, all},
	} {
		p := refused("internal error: Unable to find any usable hugetlbfs mount for 2048 KiB", domain.Spec{Values: tt.values})
		if p.Attribute != tt.want || !strings.Contains(p.Remedy, "Mount hugetlbfs") {
			t.Errorf("%v: %+v, want %s", tt.values, p, tt.want)
		}
	}
}

// TestRefused_withoutSPICE: a device that a client of SPICE serves is refused at the attribute that declares it.
func TestRefused_withoutSPICE(t *testing.T) {
	t.Parallel()

	spice, socket := domain.Row{"type": "spicevmc"}, domain.Row{"type": "unix"}

	for want, spec := range map[string]domain.Spec{
		"devices.channels.b.type": {
			Channels:  map[string]domain.Row{"a": socket, "b": spice, "c": spice},
			Redirdevs: map[string]domain.Row{"a": socket},
		},
		"devices.redirdevs.usb.type": {
			Channels: map[string]domain.Row{"a": socket}, Redirdevs: map[string]domain.Row{"usb": spice},
		},
		"devices.smartcard.mode": {Values: domain.Values{"devices.smartcard.mode": "passthrough"}},
		"devices.graphics.type":  {Values: domain.Values{"devices.smartcard.mode": "host"}},
	} {
		p := refused("unsupported configuration: chardev 'spicevmc' not supported without spice graphics", spec)
		if p.Attribute != want || !strings.Contains(p.Remedy, `devices.graphics.type to "spice"`) {
			t.Errorf("%+v, want %s", p, want)
		}
	}
}

// TestDoubtStart: a CPU that the host lacks is a warning for a VM that stays off, and a problem for one that starts.
// What libvirt wouldn't even define is a problem of both.
func TestDoubtStart(t *testing.T) {
	t.Parallel()

	d := Desired{Spec: domain.Spec{Name: "web"}}
	host := &inventory.Host{Name: "kvm1"}
	problems := []inventory.Problem{
		refused("the CPU is incompatible with host CPU: Host CPU does not provide required features: fma4", d.Spec),
		refused("internal error: Unknown CPU model Pentium9", d.Spec),
		{Attribute: "memory.size", Detail: "it is too small"},
	}

	if rest, doubts := d.doubtStart(host, problems, true); !slices.Equal(rest, problems) || len(doubts) > 0 {
		t.Errorf("a VM that starts: %+v, %+v", rest, doubts)
	}

	rest, doubts := d.doubtStart(host, problems, false)
	if !slices.Equal(rest, problems[1:]) || len(doubts) != 1 || !doubts[0].Warning || doubts[0].Attribute != "cpu.mode" ||
		!strings.Contains(doubts[0].Detail, `VM "web". Host "kvm1" couldn't start it: the CPU is incompatible`) {
		t.Errorf("a VM that stays off: %+v, %+v", rest, doubts)
	}
}

// A change that waits for the next start restarts the guest as soon as update_policy allows it, although the definition
// has it already. A running device with another key restarts nothing.
func TestRestarts_comparesWhatRuns(t *testing.T) {
	t.Parallel()

	live, defined := withInterface(t, "lan"), withInterface(t, "wan")
	cpus := withInterface(t, "lan")
	live.CPU.VCPUs, defined.CPU.VCPUs, cpus.CPU.VCPUs = new(1), new(1), new(2)

	for name, tt := range map[string]struct {
		defined domain.Spec
		key     string
		want    bool
	}{
		"nothing":        {live, "lan", false},
		"another key":    {defined, "wan", false},
		"one that waits": {cpus, "lan", true},
	} {
		vm := &inventory.VM{Active: true, PersistentSpec: &tt.defined, LiveSpec: &live}
		d := Desired{UpdatePolicy: PolicyRestart, Spec: domain.Spec{
			CPU: domain.CPU{VCPUs: tt.defined.CPU.VCPUs}, Interfaces: map[string]domain.Interface{tt.key: {Network: "plain"}},
		}}

		if got := d.restarts(vm); got != tt.want {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}
