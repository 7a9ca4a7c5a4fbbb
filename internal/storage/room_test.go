package storage

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

func gib(n uint64) string { return fmt.Sprintf("%dG", n) }

// A thin volume counts with what it may grow to, a thick one with the same, which it has already. What is never written
// to counts with its file.
func TestGrowthOf(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		volumes []libvirt.Volume
		want    uint64
	}{
		"nothing": {nil, 0},
		"thin":    {[]libvirt.Volume{{Name: "a", CapacityBytes: 100, AllocationBytes: 3, PhysicalBytes: 4}}, 100},
		"thick":   {[]libvirt.Volume{{Name: "a", CapacityBytes: 100, AllocationBytes: 104, PhysicalBytes: 104}}, 104},
		"a copy of an image": {[]libvirt.Volume{
			{Name: "debian-0123456789ab", Path: "/d", CapacityBytes: 100, AllocationBytes: 6, PhysicalBytes: 7},
		}, 7},
		"an overlay and what it is based on": {[]libvirt.Volume{
			{Name: "base", Path: "/base", CapacityBytes: 100, AllocationBytes: 20, PhysicalBytes: 25},
			{Name: "over", Path: "/over", CapacityBytes: 150, AllocationBytes: 1, PhysicalBytes: 1, Backing: "/base"},
		}, 175},
		"a directory": {[]libvirt.Volume{{Name: "d", Path: "/d", Type: "dir", CapacityBytes: 4096}}, 0},
		"more than fits into a number": {[]libvirt.Volume{
			{Name: "a", Path: "/a", CapacityBytes: math.MaxUint64}, {Name: "b", Path: "/b", CapacityBytes: 1},
		}, math.MaxUint64},
	} {
		if got := GrowthOf(test.volumes); got != test.want {
			t.Errorf("%s: %d; want %d", name, got, test.want)
		}
	}
}

func TestRoom_Lacks(t *testing.T) {
	t.Parallel()
	limited := Room{Capacity: 100, Available: 40, Growth: 120, Factor: 1.5}
	unlimited := Room{Capacity: 100, Available: 40}
	full := Room{Capacity: 100, Available: 40, Growth: 500, Factor: 1}
	for name, test := range map[string]struct {
		room         Room
		need, others Demand
		want         string // "" if there is room
	}{
		"to the last byte":    {limited, Demand{Growth: 30}, Demand{}, ""},
		"a byte too much":     {limited, Demand{Growth: 31}, Demand{}, "= 1.5 the limit is 150G"},
		"with others":         {limited, Demand{Growth: 20}, Demand{Growth: 11}, "already reach 131G, and 20G would be added"},
		"no limit":            {unlimited, Demand{Growth: 1000}, Demand{}, ""},
		"thick fits":          {unlimited, Demand{Now: 40, Growth: 40}, Demand{}, ""},
		"thick does not":      {unlimited, Demand{Now: 41, Growth: 41}, Demand{}, "has 40G left, and 41G"},
		"thick with another":  {unlimited, Demand{Now: 30}, Demand{Now: 11}, "in addition to 11G"},
		"over it before":      {full, Demand{Growth: 1}, Demand{}, "500G"},
		"less than all of it": {Room{Capacity: 100, Available: 90, Factor: 0.8}, Demand{Growth: 81}, Demand{}, "is 80G"},
		"huge": {
			Room{Capacity: math.MaxUint64, Available: 1, Factor: 2}, Demand{Growth: math.MaxUint64}, Demand{}, "",
		},
	} {
		got := test.room.Lacks(test.need, test.others, gib)
		if (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
			t.Errorf("%s: %q; want %q", name, got, test.want)
		}
	}
}
