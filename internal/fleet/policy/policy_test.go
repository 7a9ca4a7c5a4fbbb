package policy_test

import (
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/policy"
)

// ruling is a policy that says one thing.
type ruling struct {
	policy.Identity

	Says string `json:"says,omitempty"`
}

func named(id, name string, s policy.Selector) ruling {
	return ruling{Identity: policy.Identity{ID: id, Name: name, Selector: s}}
}

// The most labels win, then names, then hosts, then the smallest name: in whatever order the policies come.
func TestWinner(t *testing.T) {
	t.Parallel()
	type labels = map[string]string
	policies := []ruling{
		named("1", "all", policy.Selector{}),
		named("2", "tier", policy.Selector{Labels: labels{"tier": "prod"}}),
		named("3", "both", policy.Selector{Labels: labels{"tier": "prod", "app": "web"}}),
		named("4", "app", policy.Selector{Labels: labels{"app": "web"}}),
		named("5", "names", policy.Selector{Names: []string{"db1", "db2"}}),
		named("6", "hosts", policy.Selector{Hosts: []string{"kvm1"}}),
		named("7", "here", policy.Selector{Labels: labels{"tier": "lab"}, Hosts: []string{"kvm1"}}),
		named("8", "lab", policy.Selector{Labels: labels{"tier": "lab"}}),
		named("9", "all", policy.Selector{}),
	}
	for name, tt := range map[string]struct {
		machine policy.VM
		want    string
	}{
		"nothing said about it":    {policy.VM{Name: "x", Host: "kvm2"}, "1"},
		"the most labels":          {policy.VM{Labels: labels{"tier": "prod", "app": "web", "more": "1"}}, "3"},
		"one label of two":         {policy.VM{Labels: labels{"tier": "prod", "app": "db"}}, "2"},
		"another value":            {policy.VM{Labels: labels{"tier": "test"}}, "1"},
		"names before hosts":       {policy.VM{Name: "db2", Host: "kvm1"}, "5"},
		"hosts before all":         {policy.VM{Name: "x", Host: "kvm1"}, "6"},
		"labels before names":      {policy.VM{Name: "db1", Host: "kvm1", Labels: labels{"app": "web"}}, "4"},
		"labels and host":          {policy.VM{Name: "x", Host: "kvm1", Labels: labels{"tier": "lab"}}, "7"},
		"labels and another host":  {policy.VM{Name: "x", Host: "kvm2", Labels: labels{"tier": "lab"}}, "8"},
		"an empty value is no key": {policy.VM{Labels: labels{"tier": ""}}, "1"},
	} {
		for turn := range policies {
			turned := append(append([]ruling{}, policies[turn:]...), policies[:turn]...)
			if got := policy.Winner(turned, tt.machine); got == nil || got.ID != tt.want {
				t.Errorf("%s: %+v, want %s", name, got, tt.want)
			}
		}
	}
	if got := policy.Winner(policies[1:8], policy.VM{Name: "x", Host: "kvm2"}); got != nil {
		t.Errorf("a VM that none selects has %+v", got)
	}
	every := policy.Selector{}
	tie := []ruling{named("2", "b", every), named("1", "c", every), named("3", "a", every)}
	if got := policy.Winner(tie, policy.VM{}); got.Name != "a" {
		t.Errorf("a tie goes to %+v", got)
	}
}

func TestSame_comparesAllButTheID(t *testing.T) {
	t.Parallel()
	says := func(id, name, what string) ruling {
		r := named(id, name, policy.Selector{})
		r.Says = what
		return r
	}
	empty := says("1", "a", "x")
	empty.Selector.Labels = map[string]string{}
	for _, tt := range []struct {
		a, b ruling
		want bool
	}{
		{says("1", "a", "x"), says("2", "a", "x"), true},
		{says("1", "a", "x"), says("1", "b", "x"), false},
		{says("1", "a", "x"), says("1", "a", "y"), false},
		{says("1", "1", "x"), says("2", "2", "x"), true},
		{says("1", "1", "x"), says("2", "a", "x"), false},
		{says("1", "a", "x"), empty, true},
	} {
		if got := policy.Same(tt.a, tt.b); got != tt.want {
			t.Errorf("%+v and %+v are the same: %v", tt.a, tt.b, got)
		}
	}
}
