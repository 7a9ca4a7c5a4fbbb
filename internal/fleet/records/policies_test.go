package records

import (
	"errors"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/evacuation"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/hostrecord"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
)

// The record of another host, which can't be read, keeps no host from being drained: its policies are those of the
// hosts that answer. Without its own record it isn't known what applies to its VMs.
func TestForVMsOn_anotherHostsRecordIsDamaged(t *testing.T) {
	t.Parallel()

	own, other, damaged := &inventory.Host{Name: "kvm1"}, &inventory.Host{Name: "kvm2"}, &inventory.Host{Name: "kvm3"}
	with := func(id string) *hostrecord.Record {
		p := evacuation.Policy{}
		p.ID, p.Name = id, id

		return &hostrecord.Record{EvictionPolicies: []evacuation.Policy{p}}
	}
	all := []Recording{
		{Host: own, Record: with("a")}, {Host: other, Record: with("b")}, {Host: damaged, Err: errors.New("version 9")},
	}

	policies := (&Store{}).EvictionPolicies()
	if found, err := policies.ForVMsOn(own, all); err != nil || len(found) != 2 {
		t.Errorf("%+v, %v; want both policies", found, err)
	}

	if _, err := policies.ForVMsOn(damaged, all); err == nil {
		t.Error("policies of a host whose record can't be read")
	}
}
