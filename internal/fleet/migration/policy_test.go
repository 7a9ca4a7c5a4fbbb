package migration

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/policy"
)

// What was written for the migration takes precedence over the policy, attribute by attribute, the policy over the
// provider, and that over the defaults.
func TestResolveOptions(t *testing.T) {
	t.Parallel()
	prod := policy.VM{Name: "web", Labels: map[string]string{"tier": "prod", "app": "web"}}
	selecting := func(name string, labels map[string]string, o Options) Policy {
		return Policy{
			Identity: policy.Identity{ID: name, Name: name, Selector: policy.Selector{Labels: labels}}, Options: o,
		}
	}
	policies := []Policy{
		selecting("all", nil, Options{Bandwidth: new(uint64(1)), AllowAutoConverge: new(true)}),
		selecting("prod", map[string]string{"tier": "prod"}, Options{
			Bandwidth: new(uint64(2)), ProgressTimeout: new(time.Second), AllowPostCopy: new(true),
			StallDetector: new(true),
		}),
	}
	provider := Options{
		Bandwidth: new(uint64(9)), Transport: TransportDirect, AllowWorkloadDisruption: new(false),
		MaxDowntime: new(time.Second), StallDetector: new(false),
	}
	over := func(o Options) Options { return o.WithDefaults() }
	for name, tt := range map[string]struct {
		machine policy.VM
		own     Options
		want    EffectiveOptions
	}{
		"the most specific wins, and is all there is of policies": {
			prod, Options{}, EffectiveOptions{Policy: "prod", Options: over(Options{
				Bandwidth: new(uint64(2)), ProgressTimeout: new(time.Second), Transport: TransportDirect,
				AllowPostCopy: new(true), AllowWorkloadDisruption: new(true), MaxDowntime: new(time.Second),
				StallDetector: new(true),
			})},
		},
		"what was written for the migration wins": {
			prod,
			Options{Bandwidth: new(uint64(0)), AllowPostCopy: new(false), StallDetector: new(false)},
			EffectiveOptions{Policy: "prod", Options: over(Options{
				ProgressTimeout: new(time.Second), Transport: TransportDirect, MaxDowntime: new(time.Second),
			})},
		},
		"a VM without labels": {
			policy.VM{Name: "x"},
			Options{MaxDowntime: new(time.Minute)},
			EffectiveOptions{Policy: "all", Options: over(Options{
				Bandwidth: new(uint64(1)), AllowAutoConverge: new(true), Transport: TransportDirect,
				AllowWorkloadDisruption: new(false), MaxDowntime: new(time.Minute),
			})},
		},
	} {
		if diff := cmp.Diff(tt.want, ResolveOptions(tt.machine, tt.own, policies, provider)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	none := ResolveOptions(prod, Options{}, nil, provider)
	if diff := cmp.Diff(EffectiveOptions{Options: provider.WithDefaults()}, none); diff != "" {
		t.Errorf("without a policy (-want +got):\n%s", diff)
	}
}

func TestOptions_textAndBack(t *testing.T) {
	t.Parallel()
	for _, o := range []Options{
		{}, Options{}.WithDefaults(), {MaxDowntime: new(time.Second), Bandwidth: new(uint64(1) << 40)},
	} {
		got, err := ParseOptions(o.Text())
		if diff := cmp.Diff(o, got); err != nil || diff != "" {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
	}
	if _, err := ParseOptions("auto"); err == nil {
		t.Error("what is no text of options is read")
	}
}
