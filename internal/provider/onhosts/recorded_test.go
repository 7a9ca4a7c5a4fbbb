package onhosts

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/fleettest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/hostset"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/meta"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

// newLike returns an empty private state, whose type the framework doesn't export.
func newLike[T any](*T) *T { return new(T) }

// TestOwnRecorded: objects are known by their recorded UUIDs under the new keys of their hosts. The UUIDs of hosts that
// don't answer stay recorded, and those of other objects aren't.
func TestOwnRecorded(t *testing.T) {
	t.Parallel()
	private := newLike(resource.ReadResponse{}.Private)
	one, two := hostset.Answer[string]{Host: "kvm1"}, hostset.Answer[string]{Host: "kvm2"}
	has := func(a hostset.Answer[string], uuid string) hostset.Answer[string] {
		a.Value = &uuid
		return a
	}
	silent := hostset.Answer[string]{Host: "kvm2", Err: errors.New("silent")}
	imported := types.MapNull(types.StringType)
	renamed := value.NewStringMap(map[string]string{"a": Active})
	both := value.NewStringMap(map[string]string{"a": Active, "b": Active})
	type answers = []hostset.Answer[string]
	for _, step := range []struct {
		what           string
		last           types.Map
		answers        answers
		own, remembers []string
	}{
		{"none recorded", renamed, answers{has(one, "x")}, nil, nil},
		{
			"imported", imported,
			answers{has(one, "x"), has(two, "y")},
			[]string{"kvm1", "kvm2"},
			[]string{"x", "y"},
		},
		{"other keys", both, answers{has(one, "y"), has(two, "x")}, []string{"kvm1", "kvm2"}, []string{"x", "y"}},
		{"silent", both, answers{has(one, "x"), silent}, []string{"kvm1"}, []string{"x", "y"}},
		{"another", renamed, answers{has(one, "y"), has(two, "z")}, []string{"kvm1"}, []string{"x", "y"}},
		{
			"created again by hand", value.NewStringMap(map[string]string{"kvm1": Active}),
			answers{has(one, "v"), two},
			[]string{"kvm1"},
			[]string{"x", "y", "v"},
		},
	} {
		own, _, diags := OwnRecorded(t.Context(), "network", nil, step.answers, step.last,
			func(s string) string { return s }, private)
		if got := hostNames(hostset.Found(own)); diags.HasError() || !slices.Equal(got, step.own) {
			t.Errorf("%s: own: %v, want %v; %v", step.what, got, step.own, diags)
		}
		if got, diags := recorded(t.Context(), private); diags.HasError() || !slices.Equal(got, step.remembers) {
			t.Errorf("%s: recorded: %v, want %v; %v", step.what, got, step.remembers, diags)
		}
	}
}

// newData returns the data of hosts, by whether they are fenced.
func newData(t *testing.T, fenced map[string]bool) *meta.Data {
	t.Helper()
	hosts := map[string]fleet.HostConfig{}
	for name, is := range fenced {
		hosts[name] = fleet.HostConfig{URI: fleettest.BuiltInURI(t), Fenced: is}
	}
	f, err := fleet.New(fleet.Config{Owner: "test", Hosts: hosts})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return &meta.Data{Fleet: f}
}

