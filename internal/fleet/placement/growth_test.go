package placement

import (
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/storage"
)

// A thick disk counts its full size at once, a copy what the image has, an overlay and an empty disk nothing yet.
func TestDemandOf(t *testing.T) {
	t.Parallel()

	image := &libvirt.Volume{CapacityBytes: 20, AllocationBytes: 5}

	for name, test := range map[string]struct {
		disk  domain.OwnDisk
		image *libvirt.Volume
		want  storage.Demand
	}{
		"empty":        {domain.OwnDisk{Bytes: 50}, nil, storage.Demand{Growth: 50}},
		"tables only":  {domain.OwnDisk{Bytes: 50, Preallocation: "metadata"}, nil, storage.Demand{Growth: 50}},
		"thick":        {domain.OwnDisk{Bytes: 50, Preallocation: "full"}, nil, storage.Demand{Now: 50, Growth: 50}},
		"overlay":      {domain.OwnDisk{Bytes: 50, Image: "a/b"}, image, storage.Demand{Growth: 50}},
		"of its size":  {domain.OwnDisk{Image: "a/b"}, image, storage.Demand{Growth: 20}},
		"a copy":       {domain.OwnDisk{Bytes: 50, Image: "a/b", Clone: "full"}, image, storage.Demand{Now: 5, Growth: 50}},
		"a thick copy": {domain.OwnDisk{Image: "a/b", Clone: "full", Preallocation: "full"}, image, storage.Demand{Now: 20, Growth: 20}},
	} {
		if got := demandOf(test.disk, test.image); got != test.want {
			t.Errorf("%s: %+v; want %+v", name, got, test.want)
		}
	}
}
