package placement

import (
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
)

// VMs of one group avoid each other. That a host has one of them is one reason, with a remedy, not one for each of the
// two. A VM that only the other one avoids learns that from its labels.
func TestJudgeAffinity_saysEachReasonOnce(t *testing.T) {
	t.Parallel()

	web := map[string]string{"app": "web"}
	p, all, d := spread()
	p.reservations.byHost = map[string]map[string]reservation{
		all[0].Host.Name: {"web-1": {labels: web, avoids: web}},
	}
	d.Metadata.Labels = web

	for name, tt := range map[string]struct {
		avoids *AntiAffinity
		want   string
	}{
		"both":             {&AntiAffinity{Labels: web, Required: true}, "placement.anti_affinity"},
		"only if possible": {&AntiAffinity{Labels: web}, "labels"},
		"the other":        {nil, "labels"},
	} {
		d.Placement.AntiAffinity = tt.avoids
		c := candidate{Reply: all[0]}
		c.judgeAffinity(p, d)

		problems := explain(d, []candidate{c}, inventory.Problem{Detail: "VM \"web-2\" can't be placed"})
		if len(problems) != 1 || problems[0].Attribute != tt.want || problems[0].Remedy == "" {
			t.Errorf("%s: %+v, want one of %s with a remedy", name, problems, tt.want)
		}
	}
}