// TestAsked: if none of the hosts that have an object has its key any more, all hosts are asked. The object is gone
// only if one of them could tell and it isn't to be restored, and no warning says that a host has left if the object
// was found.
func TestAsked(t *testing.T) {
	t.Parallel()
	type states = map[string]string
	two := map[string]bool{"b": false, "c": false}
	for what, c := range map[string]struct {
		fenced   map[string]bool
		last     states
		asked    []string
		found    int
		restored bool
		gone     bool
		warnings int
		errors   int
	}{
		"renamed":                            {two, states{"a": Active}, []string{"b", "c"}, 1, false, false, 0, 0},
		"cloned":                             {two, states{"a": Active}, []string{"b", "c"}, 2, false, false, 0, 1},
		"gone":                               {two, states{"a": Active}, []string{"b", "c"}, 0, false, true, 1, 0},
		"renamed, fenced":                    {map[string]bool{"b": true}, states{"a": Active}, nil, 0, false, false, 1, 0},
		"one has its key":                    {two, states{"a": Active, "b": Active}, []string{"b"}, 1, false, false, 1, 0},
		"had none anywhere":                  {two, states{"a": Missing}, nil, 0, false, true, 1, 0},
		"gone, to be restored":               {two, states{"b": Active}, []string{"b"}, 0, true, false, 0, 0},
		"gone with its host, to be restored": {two, states{"a": Active}, []string{"b", "c"}, 0, true, true, 1, 0},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			data, hosts, last := newData(t, c.fenced), value.NewStringSet([]string{"a"}), value.NewStringMap(c.last)
			asked := Asked(data, hosts, last)
			if !slices.Equal(asked.Names(), c.asked) {
				t.Errorf("asked: %v, want %v", asked.Names(), c.asked)
			}
			var answers []hostset.Answer[string]
			for _, name := range asked.Names() {
				answers = append(answers, hostset.Answer[string]{Host: name})
			}
			for i := range c.found {
				answers[i].Value = new("x")
			}
			o, diags := Observe(Question[string]{
				Data: data, Noun: "network", Restored: c.restored, Hosts: hosts, Last: last, Answers: answers,
				State: func(string) string { return Active },
			})
			if o.Gone != c.gone || diags.ErrorsCount() != c.errors || diags.WarningsCount() != c.warnings {
				t.Errorf("gone: %t, want %t; %v, want %d warnings, %d errors", o.Gone, c.gone, diags, c.warnings, c.errors)
			}
		})
	}
}

// TestUpdate_joining: an object on a host that joins is changed if it has any of the recorded UUIDs, as the plan
// accepts it; one with another UUID is refused by both.
func TestUpdate_joining(t *testing.T) {
	t.Parallel()
	data := newData(t, map[string]bool{"kvm1": false, "kvm2": false, "kvm3": false})
	last := value.NewStringMap(map[string]string{"kvm1": Active})
	has := map[string]string{"kvm1": "x", "kvm2": "y"}
	changed := make(chan string, len(has)+1)
	c := Change{
		Data: data, Noun: "network", TypeName: "virtfleet_network", ImportID: "lan", Healthy: Active,
		UUIDs:  []string{"x", "y"},
		Remove: Each(func(context.Context, *libvirt.Host) error { return nil }),
		UUID: func(_ context.Context, h *libvirt.Host) (string, error) {
			if uuid, ok := has[h.Name()]; ok {
				return uuid, nil
			}
			return "", libvirt.ErrNotFound
		},
		Put: Each(func(_ context.Context, h *libvirt.Host) error {
			changed <- h.Name()
			return nil
		}),
		New: func(uuid string) Do {
			return Each(func(_ context.Context, h *libvirt.Host) error {
				changed <- h.Name() + " new " + uuid
				return nil
			})
		},
	}
	for _, step := range []struct {
		uuid    string
		refused bool
		changes []string
	}{
		{"y", false, []string{"kvm1", "kvm2", "kvm3 new x"}},
		{"z", true, []string{"kvm1", "kvm3 new x"}},
	} {
		has["kvm2"] = step.uuid
		all := value.NewStringSet([]string{"kvm1", "kvm2", "kvm3"})
		targets, _ := Targets(data, all)
		if diags := c.CheckJoining(t.Context(), targets, all, last); diags.HasError() != step.refused {
			t.Errorf("%s: the plan says %v", step.uuid, diags)
		}
		_, complete, diags := c.Update(t.Context(), targets, last)
		if complete == step.refused || diags.HasError() != step.refused {
			t.Errorf("%s: the apply says %v", step.uuid, diags)
		}
		var got []string
		for len(changed) > 0 {
			got = append(got, <-changed)
		}
		if slices.Sort(got); !slices.Equal(got, step.changes) {
			t.Errorf("%s: changed: %v, want %v", step.uuid, got, step.changes)
		}
	}
}
