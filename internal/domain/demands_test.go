package domain

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestDemands: what a VM demands of a host names the packages that have it. A firmware that the user chose is a file of
// the host, and no demand.
func TestDemands(t *testing.T) {
	t.Parallel()
	efi := Firmware{Type: new("efi"), SecureBoot: new(true)}
	for name, test := range map[string]struct {
		spec Spec
		want []string
	}{
		"nothing": {Spec{Firmware: Firmware{Type: new("bios")}}, nil},
		"firmware": {Spec{Firmware: efi}, []string{
			`has no firmware.type "efi": that needs UEFI firmware (Debian: ovmf, Fedora: edk2-ovmf)`,
			`has no firmware.secure_boot "yes": that needs UEFI firmware (Debian: ovmf, Fedora: edk2-ovmf) with secure boot ` +
				"for the machine type",
		}},
		"on ARM": {Spec{Arch: "aarch64", Firmware: Firmware{Type: new("efi")}}, []string{
			`has no firmware.type "efi": that needs UEFI firmware (Debian: qemu-efi-aarch64, Fedora: edk2-aarch64)`,
		}},
		"a loader": {Spec{Firmware: efi, Values: Values{firmwareLoader: "/OVMF.fd"}}, nil},
		"passt": {
			Spec{Interfaces: map[string]Interface{"out": {User: true, Values: Values{"backend.type": "passt"}}}},
			[]string{`has no interfaces.out.backend.type "passt": that needs the package passt`},
		},
		"SPICE": {
			Spec{Values: Values{"devices.graphics.type": "spice"}},
			[]string{`has no devices.graphics.type "spice": that needs a QEMU with SPICE (Debian 12: ` +
				"qemu-system-common, Debian 13: qemu-system-modules-spice, Fedora: qemu-ui-spice-core)"},
		},
		"SEV": {
			Spec{Values: Values{LaunchSecurityType: "sev"}},
			[]string{`has no platform.launch_security.type "sev": that needs an AMD CPU with SEV, and kvm_amd.sev=1`},
		},
		"a TPM": {
			Spec{Values: Values{"devices.tpm.backend": "emulator"}},
			[]string{`has no devices.tpm.backend "emulator": that needs swtpm and swtpm-tools`},
		},
	} {
		var got []string
		for _, d := range test.spec.Demands("x86_64") {
			got = append(got, d.Missing())
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

// TestSince: an attribute, or one of its values, names the libvirt that has it.
func TestSince(t *testing.T) {
	t.Parallel()
	s := Spec{
		Values: Values{
			"devices.rng.backend": "builtin", "devices.rng.model": "virtio", LaunchSecurityType: "sev-snp",
			"platform.hyperv.avic": "yes", "platform.hyperv.tlbflush_direct": "", "platform.hyperv.vpindex": "yes",
		},
		Disks:  map[string]Disk{"root": {Values: Values{"io": "io_uring"}}, "data": {Values: Values{"io": "threads"}}},
		Inputs: map[string]Row{"keys": {"type": "evdev"}, "mouse": {"type": "mouse"}},
	}
	want := map[string]Since{
		"devices.rng.backend":  {`devices.rng.backend = "builtin"`, "6.1.0"},
		LaunchSecurityType:     {`platform.launch_security.type = "sev-snp"`, "10.5.0"},
		"platform.hyperv.avic": {"platform.hyperv.avic", "8.10.0"},
		"disks.root.io":        {`disks.root.io = "io_uring"`, "6.3.0"},

		"devices.inputs.keys.type": {`devices.inputs.keys.type = "evdev"`, "7.4.0"},
	}
	if diff := cmp.Diff(want, s.Since()); diff != "" {
		t.Error(diff)
	}
}
