package placement

import (
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
)

// TestFitsOwnDisks_image: a plan accepts that a host lacks the image of a disk, or the image's storage pool, unless no
// resource of the same apply brings it. Outside of a plan, the host must have it.
func TestFitsOwnDisks_image(t *testing.T) {
	t.Parallel()

	p, h := testPlanner(t)
	testVolume(t, h, "base", 1)

	a, err := p.hosts.ReplyOf(t.Context(), h)
	if err != nil {
		t.Fatal(err)
	}

	for name, c := range map[string]struct {
		image         string
		applied       bool
		unplannedPool string
		unplanned     bool
		want          string
	}{
		"there":                       {image: "default-pool/base", unplanned: true},
		"to come":                     {image: "default-pool/none"},
		"to come, in an unknown pool": {image: "other/none"},
		"comes from nowhere":          {image: "default-pool/none", unplanned: true, want: "no copy of image"},
		"its pool as well":            {image: "other/none", unplannedPool: "other", want: `no storage pool "other"`},
		"in a pool that comes":        {image: "other/none", unplanned: true},
		"applied":                     {image: "default-pool/none", applied: true, want: "no copy of image"},
	} {
		d := Desired{
			Planned: !c.applied, OwnDisks: map[string]domain.OwnDisk{
				"root": {Pool: "default-pool", Image: c.image, Bytes: 1 << 30},
			},
			UnplannedPools:  map[string]bool{"default-pool": true, c.unplannedPool: true},
			UnplannedImages: map[string]bool{c.image: c.unplanned},
		}

		problems := p.fitsOwnDisks(t.Context(), a, d, nil)
		if c.want == "" && len(problems) == 0 {
			continue
		}

		if len(problems) != 1 || problems[0].Attribute != "disks.root.image" || c.want == "" ||
			!strings.Contains(problems[0].Detail, c.want) {
			t.Errorf("%s: %v; want %q", name, problems, c.want)
		}
	}
}
