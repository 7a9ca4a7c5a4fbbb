package records

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/hostrecord"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
)

// If a policy is removed while a host can't be queried, that host's copy would apply again once the host is back. So
// the other hosts record the removal while there are such hosts: hostrecord.Record.Removed. A host may also have been
// removed from the configuration, so every record names all hosts that got policies: hostrecord.Record.PolicyHosts.
// Readers ignore the policies that any host knows to be removed, and writers remove copies that came back.

// noteRemoved records that the policy was removed, and on which hosts it could not be: the absent ones, and those that
// got policies and were not queried.
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

// notePolicyHosts records hosts that got policies, while there are policies.
func notePolicyHosts(r *hostrecord.Record, names []string) {
	if !r.HasPolicies() {
		r.PolicyHosts = nil

		return
	}

	r.PolicyHosts = union(r.PolicyHosts, names)
}

// union returns the elements of both, sorted and without duplicates.
func union(a, b []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(slices.Concat(a, b))))
}

// policyHostsOf returns all hosts that got policies by any record, or whose own record has policies.
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

// WithoutRemoved returns the records without the policies that any of them records as removed.
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

// removedOf returns all policies that any record says were removed, with the hosts that could not be queried.
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

// unaware reports whether a host that has policies doesn't know all other hosts that have some.
func (r Recording) unaware(given []string) bool {
	return r.Err == nil && r.Record.HasPolicies() && len(union(r.Record.PolicyHosts, given)) > len(r.Record.PolicyHosts)
}

// finishRemovals removes policies that were removed meanwhile from hosts that are back, and the records of removed
// policies that no host can have any more. It records on every host which others have policies. What fails is left to
// the next run that writes policies.
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
