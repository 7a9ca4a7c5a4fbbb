package meta

import (
	"slices"
	"testing"
)

// TestPlanned_withPool: a pool that stays as it is adds no host, and one that is replaced takes none away: the apply
// knows neither. Another pool of the name isn't affected.
func TestPlanned_withPool(t *testing.T) {
	t.Parallel()
	p := &Planned{}
	both := []string{"kvm1", "kvm2"}
	p.PlanPoolHosts("vms", both, nil, nil)
	if got := p.WithPool("vms", []string{"kvm1"}); !slices.Equal(got, []string{"kvm1"}) {
		t.Errorf("with a pool that stays: %v", got)
	}
	p.PlanPoolHosts("vms", both, []string{"kvm2"}, []string{"kvm3"})
	p.PlanPoolHosts("vms", []string{"kvm4"}, []string{"kvm4"}, []string{"kvm5"})
	all := []string{"kvm1", "kvm3", "kvm5"}
	if got := p.WithPool("vms", slices.Clone(all)); !slices.Equal(got, []string{"kvm1", "kvm2", "kvm4"}) {
		t.Errorf("with a pool that changes its hosts: %v", got)
	}
	p.PlanPoolHosts("vms", both, both, nil)
	if got := slices.Compact(p.WithPool("vms", slices.Clone(all))); !slices.Contains(got, "kvm3") ||
		slices.Contains(got, "kvm5") {
		t.Errorf("with a pool that is replaced: %v", got)
	}
}
