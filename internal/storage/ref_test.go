package storage

import "testing"

// TestParseRef: an id has a pool and a name. A path isn't one.
func TestParseRef(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]Ref{
		"vms/data": {"vms", "data"}, "tank/a/b": {"tank", "a/b"},
		"": {}, "data": {}, "vms/": {}, "/srv/vms/data": {},
	} {
		got := ParseRef(id)
		if (got == nil) != (want == Ref{}) || got != nil && (*got != want || got.String() != id) {
			t.Errorf("%q: %v, want %v", id, got, want)
		}
	}
}
