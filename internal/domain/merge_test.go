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

func stagedOf(staged bool, persistent, live *Spec) Staged {
	if !staged {
		return nil
	}
	all := Staged{}
	have, want := flattenSpec(*live), flattenSpec(*persistent)
	for _, side := range []map[string]string{have, want} {
		for path := range side {
			if have[path] != want[path] {
				all[path] = fingerprint(have[path])
			}
		}
	}
	return all
}

// What a user changes in the running VM is seen also while something else is staged, and so is another change of what
// was staged.
func TestMerge_driftBesideWhatIsStaged(t *testing.T) {
	t.Parallel()
	mode := func(s *Spec) { s.CPU.Mode, s.CPU.Model = new("maximum"), nil }
	extra := func(s *Spec) { s.Interfaces["net1"] = Interface{User: true, MAC: "52:54:00:00:00:99"} }
	down := nic("lan", func(i *Interface) { i.LinkUp = new(false) })
	more := func(s *Spec) { s.Memory.MaxSize = new(uint64(8 << 30)) }
	persistent, want := changed(mode, more), changed(mode, more)
	staged := StagedBy(*changed(), *persistent, *want)
	if _, ok := staged["cpu.model"]; len(staged) != 3 || !ok {
		t.Fatalf("staged: %v", staged)
	}
	for name, drift := range map[string]func(*Spec){"interface": extra, "link": down} {
		got := Merge(persistent, changed(drift), persistent, staged)
		if diff := cmp.Diff(*changed(mode, more, drift), got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", name, diff)
		}
	}
	shrunk := func(s *Spec) { s.Memory.MaxSize = new(uint64(2 << 30)) }
	if got := Merge(persistent, changed(shrunk), persistent, staged); *got.Memory.MaxSize != 2<<30 {
		t.Errorf("the running VM changed where something was staged: %d", *got.Memory.MaxSize)
	}
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
		// staged says that an update has left what differs to the next start.
		staged bool
		want   *Spec
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
		staged := stagedOf(test.staged, test.persistent, test.live)
		if diff := cmp.Diff(*test.want, Merge(test.persistent, test.live, test.prior, staged)); diff != "" {
			t.Errorf("%s: -want +got:\n%s", test.name, diff)
		}
	}
}

// A transient VM doesn't tell which CPU was asked for, so that the features of its expanded CPU aren't a choice.
func TestMerge_expandedCPUAlone(t *testing.T) {
	t.Parallel()
	live := changed(func(s *Spec) {
		s.CPU = CPU{VCPUs: new(1), Expanded: &ExpandedCPU{Model: "qemu64"}}
		s.Values = Values{cpuFeatures: "svm=disable", "memory.locked": "true"}
	})
	got := Merge(nil, live, nil, nil)
	if diff := cmp.Diff(Values{"memory.locked": "true"}, got.Values); diff != "" {
		t.Errorf("facts: -want +got:\n%s", diff)
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
			"both": Merge(&other, &other, &state, nil), "live": Merge(&state, &other, &state, nil),
			"persistent": Merge(&other, &state, &state, nil),
			"staged":     Merge(&other, &state, &state, StagedBy(state, other, other)),
		} {
			for _, c := range classify(merged, other) {
				if c.step != 0 || !c.Live { // Names of devices are the persistent definition's.
					t.Fatalf("%s: %v", name, c)
				}
			}
		}
	})
}
