package placement

import (
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// A guest with protected memory is placed on a host that can protect it. The others say what they lack.
func TestFitsDevices_launchSecurity(t *testing.T) {
	t.Parallel()

	const sectype = "launchSecurity/sectype"

	hosts := map[string]struct {
		major, minor int
		devices      libvirt.GuestDevices
	}{
		"amd":   {10, 5, libvirt.GuestDevices{sectype: {"sev", "sev-snp"}}},
		"intel": {11, 6, libvirt.GuestDevices{sectype: {"tdx"}}},
		"z":     {9, 0, libvirt.GuestDevices{sectype: {"s390-pv"}}},
		"plain": {11, 6, libvirt.GuestDevices{"launchSecurity": nil}},
		"old":   {9, 0, libvirt.GuestDevices{sectype: nil}},
	}

	for kind, tt := range map[string]struct {
		fits, plain, old string
	}{
		"sev": {
			"amd", `it has no platform.launch_security.type "sev": that needs an AMD CPU with SEV, and kvm_amd.sev=1`,
			`it has no platform.launch_security.type "sev"`,
		},
		"sev-snp": {
			"amd", `that needs an AMD CPU with SEV-SNP, kvm_amd.sev_snp=1, and QEMU 9.1`,
			`platform.launch_security.type = "sev-snp" needs libvirt 10.5.0, it has 9.0.0`,
		},
		"tdx": {
			"intel", `that needs an Intel CPU with TDX, kvm_intel.tdx=1, and QEMU 10.1`,
			`platform.launch_security.type = "tdx" needs libvirt 11.6.0, it has 9.0.0`,
		},
		"s390-pv": {
			"z", `that needs an IBM Z CPU with Secure Execution, and prot_virt=1`,
			`it has no platform.launch_security.type "s390-pv"`,
		},
	} {
		spec := domain.Spec{Values: domain.Values{domain.LaunchSecurityType: kind}}

		var all []candidate

		for name, h := range hosts {
			a := inventory.Reply{Host: &inventory.Host{Name: name}, Info: &libvirt.HostInfo{
				Driver: "QEMU", Arch: "x86_64", LibvirtVersion: libvirt.Version{Major: h.major, Minor: h.minor},
			}}
			problems := append(fitsAge(a, spec), unmetDemands(h.devices, spec.Demands("x86_64"))...)
			all = append(all, candidate{Reply: a, problems: problems})
		}

		sortCandidates(all)

		for i, c := range all {
			said := detailsOf(c.problems)
			if fits := c.Host.Name == tt.fits; fits != (said == "") || fits != (i == 0) {
				t.Errorf("%s: host %d is %s, with the problems %s", kind, i, c.Host.Name, said)
			}

			want := map[string]string{"plain": tt.plain, "old": tt.old}[c.Host.Name]
			if !strings.Contains(said, want) {
				t.Errorf("%s on %s: %s, want %s", kind, c.Host.Name, said, want)
			}
		}
	}
}

// What a host lacks of one list of capabilities is one problem, which names all of it.
func TestFitsDevices_oneProblemForOneList(t *testing.T) {
	t.Parallel()

	spec := domain.Spec{Values: domain.Values{
		"platform.hyperv.vpindex": "yes", "platform.hyperv.synic": "yes", "platform.hyperv.relaxed": "yes",
		"devices.tpm.model": "tpm-crb",
	}}
	has := libvirt.GuestDevices{"hyperv/features": {"relaxed"}, "tpm/model": {"tpm-tis"}}
	problems := unmetDemands(has, spec.Demands("x86_64"))

	var hyperv []inventory.Problem

	for _, p := range problems {
		if strings.HasPrefix(p.Attribute, "platform.hyperv.") {
			hyperv = append(hyperv, p)
		}
	}

	if len(problems) != 2 || len(hyperv) != 1 {
		t.Fatalf("the problems are %v", problems)
	}

	for _, part := range []string{
		`it has no platform.hyperv.`, `platform.hyperv.vpindex "vpindex"`, `platform.hyperv.synic "synic"`,
		`, only "relaxed"`,
	} {
		if !strings.Contains(hyperv[0].Detail, part) {
			t.Errorf("%q doesn't say %s", hyperv[0].Detail, part)
		}
	}
}

func detailsOf(problems []inventory.Problem) string {
	var all []string
	for _, p := range problems {
		all = append(all, p.Detail)
	}

	return strings.Join(all, "; ")
}
