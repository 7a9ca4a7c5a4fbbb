package onhosts

import (
	"slices"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/hostset"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

// TestOwn: a host that had nothing by the state, or that the state doesn't list, has the resource's object only if that
// has its UUID.
func TestOwn(t *testing.T) {
	t.Parallel()
	type hosts = map[string]string
	both, one := hosts{"kvm1": Active, "kvm2": Active}, hosts{"kvm1": Active}
	missing := hosts{"kvm1": Active, "kvm2": Missing}
	same, other := hosts{"kvm1": "a", "kvm2": "a"}, hosts{"kvm1": "a", "kvm2": "b"}
	for name, c := range map[string]struct {
		last  hosts // nil while it is imported
		has   hosts // UUIDs
		uuids []string
		want  []string
	}{
		"imported":                  {nil, other, nil, []string{"kvm1", "kvm2"}},
		"all had it":                {both, other, nil, []string{"kvm1", "kvm2"}},
		"missing, another":          {missing, other, nil, []string{"kvm1"}},
		"missing, restored":         {missing, same, nil, []string{"kvm1", "kvm2"}},
		"not listed, another":       {one, other, nil, []string{"kvm1"}},
		"not listed, its own":       {one, same, nil, []string{"kvm1", "kvm2"}},
		"not listed, recorded":      {one, hosts{"kvm2": "a"}, []string{"a"}, []string{"kvm2"}},
		"not listed, none recorded": {one, hosts{"kvm2": "b"}, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			last := types.MapNull(types.StringType)
			if c.last != nil {
				last = value.NewStringMap(c.last)
			}
			var answers []hostset.Answer[string]
			for _, host := range value.Keys(c.has) {
				uuid := c.has[host]
				answers = append(answers, hostset.Answer[string]{Host: host, Value: &uuid})
			}
			var got []string
			for _, a := range hostset.Found(own(answers, last, func(s string) string { return s }, c.uuids...)) {
				got = append(got, a.Host)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("own: %v, want %v", got, c.want)
			}
		})
	}
}
