package onhosts

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/fleettest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/hostset"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/meta"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

// TestRemoval_refused: what one host refuses to remove stays on all hosts, whether they are destroyed or leave. What
// fails only in the removal itself, or because the host doesn't answer, is gone from the others, which the error says.
func TestRemoval_refused(t *testing.T) {
	t.Parallel()
	f, err := fleet.New(fleet.Config{Owner: "test", Hosts: map[string]fleet.HostConfig{
		"kvm1": {URI: fleettest.BuiltInURI(t)}, "kvm2": {URI: fleettest.BuiltInURI(t)},
		"kvm3": {URI: fleettest.BuiltInURI(t)},
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	data, last := &meta.Data{Fleet: f}, value.NewStringMap(map[string]string{
		"kvm1": Present, "kvm2": Present, "kvm3": Present,
	})
	inUse := fmt.Errorf("%w: it is in use", libvirt.ErrOperationInvalid)
	silent := fmt.Errorf("%w: no route to host", libvirt.ErrUnreachable)
	failsOn := func(host string, err error, tried *[]string) Do {
		return func(_ context.Context, hosts hostset.Set) map[string]error {
			*tried = append(*tried, hosts.Names()...)
			if _, asked := hosts.Host(host); asked {
				return map[string]error{host: err}
			}
			return map[string]error{}
		}
	}
	for _, c := range []struct {
		check, remove string // the host on which it fails
		err           error
		tried         []string
		says, states  string
	}{
		{"kvm3", "", inUse, nil, "It stays on %s as well", "kvm1 kvm2 kvm3"},
		{"", "kvm3", inUse, []string{"kvm2", "kvm3"}, "It is removed from %s, but not from this host", "kvm1 kvm3"},
		{"kvm3", "", silent, []string{"kvm2"}, "It is removed from %s, but not from this host", "kvm1 kvm3"},
	} {
		var checked, removed []string
		change := Change{
			Data: data, Noun: "network", TypeName: "virtfleet_network", Check: failsOn(c.check, c.err, &checked),
			Remove: failsOn(c.remove, c.err, &removed), Put: Each(func(context.Context, *libvirt.Host) error { return nil }),
			UUID: func(context.Context, *libvirt.Host) (string, error) { return "same", nil },
		}
		states, _, said := change.Update(t.Context(), f.Connections().Named("kvm1"), last)
		if has := strings.Join(value.Keys(value.StringMap(states)), " "); has != c.states || said.ErrorsCount() != 1 ||
			!slices.Equal(removed, c.tried) {
			t.Errorf("%+v: two hosts leave, removed from %v: host_states has %s, %v", c, removed, has, said)
		}
		said = change.Delete(t.Context(), types.SetNull(types.StringType), last)
		if want := fmt.Sprintf(c.says, "kvm1, kvm2"); said.ErrorsCount() != 1 ||
			!strings.Contains(said.Errors()[0].Detail(), want) {
			t.Errorf("%+v: destroyed: %v", c, said)
		}
		if c.tried == nil && removed != nil {
			t.Errorf("%+v: removed from %v", c, removed)
		}
	}
	if left := RemoveTogether(t.Context(), f.Connections().Named("kvm3"), failsOn("kvm3", inUse, new([]string)),
		failsOn("", nil, new([]string))); len(left.Failed) > 0 {
		t.Errorf("a single host is checked twice: %v", left)
	}
}
