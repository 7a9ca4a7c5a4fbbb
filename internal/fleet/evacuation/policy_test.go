package evacuation

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/policy"
)

func TestSelectRule(t *testing.T) {
	t.Parallel()
	prod := map[string]string{"tier": "prod", "app": "web"}
	of := func(id, name string, s policy.Selector, p Policy) Policy {
		p.Identity = policy.Identity{ID: id, Name: name, Selector: s}
		return p
	}
	type labels = map[string]string
	policies := []Policy{
		of("1", "all", policy.Selector{}, Policy{Strategy: None}),
		of("2", "prod", policy.Selector{Labels: labels{"tier": "prod"}}, Policy{Strategy: LiveMigrate}),
		of("3", "web", policy.Selector{Labels: labels{"app": "web"}}, Policy{Strategy: External}),
		of("4", "b-one", policy.Selector{Names: []string{"db1"}}, Policy{Strategy: External, Priority: 7}),
		of("5", "a-host", policy.Selector{Hosts: []string{"kvm1"}}, Policy{Strategy: LiveMigrateIfPossible}),
		of("6", "batch", policy.Selector{Labels: labels{"tier": "batch"}}, Policy{
			Strategy: LiveMigrateIfPossible, Fallback: Save,
		}),
		of("7", "long", policy.Selector{Names: []string{"long"}}, Policy{Strategy: LiveMigrate, OnCancel: Finish}),
	}
	for name, tt := range map[string]struct {
		machine   VM
		host      string
		policies  []Policy
		byDefault string
		want      Rule
	}{
		"not chosen":     {want: Rule{Strategy: LiveMigrateIfPossible, Fallback: Block, Origin: OriginProvider}},
		"the provider's": {byDefault: None, want: Rule{Strategy: None, Fallback: Block, Origin: OriginProvider}},
		"its own": {
			machine: VM{Strategy: LiveMigrate}, want: Rule{Strategy: LiveMigrate, Fallback: Block, Origin: OriginVM},
		},
		"its own if possible": {
			machine: VM{Strategy: LiveMigrateIfPossible},
			want:    Rule{Strategy: LiveMigrateIfPossible, Fallback: Shutdown, Origin: OriginVM},
		},
		"a tie goes to the smaller name": {
			machine: VM{Name: "w", Labels: prod}, host: "kvm2", policies: policies,
			want: Rule{Strategy: LiveMigrate, Fallback: Block, Origin: OriginPolicy, Policy: "prod"},
		},
		"names before hosts": {
			machine: VM{Name: "db1"}, host: "kvm1", policies: policies,
			want: Rule{Strategy: External, Fallback: Block, Origin: OriginPolicy, Policy: "b-one", Priority: 7},
		},
		"hosts before all": {
			machine: VM{Name: "x"}, host: "kvm1", policies: policies,
			want: Rule{Strategy: LiveMigrateIfPossible, Fallback: Shutdown, Origin: OriginPolicy, Policy: "a-host"},
		},
		"empty matches all": {
			machine: VM{Name: "x"}, host: "kvm2", policies: policies, byDefault: LiveMigrate,
			want: Rule{Strategy: None, Fallback: Block, Origin: OriginPolicy, Policy: "all"},
		},
		"labels before names and hosts": {
			machine: VM{Name: "db1", Labels: map[string]string{"tier": "batch"}}, host: "kvm1", policies: policies,
			want: Rule{Strategy: LiveMigrateIfPossible, Fallback: Save, Origin: OriginPolicy, Policy: "batch"},
		},
		"its own wins and the policy says the rest": {
			machine: VM{Name: "db1", Strategy: LiveMigrateIfPossible}, host: "kvm2", policies: policies,
			want: Rule{Strategy: LiveMigrateIfPossible, Fallback: Shutdown, Origin: OriginVM, Policy: "b-one", Priority: 7},
		},
		"the policy's fallback holds for its own too": {
			machine: VM{Name: "x", Strategy: LiveMigrate, Labels: map[string]string{"tier": "batch"}}, policies: policies,
			want: Rule{Strategy: LiveMigrate, Fallback: Save, Origin: OriginVM, Policy: "batch"},
		},
		"what becomes of it at a cancel": {
			machine: VM{Name: "long", Strategy: External}, policies: policies,
			want: Rule{Strategy: External, Fallback: Block, Origin: OriginVM, Policy: "long", OnCancel: Finish},
		},
		"another policy says something else about that": {
			machine: VM{Name: "long", Labels: prod}, policies: policies,
			want: Rule{Strategy: LiveMigrate, Fallback: Block, Origin: OriginPolicy, Policy: "prod"},
		},
	} {
		if got := SelectRule(tt.machine, tt.host, tt.policies, tt.byDefault); !cmp.Equal(got, tt.want) {
			t.Errorf("%s: %+v, want %+v", name, got, tt.want)
		}
	}
}

// A policy is the same after it was kept on a host. One that was kept before there was anything to say about a cancel
// says nothing about it, and one that says nothing is kept as it was then.
func TestPolicy_kept(t *testing.T) {
	t.Parallel()
	for onCancel, kept := range map[string]string{"": "", Abort: `"on_cancel":"abort",`, Finish: `"on_cancel":"finish",`} {
		said := Policy{Identity: policy.Identity{ID: "1", Name: "prod"}, Strategy: LiveMigrate, OnCancel: onCancel}
		want := `{"id":"1","name":"prod","selector":{},"strategy":"LiveMigrate",` + kept + `"migration_options":`
		text, err := json.Marshal(said)
		if err != nil || !strings.HasPrefix(string(text), want) {
			t.Errorf("%q is kept as %s, %v; want %s", onCancel, text, err, want)
		}
		var read Policy
		if err := json.Unmarshal(text, &read); err != nil || !cmp.Equal(read, said) {
			t.Errorf("%q is read as %+v, %v", onCancel, read, err)
		}
	}
}

// The table of KubeVirt's pod-eviction webhook, and what the fallbacks add.
func TestMethodFor(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		strategy, fallback string
		migratable         bool
		want               string
		marked             bool
	}{
		{None, Block, true, MethodShutdown, false},
		{None, Block, false, MethodShutdown, false},
		{LiveMigrate, Block, true, MethodLive, true},
		{LiveMigrate, Block, false, MethodBlocked, false},
		{LiveMigrate, Save, false, MethodSave, false},
		{LiveMigrateIfPossible, Shutdown, true, MethodLive, true},
		{LiveMigrateIfPossible, Shutdown, false, MethodShutdown, false},
		{LiveMigrateIfPossible, ColdMigrate, false, MethodCold, true},
		{LiveMigrateIfPossible, Block, false, MethodBlocked, false},
		{External, Block, true, MethodExternal, true},
		{External, Shutdown, false, MethodExternal, true},
	} {
		got := MethodFor(Rule{Strategy: tt.strategy, Fallback: tt.fallback}, tt.migratable)
		if got != tt.want || RequestsEviction(got) != tt.marked {
			t.Errorf("%+v: %s, marked %v", tt, got, RequestsEviction(got))
		}
	}
}
