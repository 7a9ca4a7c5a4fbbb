package records

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/hostrecord"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
)

// What a host that was not asked keeps of a policy that was removed meanwhile would hold again as soon as it is back.
// So the others note the removal, as long as there are such hosts: hostrecord.Record.Removed. A host may also have been
// taken out of the configuration, so that every record names all hosts that were given policies:
// hostrecord.Record.PolicyHosts. Whoever reads policies ignores those that any host knows to be removed, and whoever
// writes some removes what came back.

// noteRemoved notes that the policy was removed, and from which hosts it could not be: the absent ones, and any that
// were given policies and are not among those that were asked.
func noteRemoved(r *hostrecord.Record, id string, asked, absent []string) {
	absent = union(absent, slices.DeleteFunc(union(r.Removed[id], r.PolicyHosts), func(name string) bool {
		return slices.Contains(asked, name)
	}))

	delete(r.Removed, id)

	if len(absent) > 0 {
		if r.Removed == nil {
			r.Removed = make(map[string][]string)
		}

		r.Removed[id] = absent
	}

	notePolicyHosts(r, nil)
}

// notePolicyHosts notes hosts that were given policies, as long as there are any.
func notePolicyHosts(r *hostrecord.Record, names []string) {
	if !r.HasPolicies() {
		r.PolicyHosts = nil

		return
	}

	r.PolicyHosts = union(r.PolicyHosts, names)
}

// union is all that is in either, once and sorted.
func union(a, b []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(slices.Concat(a, b))))
}

// policyHostsOf are all hosts that any record says to have been given policies, or whose own has some.
func policyHostsOf(all []Recording) []string {
	var names []string

	for _, r := range all {
		if r.Err != nil {
			continue
		}

		names = union(names, r.Record.PolicyHosts)

		if r.Record.HasPolicies() {
			names = union(names, []string{r.Host.Name})
		}
	}

	return names
}

// WithoutRemoved are the records without the policies that any of them knows to have been removed.
func WithoutRemoved(all []Recording) []Recording {
	removed := removedOf(all)
	if len(removed) == 0 {
		return all
	}

	for i, r := range all {
		if r.Err == nil {
			record := r.Record.WithoutPolicies(removed)
			all[i].Record = &record
		}
	}

	return all
}

// removedOf are all policies that any record says to have been removed, with the hosts that could not be asked.
func removedOf(all []Recording) map[string][]string {
	removed := make(map[string][]string)

	for _, r := range all {
		if r.Err != nil {
			continue
		}

		for id, absent := range r.Record.Removed {
			removed[id] = append(removed[id], absent...)
		}
	}

	return removed
}

// unaware says that a host which has policies doesn't know of all others that do.
func (r Recording) unaware(given []string) bool {
	return r.Err == nil && r.Record.HasPolicies() && len(union(r.Record.PolicyHosts, given)) > len(r.Record.PolicyHosts)
}

// finishRemovals removes what hosts that are back have of policies that were removed meanwhile, and the notes about
// policies that no host can have any more. It lets every host know which others have policies. What fails is left to
// the next who writes policies.
func (s *Store) finishRemovals(ctx context.Context) {
	asked := s.hosts.Present()

	all := readRecordings(asked, func(h *inventory.Host) (*hostrecord.Record, error) {
		ctx, cancel := context.WithTimeout(ctx, inventory.AskTimeout)
		defer cancel()

		record, _, err := inventory.ReadRecord(ctx, h)

		return record, err
	})

	removed, given := removedOf(all), policyHostsOf(all)
	if len(removed) == 0 && !slices.ContainsFunc(all, func(r Recording) bool { return r.unaware(given) }) {
		return
	}

	failed, err := s.changeRecords(ctx, func(_ string, r *hostrecord.Record) {
		*r = r.WithoutPolicies(removed)
		notePolicyHosts(r, given)
	})
	if err != nil {
		s.log.WarnContext(ctx, "removed policies may be left", "hosts", strings.Join(failed, ", "), "error", err.Error())
	}

	over := maps.Clone(removed)
	maps.DeleteFunc(over, func(_ string, absent []string) bool {
		return slices.ContainsFunc(absent, func(name string) bool {
			return slices.Contains(failed, name) || !slices.ContainsFunc(asked,
				func(h *inventory.Host) bool { return h.Name == name })
		})
	})

	if len(over) == 0 {
		return
	}

	_, err = s.changeRecords(ctx, func(_ string, r *hostrecord.Record) {
		for id := range over {
			delete(r.Removed, id)
		}
	})
	if err != nil {
		s.log.WarnContext(ctx, "notes of removed policies are left", "error", err.Error())
	}
}
