package placement

import (
	"slices"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// TestUnfitPool_remedy: what is said of a pool of devices says how a VM gets a disk there.
func TestUnfitPool_remedy(t *testing.T) {
	t.Parallel()

	_, h := testScheduler(t)

	why := UnfitPool(t.Context(), h, &libvirt.StoragePool{
		Name: "vg", XML: "<pool type='logical'><name>vg</name><target><path>/dev/vg</path></target></pool>",
	}, "root")
	for _, want := range []string{`pool "vg"`, "type logical", "virtfleet_volume", `clone = "full"`, "set volume"} {
		if !strings.Contains(why, want) {
			t.Errorf("%q doesn't say %q", why, want)
		}
	}
}

// TestFitsOwnDisks_image: a plan accepts that a host lacks the image of a disk, or the image's storage pool, unless no
// resource of the same apply brings it. Outside of a plan, the host must have it.
func TestFitsOwnDisks_image(t *testing.T) {
	t.Parallel()

	p, h := testScheduler(t)
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

// TestFitsOwnDisks_pool: a storage pool that the host lacks is one problem, also if the medium for the first boot is to
// be in the pool of the disk. The medium's own pool is a problem of its own.
func TestFitsOwnDisks_pool(t *testing.T) {
	t.Parallel()

	p, h := testScheduler(t)

	a, err := p.hosts.ReplyOf(t.Context(), h)
	if err != nil {
		t.Fatal(err)
	}

	for name, c := range map[string]struct {
		disks map[string]domain.OwnDisk
		want  []string
	}{
		"the disk's": {
			map[string]domain.OwnDisk{"root": {Pool: "other"}, domain.MediumKey: {Pool: "other"}},
			[]string{"disks.root.pool"},
		},
		"the medium's": {
			map[string]domain.OwnDisk{"root": {Pool: "default-pool"}, domain.IgnitionKey: {Pool: "other"}},
			[]string{"ignition.pool"},
		},
		"both": {
			map[string]domain.OwnDisk{"root": {Pool: "other"}, domain.MediumKey: {Pool: "another"}},
			[]string{"cloud_init.pool", "disks.root.pool"},
		},
		"no disk": {map[string]domain.OwnDisk{domain.MediumKey: {Pool: "other"}}, []string{"cloud_init.pool"}},
		"two disks": {
			map[string]domain.OwnDisk{"data": {Pool: "other"}, "root": {Pool: "other"}},
			[]string{"disks.data.pool", "disks.root.pool"},
		},
	} {
		var got []string
		for _, problem := range p.fitsOwnDisks(t.Context(), a, Desired{OwnDisks: c.disks}, nil) {
			got = append(got, problem.Attribute)
		}

		if !slices.Equal(got, c.want) {
			t.Errorf("%s: problems of %q, want %q", name, got, c.want)
		}
	}
}
