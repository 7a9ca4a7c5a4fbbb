package move

import (
	"maps"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/admission"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// A VM that two hosts have a process of is on its way, from and to where its copies' states say.
func TestRoutes(t *testing.T) {
	t.Parallel()

	is := func(uuid string, state libvirt.DomainState, reason string) libvirt.DomainStats {
		busy := state == libvirt.Paused && (reason == "Migration" || reason == "StartingUp")

		return libvirt.DomainStats{UUID: uuid, State: state, Reason: reason, Busy: busy}
	}

	got := routes([]string{"a", "b", "c"}, [][]libvirt.DomainStats{{
		is("leaves", libvirt.Running, "Booted"), is("arrives", libvirt.Paused, "Migration"),
		is("late", libvirt.Paused, "Postcopy"), is("stays", libvirt.Running, "Booted"),
		is("broken", libvirt.Paused, "PostcopyFailed"), is("restored", libvirt.Paused, "Migration"),
		is("both", libvirt.Running, "Booted"),
	}, nil, {
		is("leaves", libvirt.Paused, "StartingUp"), is("arrives", libvirt.Running, "Booted"),
		is("late", libvirt.Running, "Postcopy"), is("stays", libvirt.Shutoff, "Unknown"),
		is("broken", libvirt.Running, "PostcopyFailed"), is("both", libvirt.Running, "Booted"),
	}})

	want := map[string]admission.Route{
		"leaves": {From: "a", To: "c"}, "arrives": {From: "c", To: "a"}, "late": {From: "a", To: "c"},
	}
	if !maps.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}
