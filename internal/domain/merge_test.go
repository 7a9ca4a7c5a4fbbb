package domain

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func changed(changes ...func(*Spec)) *Spec {
	s := full()
	for _, change := range changes {
		change(&s)
	}
	return &s
}

func TestMerge(t *testing.T) {
	t.Parallel()
	memory := func(n uint64) func(*Spec) { return func(s *Spec) { s.Memory.Size = new(n << 20) } }
	extra := func(s *Spec) { s.Disks["extra"] = Disk{Source: DiskSource{File: "/extra"}, Target: "vdb"} }
	without := func(s *Spec) { delete(s.Disks, "root") }
	toBridge := nic("lan", func(i *Interface) { i.Network, i.Bridge = "", "b" })
	toOther := nic("lan", func(i *Interface) { i.Network = "other" })
	unnamed := func(s *Spec) {
		s.Disks["vda"] = s.Disks["root"]
		s.Interfaces["net0"] = s.Interfaces["lan"]
		delete(s.Disks, "root")
		delete(s.Interfaces, "lan")
	}
	for _, test := range []struct {
		name                    string
		persistent, live, prior *Spec
		staged                  bool
		want                    *Spec
	}{
		{"both nil", nil, nil, changed(), false, &Spec{}},
		{"off", changed(memory(2)), nil, changed(), false, changed(memory(2))},
		{"transient", nil, changed(memory(2)), changed(), false, changed(memory(2))},
		{"equal", changed(memory(2)), changed(memory(2)), changed(), false, changed(memory(2))},
		{"live changed", changed(), changed(memory(2)), changed(), false, changed(memory(2))},
		{"persistent changed", changed(memory(2)), changed(), changed(), false, changed(memory(2))},
		{"both changed", changed(memory(2)), changed(memory(3)), changed(), false, changed(memory(2))},
		{"staged", changed(memory(2)), changed(), changed(memory(2)), true, changed(memory(2))},
		{"staged, state not yet told", changed(memory(2)), changed(), changed(), true, changed(memory(2))},
		{"imported", changed(memory(2)), changed(memory(3)), nil, false, changed(memory(2))},
		{"disk plugged by hand", changed(), changed(extra), changed(), false, changed(extra)},
		{"disk added to the definition", changed(extra), changed(), changed(), false, changed(extra)},
		{"disk unplugged by hand", changed(extra), changed(), changed(extra), false, changed()},
		{"disk removed from the definition", changed(), changed(extra), changed(extra), false, changed()},
		{"disk staged to come", changed(extra), changed(), changed(), true, changed(extra)},
		{"disk staged to go", changed(without), changed(), changed(), true, changed(without)},
		{"disks of which nothing is known", changed(extra), changed(without), nil, false, changed(extra)},
		{"interface moved by hand", changed(), changed(toBridge), changed(), false, changed(toBridge)},
		{"interface moved two ways", changed(toOther), changed(toBridge), changed(), false, changed(toOther)},
		{"live keys follow", changed(), changed(unnamed), changed(), false, changed()},
		{"live keys follow, and differ", changed(), changed(memory(2), unnamed), changed(), false, changed(memory(2))},
		{
			"expanded CPU", changed(func(s *Spec) { s.CPU.Mode, s.CPU.Model = new("host-model"), nil }),
			changed(expanded("EPYC", "AMD")), changed(), false,
			changed(func(s *Spec) { s.CPU.Mode, s.CPU.Model = new("host-model"), nil }),
		},
		{
			"kernel removed from the definition", changed(func(s *Spec) { s.Kernel = nil }), changed(), changed(), false,
			changed(func(s *Spec) { s.Kernel = nil }),
		},
		{
			"kernel only in the definition, and in the state", changed(), changed(func(s *Spec) { s.Kernel = nil }),
			changed(), false, changed(func(s *Spec) { s.Kernel = nil }),
		},
	} {
		if diff := cmp.Diff(*test.want, Merge(test.persistent, test.live, test.prior, test.staged)); diff != "" {
			t.Errorf("%s: -want +got:\n%s", test.name, diff)
		}
	}
}

// Whatever differs, a VM whose definitions agree is as they say, and one side that agrees with the state yields to the
// other.
func TestMerge_departureIsSeen(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		state := full()
		other := full()
		for range rapid.IntRange(0, 4).Draw(t, "changes") {
			row := changeTable[rapid.IntRange(0, len(changeTable)-1).Draw(t, "change")]
			if !strings.HasSuffix(row.name, "renamed") { // Then what other keys mean depends on the definition.
				row.want(&other)
			}
			if other.Disks == nil {
				other.Disks = full().Disks // Read back, there always is a map.
			}
		}
		other.Machine = full().Machine
		for name, merged := range map[string]Spec{
			"both": Merge(&other, &other, &state, false), "live": Merge(&state, &other, &state, false),
			"persistent": Merge(&other, &state, &state, false), "staged": Merge(&other, &state, &state, true),
		} {
			for _, c := range classify(merged, other) {
				if c.step != 0 || !c.Live { // Names of devices are the persistent definition's.
					t.Fatalf("%s: %v", name, c)
				}
			}
		}
	})
}
