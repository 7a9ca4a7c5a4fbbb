package placement

import (
	"maps"
	"slices"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// TestFitsWeights: a weight that libvirt's schema doesn't have is refused at its attribute.
func TestFitsWeights(t *testing.T) {
	t.Parallel()

	const weight, devices = "platform.resources.blkio_weight", "platform.resources.blkio_devices"

	row := func(weight string) string {
		return domain.FormatTable(map[string]domain.Row{"/dev/a": {"weight": weight}})
	}

	for name, tt := range map[string]struct {
		values domain.Values
		at     string
	}{
		"none":                 {domain.Values{}, ""},
		"removed":              {domain.Values{weight: ""}, ""},
		"the default":          {domain.Values{weight: "0"}, ""},
		"accepted":             {domain.Values{weight: "100", devices: row("1000")}, ""},
		"too high":             {domain.Values{weight: "1001"}, weight},
		"too low for a device": {domain.Values{devices: row("99")}, devices},
	} {
		problems := fitsWeights(domain.Spec{Values: tt.values})
		if tt.at == "" && len(problems) > 0 || tt.at != "" && (len(problems) != 1 || problems[0].Attribute != tt.at) {
			t.Errorf("%s: %+v", name, problems)
		}
	}
}

// TestCgroups_refuses: a quota requires the controller of the CPU. Other limits are ignored on a host without cgroups,
// and refused on one that lacks only their controller. A controller of which nothing is known refuses nothing.
func TestCgroups_refuses(t *testing.T) {
	t.Parallel()

	all := domain.Values{
		"cpu.shares": "512", "cpu.quota": "50000", "cpu.emulator_period": "100000", "cpu.global_quota": "0",
		"memory.hard_limit": "1073741824", "memory.size": "1073741824", "platform.resources.blkio_weight": "",
	}

	for name, tt := range map[string]struct {
		has  []libvirt.Controller
		want []string
	}{
		"no cgroups":  {nil, []string{"cpu.emulator_period", "cpu.quota"}},
		"all":         {controllers, nil},
		"without cpu": {controllers[1:], []string{"cpu.emulator_period", "cpu.quota", "cpu.shares"}},
		"only cpu":    {controllers[:1], []string{"memory.hard_limit"}},
	} {
		there := cgroups{has: map[libvirt.Controller]bool{}}
		if there.refuses("cpu.quota", libvirt.ControllerCPU) {
			t.Error("an unknown controller refuses a quota")
		}

		for _, c := range controllers {
			there.has[c] = slices.Contains(tt.has, c)
		}

		var refused []string

		limits := limitsOf(all)
		for _, path := range slices.Sorted(maps.Keys(limits)) {
			if there.refuses(path, limits[path]) {
				refused = append(refused, path)
			}
		}

		if !slices.Equal(refused, tt.want) {
			t.Errorf("%s: %q", name, refused)
		}
	}
}
