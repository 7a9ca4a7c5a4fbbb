package migration

import (
	"slices"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// A guest that has its host's own CPU finds the same only where that has the same name, which doesn't prove it. Without
// KVM it never had that of its host.
func TestToTarget_cpuOfTheHostItself(t *testing.T) {
	t.Parallel()
	target, err := libvirt.Open(libvirt.Config{Name: "kvm2", URI: "test:///default"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := target.Close(); err != nil {
			t.Error(err)
		}
	})
	for name, tt := range map[string]struct {
		state    libvirt.DomainState
		kind, to string
		want     []string
	}{
		"another":       {libvirt.Running, "kvm", "EPYC", []string{CPUModeNotLiveMigratable + " False"}},
		"the same name": {libvirt.Running, "kvm", "Skylake", []string{CPUModeNotLiveMigratable + " Unknown"}},
		"emulated":      {libvirt.Running, "qemu", "EPYC", nil},
		"off":           {libvirt.Shutoff, "kvm", "EPYC", nil},
	} {
		for _, mode := range []string{"host-passthrough", "maximum"} {
			m := VM{State: tt.state, Mobility: domain.Mobility{Type: tt.kind, CPU: "<cpu/>", CPUMode: mode}}
			var found blockerList
			preflight{
				vm: m, target: target, from: &libvirt.HostInfo{CPUModel: "Skylake"}, to: &libvirt.HostInfo{CPUModel: tt.to},
			}.checkCPU(t.Context(), &found)
			if got := reasons(found); !slices.Equal(got, tt.want) {
				t.Errorf("%s, %s: %q, want %q", name, mode, got, tt.want)
			}
		}
	}
}
