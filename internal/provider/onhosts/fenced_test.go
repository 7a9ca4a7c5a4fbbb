package onhosts

import (
	"context"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/fleettest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/meta"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

// TestCreate_allFenced: a resource whose hosts are all fenced isn't created, which the plan says.
func TestCreate_allFenced(t *testing.T) {
	t.Parallel()
	f, err := fleet.New(fleet.Config{Owner: "test", Hosts: map[string]fleet.HostConfig{
		"kvm1": {URI: fleettest.BuiltInURI(t), Fenced: true}, "kvm2": {URI: fleettest.BuiltInURI(t)},
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	data := &meta.Data{Fleet: f}
	for _, c := range []struct {
		hosts types.Set
		fails bool
	}{
		{value.NewStringSet([]string{"kvm1"}), true},
		{value.NewStringSet([]string{"kvm1", "kvm2"}), false},
		{value.NewStringSet(nil), false},
	} {
		targets, said := Targets(data, c.hosts)
		if said.HasError() || (said.WarningsCount() > 0) != c.fails {
			t.Errorf("%s: the plan says %v", c.hosts, said)
		}
		if !c.fails {
			continue
		}
		nothing := Each(func(context.Context, *libvirt.Host) error { return nil })
		states, said := Change{
			Data: data, Noun: "network", TypeName: "virtfleet_network", Remove: nothing,
			New: func(string) Do { return nothing },
		}.Create(t.Context(), targets)
		if !said.HasError() || !states.IsNull() {
			t.Errorf("%s: the apply says %v; the states are %s", c.hosts, said, states)
		}
		// One that was created before stays in the state, and isn't changed.
		last := value.NewStringMap(map[string]string{"kvm1": Present})
		o, said := Observe(Question[string]{Data: data, Noun: "network", Hosts: c.hosts, Last: last})
		if said.HasError() || !o.Keep || o.Gone || !PlanStates(targets, c.hosts, last, Present).Equal(last) {
			t.Errorf("%s: after a read, %+v, %v", c.hosts, o, said)
		}
		states, _, said = Change{Data: data, Noun: "network", Put: nothing}.Update(t.Context(), targets, last)
		if said.HasError() || !states.Equal(last) {
			t.Errorf("%s: the states after an update are %s, %v", c.hosts, states, said)
		}
	}
}
