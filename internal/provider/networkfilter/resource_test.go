package networkfilter

import "testing"

// TestIsAsApplied: a filter that has changed differs, also if its host has another key than at the last apply.
func TestIsAsApplied(t *testing.T) {
	t.Parallel()
	applied := map[string]string{"kvm1": "a", "kvm2": "b"}
	for _, c := range []struct {
		digests      map[string]string
		host, digest string
		want         bool
	}{
		{applied, "kvm1", "a", true},
		{applied, "kvm1", "b", false},
		{applied, "renamed", "b", true},
		{applied, "renamed", "c", false},
		{map[string]string{"kvm1": newer}, "kvm1", "a", false},
		{nil, "kvm1", "a", true},
	} {
		if got := isAsApplied(c.digests, c.host, c.digest); got != c.want {
			t.Errorf("%v, %s with %s: as applied: %t, want %t", c.digests, c.host, c.digest, got, c.want)
		}
	}
}
