package placement

import (
	"slices"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// Law 16: what a host's versions lack is a problem of the plan, and names the version that has it.
func TestGates_nameTheVersionThatHasIt(t *testing.T) {
	t.Parallel()

	efi, secure := "efi", true
	spec := domain.Spec{Firmware: domain.Firmware{Type: &efi, SecureBoot: &secure}}

	host := func(libvirtMinor int) inventory.Reply {
		return inventory.Reply{Info: &libvirt.HostInfo{
			Driver: "QEMU",
			LibvirtVersion: libvirt.Version{
				Major: 7,
				Minor: libvirtMinor,
			},
			HypervisorVersion: libvirt.Version{Major: 7, Minor: 2},
		}}
	}

	if problems := fitsVersions(host(2), spec); len(problems) != 0 {
		t.Errorf("libvirt 7.2 lacks %v", problems)
	}

	problems := fitsVersions(host(0), spec)
	if len(problems) != 1 || problems[0].Attribute != "firmware.secure_boot" {
		t.Fatalf("libvirt 7.0 lacks %v, want firmware.secure_boot", problems)
	}

	want := "choosing firmware by its secure boot feature needs libvirt 7.2.0, it has 7.0.0"
	if problems[0].Detail != want {
		t.Errorf("%q, want %q", problems[0].Detail, want)
	}
}

// A gate is about what is declared together: virtiofs shares a directory for reading only since libvirt 11.
func TestGates_readOnlyDirectory(t *testing.T) {
	t.Parallel()

	for _, tt := range []struct {
		driver string
		major  int
		want   []inventory.Problem
	}{
		{"virtiofs", 11, nil},
		{"9p", 10, nil},
		{"virtiofs", 10, []inventory.Problem{{
			Attribute: "devices.filesystems",
			Detail:    `read_only with the driver "virtiofs" needs libvirt 11.0.0, it has 10.0.0`,
		}}},
	} {
		a := inventory.Reply{Info: &libvirt.HostInfo{Driver: "QEMU", LibvirtVersion: libvirt.Version{Major: tt.major}}}
		spec := domain.Spec{Filesystems: map[string]domain.Row{
			"srv": {"driver": tt.driver, "read_only": "yes"}, "home": {"driver": "virtiofs"},
		}}

		if got := fitsVersions(a, spec); !slices.Equal(got, tt.want) {
			t.Errorf("%s with libvirt %d: %v", tt.driver, tt.major, got)
		}
	}
}

// Variables of another firmware can't be left behind by a host that can't make new ones.
func TestGates_firmwareVariables(t *testing.T) {
	t.Parallel()

	efi, bios, secure := "efi", "bios", true
	want := domain.Firmware{Type: &efi, SecureBoot: &secure}

	for _, tt := range []struct {
		have     string
		minor    int
		problems int
	}{{efi, 0, 1}, {efi, 1, 0}, {bios, 0, 0}} {
		vm := &inventory.VM{PersistentSpec: &domain.Spec{Firmware: domain.Firmware{Type: &tt.have}}}
		a := inventory.Reply{Info: &libvirt.HostInfo{
			Driver:         "QEMU",
			LibvirtVersion: libvirt.Version{Major: 8, Minor: tt.minor},
		}}

		if problems := fitsVariables(a, vm, want); len(problems) != tt.problems {
			t.Errorf("from %s with libvirt 8.%d: %v", tt.have, tt.minor, problems)
		}
	}
}

// A machine type says itself which QEMU has it. What the host has instead is listed.
func TestGates_machineTypeOfALaterQEMU(t *testing.T) {
	t.Parallel()

	a := inventory.Reply{Info: &libvirt.HostInfo{
		Driver:            "QEMU",
		HypervisorVersion: libvirt.Version{Major: 7, Minor: 2, Micro: 22},
	}}

	for machine, want := range map[string]string{
		"pc-q35-9.0": `it does not know machine type "pc-q35-9.0" for x86_64: that needs QEMU 9.0.0, it has 7.2.22; ` +
			`similar ones that it has: "pc-q35-7.2"`,
		"pc-i440fx-7": `it does not know machine type "pc-i440fx-7" for x86_64; similar ones that it has: "pc-i440fx-7.2"`,
		// QEMU has given it up.
		"pc-q35-1.0": `it does not know machine type "pc-q35-1.0" for x86_64; similar ones that it has: "pc-q35-7.2"`,
		"q36":        `it does not know machine type "q36" for x86_64; similar ones that it has: "q35"`,
		"virt-10.x": `it does not know machine type "virt-10.x" for x86_64; ` +
			`it has "pc-q35-7.2", "q35", "pc-i440fx-7.2", "pc"`,
	} {
		p := lacksMachineType(a, machine, "x86_64", []string{"pc-q35-7.2", "q35", "pc-i440fx-7.2", "pc"})
		if p.Detail != want || p.Attribute != "machine_type" {
			t.Errorf("%s: %q, want %q", p.Attribute, p.Detail, want)
		}
	}
}
