package domain

import (
	"slices"
	"testing"
)

func TestAppeared(t *testing.T) {
	t.Parallel()
	disks := func(keys ...string) map[string]Disk {
		all := map[string]Disk{}
		for _, key := range keys {
			all[key] = Disk{}
		}
		return all
	}
	have := Spec{Disks: disks("root", "vdb", MediumKey), Serials: map[string]Row{"log": {}}}
	for name, test := range map[string]struct {
		want  Spec
		known []Spec
		paths []string
	}{
		"new":         {Spec{Disks: disks("root")}, []Spec{{Disks: disks("root")}}, []string{"disks.vdb"}},
		"was known":   {Spec{Disks: disks("root")}, []Spec{{}, {Disks: disks("vdb")}}, nil},
		"is declared": {Spec{Disks: disks("root", "vdb")}, []Spec{{}}, nil},
		"left alone":  {Spec{}, []Spec{{}}, nil},
		"of a family": {Spec{Serials: map[string]Row{}}, []Spec{{}}, []string{"devices.serials.log"}},
	} {
		if got := Appeared(have, test.want, test.known...); !slices.Equal(got, test.paths) {
			t.Errorf("%s: %q, want %q", name, got, test.paths)
		}
	}
}
