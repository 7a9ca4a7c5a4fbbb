package records

import (
	"errors"
	"slices"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/hostrecord"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
)

// A maintenance has ended only if every host answered and none is under it: the host may be the one that is switched
// off.
func TestHostUnder(t *testing.T) {
	t.Parallel()

	under := func(id string) *hostrecord.Record { return &hostrecord.Record{Cordon: &hostrecord.Cordon{ID: id}} }
	kvm1 := Recording{Host: &inventory.Host{Name: "kvm1"}, Record: under("other")}
	kvm2 := Recording{Host: &inventory.Host{Name: "kvm2"}, Record: under("this")}
	off := Recording{Host: &inventory.Host{Name: "kvm3"}, Err: errors.New("it is off")}

	for what, c := range map[string]struct {
		all    []Recording
		name   string
		unread []string
	}{
		"found":                   {all: []Recording{kvm1, kvm2}, name: "kvm2"},
		"found, another host off": {all: []Recording{off, kvm2}, name: "kvm2", unread: []string{"kvm3"}},
		"a host is off":           {all: []Recording{kvm1, off}, unread: []string{"kvm3"}},
		"ended":                   {all: []Recording{kvm1}},
	} {
		if name, unread := hostUnder(c.all, "this"); name != c.name || !slices.Equal(unread, c.unread) {
			t.Errorf("%s: %q, %q", what, name, unread)
		}
	}
}
