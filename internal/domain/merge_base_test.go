package domain

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestAgreed_keepsMergeSteady: asked again and again, with its own answers taken over in between, Merge says the same;
// and what changes meanwhile is seen.
func TestAgreed_keepsMergeSteady(t *testing.T) {
	t.Parallel()
	size := func(n uint64) Memory { return Memory{Size: new(n * mib)} }
	both := Spec{
		Memory:     size(256),
		Disks:      map[string]Disk{"root": {Source: DiskSource{File: "/root"}, Target: "vda"}},
		Interfaces: map[string]Interface{"lan": {Network: "default", MAC: "52:54:00:00:00:01"}},
	}
	with := func(change func(*Spec)) Spec {
		s := both
		s.Disks = mapValues(s.Disks, func(d Disk) Disk { return d })
		s.Interfaces = mapValues(s.Interfaces, func(i Interface) Interface { return i })
		change(&s)
		return s
	}
	disk := func(s *Spec) { s.Disks["extra"] = Disk{Source: DiskSource{File: "/extra"}, Target: "vdb"} }
	bridge := func(s *Spec) { s.Interfaces["lan"] = Interface{Bridge: "br0", MAC: "52:54:00:00:00:01"} }
	less := func(s *Spec) { delete(s.Disks, "root") }
	ballooned := func(s *Spec) { s.Memory = size(200) }
	for name, tt := range map[string]struct{ persistent, live, want Spec }{
		"more in the running one":     {both, with(disk), with(disk)},
		"more in the persistent one":  {with(disk), both, with(disk)},
		"less in the running one":     {both, with(less), with(less)},
		"ballooned":                   {both, with(ballooned), with(ballooned)},
		"connected to another bridge": {both, with(bridge), with(bridge)},
	} {
		agreed := MergeBase(tt.persistent, tt.live, both, Spec{}, nil)
		for range 3 {
			got := Merge(&tt.persistent, &tt.live, &agreed, nil)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("%s: -want +got:\n%s", name, diff)
			}
			agreed = MergeBase(tt.persistent, tt.live, agreed, Spec{}, nil)
		}
	}

	// Both took more memory while they differed in a disk: less of it in one of them is seen, then.
	bigger := with(func(s *Spec) { s.Memory = size(512) })
	agreed := MergeBase(bigger, with(func(s *Spec) { s.Memory = size(512); disk(s) }), both, Spec{}, nil)
	smaller := with(func(s *Spec) { s.Memory = size(300); disk(s) })
	if got := Merge(&bigger, &smaller, &agreed, nil); *got.Memory.Size != 300*mib || len(got.Disks) != 2 {
		t.Errorf("got %d of memory and %d disks", *got.Memory.Size, len(got.Disks))
	}
}

// TestAgreed_updatesCount: what an update asked of both and only one has is missing in the other, not changed in the
// one.
func TestAgreed_updatesCount(t *testing.T) {
	t.Parallel()
	root := Disk{Source: DiskSource{File: "/root"}, Target: "vda", Bus: "virtio"}
	have := Spec{
		Memory: Memory{Size: new(uint64(256 * mib)), MaxSize: new(uint64(512 * mib))}, Disks: map[string]Disk{"root": root},
		Interfaces: map[string]Interface{},
	}
	removed := have
	removed.Disks = map[string]Disk{}
	changed := root
	changed.Cache = "none"
	exchanged := have
	exchanged.Disks = map[string]Disk{"root": changed}
	for name, tt := range map[string]struct{ persistent, want Spec }{
		"the guest kept its disk": {removed, Spec{Disks: map[string]Disk{}}},
		"the guest kept how its disk is cached": {
			exchanged, Spec{Disks: map[string]Disk{"root": {Source: root.Source, Cache: "none"}}},
		},
	} {
		agreed := MergeBase(tt.persistent, have, have, tt.want, nil)
		for range 2 {
			if diff := cmp.Diff(have, Merge(&tt.persistent, &have, &agreed, nil)); diff != "" {
				t.Errorf("%s: -want +got:\n%s", name, diff)
			}
			agreed = MergeBase(tt.persistent, have, agreed, Spec{}, nil)
		}
	}
}
