package placement

import (
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// What counts is the type that the VM gets, whoever chooses it: only emulated virtual CPUs may be more than the host
// has CPUs.
func TestFitsHypervisor_judgesByTheTypeThatTheVMGets(t *testing.T) {
	t.Parallel()

	const cpus = 2

	both, emulation := []string{"qemu", "kvm"}, []string{"qemu"}

	for name, tt := range map[string]struct {
		offered                []string
		declared, providerSays string
		vcpus                  int
		want                   string // the attribute that is refused
	}{
		"declared kvm":               {both, "kvm", "", cpus + 1, "cpu.vcpus"},
		"declared kvm that fits":     {both, "kvm", "", cpus, ""},
		"declared qemu":              {both, "qemu", "", cpus + 1, ""},
		"declared over the default":  {both, "qemu", "kvm", cpus + 1, ""},
		"default kvm":                {both, "", "kvm", cpus + 1, "cpu.vcpus"},
		"default qemu":               {both, "", "qemu", cpus + 1, ""},
		"chosen kvm":                 {both, "", "", cpus + 1, "cpu.vcpus"},
		"chosen kvm that fits":       {both, "", "", cpus, ""},
		"chosen emulation":           {emulation, "", "", cpus + 1, ""},
		"declared what isn't there":  {emulation, "kvm", "", 1, "type"},
		"defaulted what isn't there": {emulation, "", "kvm", 1, "type"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			a := inventory.Reply{Info: &libvirt.HostInfo{
				Arch: "x86_64", CPUs: cpus,
				Guests: []libvirt.Guest{{Arch: "i686"}, {Arch: "x86_64", DomainTypes: tt.offered}},
			}}
			spec := domain.Spec{Type: tt.declared, CPU: domain.CPU{VCPUs: &tt.vcpus}}
			problems := fitsHypervisor(a, spec, tt.providerSays)

			switch {
			case tt.want == "" && len(problems) != 0:
				t.Errorf("refused: %v", problems)
			case tt.want != "" && (len(problems) != 1 || problems[0].Attribute != tt.want):
				t.Errorf("got %v, want a problem with %s", problems, tt.want)
			}
		})
	}
}
