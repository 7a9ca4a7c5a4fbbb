package placement

import (
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
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
