package domain

import (
	"slices"
	"testing"
)

func TestUndeclared(t *testing.T) {
	t.Parallel()
	disks := func(keys ...string) map[string]Disk {
		all := map[string]Disk{}
		for _, key := range keys {
			all[key] = Disk{}
		}
		return all
	}
	have := Spec{
		Disks: disks("root", "vdb", MediumKey), Interfaces: map[string]Interface{"net0": {}},
		Serials: map[string]Row{"log": {}},
	}
	for name, test := range map[string]struct {
		want  Spec
		paths []string
	}{
		"a disk":         {Spec{Disks: disks("root")}, []string{"disks.vdb"}},
		"is declared":    {Spec{Disks: disks("root", "vdb")}, nil},
		"left alone":     {Spec{}, nil},
		"of a family":    {Spec{Serials: map[string]Row{}}, []string{"devices.serials.log"}},
		"all interfaces": {Spec{Interfaces: map[string]Interface{}}, []string{"interfaces.net0"}},
	} {
		if got := Undeclared(have.DevicePaths(), test.want); !slices.Equal(got, test.paths) {
			t.Errorf("%s: %q, want %q", name, got, test.paths)
		}
	}
}
