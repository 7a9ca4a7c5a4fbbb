package onhosts

import (
	"errors"
	"slices"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/hostset"
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
			[]string{"v", "x", "y"},
		},
	} {
		own, diags := OwnRecorded(t.Context(), step.answers, step.last, func(s string) string { return s }, private)
		if got := hostNames(hostset.Found(own)); diags.HasError() || !slices.Equal(got, step.own) {
			t.Errorf("%s: own: %v, want %v; %v", step.what, got, step.own, diags)
		}
		if got, diags := recorded(t.Context(), private); diags.HasError() || !slices.Equal(got, step.remembers) {
			t.Errorf("%s: recorded: %v, want %v; %v", step.what, got, step.remembers, diags)
		}
	}
}
