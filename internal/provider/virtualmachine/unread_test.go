package virtualmachine

import (
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/attr"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

// Of an update that failed, the state says of each attribute what is on the host. For what no host tells, unread has to
// say what the state has.

// policyAt is the value of a policy attribute at a path; nil: there is none.
func policyAt(m *model, at string) attr.Value {
	steps := strings.Split(at, ".")
	v := m.get(steps[0])
	for _, step := range steps[1:] {
		level, ok := v.(interface{ Attributes() map[string]attr.Value })
		if !ok {
			return nil
		}
		v = level.Attributes()[step]
	}
	return v
}

// readBack reports whether a refresh tells what a VM has of a policy attribute at a path if something else was planned.
// tried is false if no two values of it were found to try.
func readBack(t *testing.T, at string) (read, tried bool) {
	t.Helper()
	values, steps := leafValues(at, leaves[at]), strings.Split(at, ".")
	for _, base := range []in{full, minimal.with(in{"disks": in{"root": in{"pool": "vms", "size": "1Gi"}}})} {
		for _, has := range append(slices.Clone(values), nil) {
			for _, wanted := range values {
				is, plan := base.clone(), base.clone()
				is.put(slices.Clone(steps), has)
				plan.put(slices.Clone(steps), wanted)
				before, planned := modelOf(t, is), modelOf(t, plan)
				was, want := policyAt(before, at), policyAt(planned, at)
				if want == nil || !isSet(want) || isNothing(want) || was != nil && sameMeaning(at, was, want) ||
					before.validate().HasError() || planned.validate().HasError() {
					continue
				}
				var now model
				now.fromFleet(observation{vm: mustMake(t, before)}, planned)
				seen := policyAt(&now, at)
				return seen == nil || !sameMeaning(at, seen, want), true
			}
		}
	}
	return false, false
}

func TestUnread_isComplete(t *testing.T) {
	t.Parallel()
	missing := map[string]bool{}
	for _, at := range value.Keys(leaves) {
		name, _, _ := strings.Cut(at, ".")
		if _, ok := policyAttributes[name]; !ok || leaves[at].IsWriteOnly() {
			continue // TestAttributes_allAreReadBack has the others. The state has no write-only value.
		}
		read, tried := readBack(t, at)
		missing[name] = missing[name] || !read
		if _, known := unread[name]; !tried {
			t.Errorf("%s has no two values to try", at)
		} else if !read && !known {
			t.Errorf("no refresh reads %s: say in unread what the state has of it after an update that failed", at)
		}
	}
	for name := range unread {
		if !missing[name] {
			t.Errorf("%s is in unread, and a refresh reads it", name)
		}
	}
}

func TestUnread_afterAFailedUpdate(t *testing.T) {
	t.Parallel()
	before, planned := &model{}, modelOf(t, full)
	for _, reached := range []bool{false, true} {
		now := *planned
		now.keepUnreached(before, &fleet.VM{PasswordSet: reached})
		for _, p := range attributePairs(vmSchema.Attributes, &now, planned) {
			if kept := unread[p.name] && !reached; kept == p.a.Equal(p.b) {
				t.Errorf("reached: %v: %s is %s, planned was %s", reached, p.name, p.a, p.b)
			}
		}
	}
}

// What an update that failed was to remove, and hasn't, is in the state as before.
func TestUnread_removed(t *testing.T) {
	t.Parallel()
	for _, base := range []in{full, withSeed(nil), withIgnition(nil)} {
		before := stateAfterApply(t, base)
		for _, name := range value.Keys(policyAttributes) {
			if _, isUnread := unread[name]; isUnread || name == "run_strategy" || !isSet(before.get(name)) {
				continue
			}
			var now model
			planned, vm := modelOf(t, base.without(name)), mustMake(t, modelOf(t, base))
			planned.keepUnreached(before, vm)
			now.fromFleet(observation{vm: vm}, planned)
			if !isSet(now.get(name)) {
				t.Errorf("%s isn't in the state; it was %s", name, before.get(name))
			}
		}
	}
}
