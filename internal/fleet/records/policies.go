package records

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/evacuation"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/hostrecord"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/lease"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/policy"
)

// PolicyCopy is one host's copy of a policy.
type PolicyCopy[P policy.Policy] struct {
	Host string
	// Policy is the host's copy, nil if it has none.
	Policy *P
	// Err says why the host's copy can't be read.
	Err error
}

// Policies are all policies of one kind. Every host of the fleet has all of them in its record, so that every reader
// gets them. A policy is gone only when no host has it.
type Policies[P policy.Policy] struct {
	store *Store
	// noun is what errors call such a policy, in returns where a record has them.
	noun string
	in   func(*hostrecord.Record) *[]P
}

// EvictionPolicies returns the policies that control how VMs leave a host that is drained.
func (s *Store) EvictionPolicies() Policies[evacuation.Policy] {
	return Policies[evacuation.Policy]{
		store: s, noun: "eviction policy", in: func(r *hostrecord.Record) *[]evacuation.Policy { return &r.EvictionPolicies },
	}
}

// MigrationPolicies returns the policies that tune the migrations of VMs.
func (s *Store) MigrationPolicies() Policies[migration.Policy] {
	return Policies[migration.Policy]{
		store: s, noun: "migration policy",
		in: func(r *hostrecord.Record) *[]migration.Policy { return &r.MigrationPolicies },
	}
}

// Copies returns, as of the snapshot, each host's copy of the policy for which which returns true. Fenced hosts are
// left out. For a host that doesn't answer, Err is set.
func (s Policies[P]) Copies(ctx context.Context, which func(P) bool) ([]PolicyCopy[P], error) {
	records, err := s.store.Records(ctx)
	if err != nil {
		return nil, err
	}

	copies := make([]PolicyCopy[P], len(records))

	for i, r := range records {
		copies[i].Host, copies[i].Err = r.Host.Name, r.Err
		if r.Err != nil {
			continue
		}

		all := *s.in(r.Record)
		if at := slices.IndexFunc(all, which); at >= 0 {
			copies[i].Policy = &all[at]
		}
	}

	return copies, ctx.Err()
}

// Put writes the policy to the record of every host that is not fenced, in place of a policy with the same id. It
// returns ErrExists if another policy of the same kind has the name. It returns the hosts that don't have the policy
// then, with an error that says why.
//
// Put removes what namesakes finds of it under other ids, too.
func (s Policies[P]) Put(ctx context.Context, p P) (lacking []string, err error) {
	me := p.Identified()

	// Two policies of one name may be created at a time: the second one finds the first.
	ctx, unlock, err := s.store.lockPolicy(ctx, s.noun, me.Name)
	if err != nil {
		return s.store.hosts.AskedHosts(), err
	}
	defer unlock()

	mine, err := s.Copies(ctx, func(o P) bool { return o.Identified().ID == me.ID })
	if err != nil {
		return s.store.hosts.AskedHosts(), err
	}

	former, other, err := s.namesakes(ctx, append(mine, PolicyCopy[P]{Policy: &p}))
	if err != nil {
		return s.store.hosts.AskedHosts(), err
	}

	if other != nil {
		return s.store.hosts.AskedHosts(), &inventory.Error{
			Host: other.Host, Kind: inventory.ErrExists, Detail: fmt.Sprintf("%s %q exists already", s.noun, me.Name),
			Existing: (*other.Policy).Identified().ID, Remedy: "Otherwise choose another name.",
		}
	}

	var answering []string

	for _, c := range mine {
		if c.Err == nil {
			answering = append(answering, c.Host)
		}
	}

	lacking, err = s.store.changeRecords(ctx, func(_ string, r *hostrecord.Record) {
		delete(r.Removed, me.ID)

		all := s.in(r)

		at := slices.IndexFunc(*all, func(o P) bool { return o.Identified().ID == me.ID })
		if at < 0 {
			*all = append(*all, p)
		} else {
			(*all)[at] = p
		}

		for _, id := range former {
			s.drop(r, id, s.store.hosts.FencedHosts())
		}

		notePolicyHosts(r, answering)
	})
	if err == nil {
		s.store.finishRemovals(ctx)
	}

	return lacking, err
}

// namesakes returns the other ids of a policy, and a copy of another policy with its name, nil without one. A host that
// was away has the policy under another id if it was created again meanwhile, with the content of one of these copies.
func (s Policies[P]) namesakes(
	ctx context.Context, mine []PolicyCopy[P],
) (former []string, other *PolicyCopy[P], err error) {
	mine = slices.DeleteFunc(slices.Clone(mine), func(c PolicyCopy[P]) bool { return c.Policy == nil })
	if len(mine) == 0 {
		return nil, nil, nil
	}

	me := (*mine[len(mine)-1].Policy).Identified()
	others, err := s.Copies(ctx, func(o P) bool { return o.Identified().Name == me.Name && o.Identified().ID != me.ID })

	for i, c := range others {
		switch {
		case c.Policy == nil:
		case slices.ContainsFunc(mine, func(m PolicyCopy[P]) bool { return policy.Same(*c.Policy, *m.Policy) }):
			former = append(former, (*c.Policy).Identified().ID)
		default:
			other = &others[i]
		}
	}

	return former, other, err
}

// Remove removes the policy from the record of every host that is not fenced, and makes the copies on all other hosts
// that ever got it invalid. It returns the hosts that were to be queried and may still have the policy, with an error
// that says why.
func (s Policies[P]) Remove(ctx context.Context, id string) (left []string, err error) {
	remove := func(_ string, r *hostrecord.Record) {
		s.drop(r, id, append(s.store.hosts.FencedHosts(), left...))
	}

	failed, err := s.store.changeRecords(ctx, remove)
	if err == nil {
		s.store.finishRemovals(ctx)

		return nil, nil
	}

	// These hosts may be fenced before they answer again, and then no run removes the policy there.
	left = failed
	answering := slices.DeleteFunc(s.store.hosts.Present(),
		func(h *inventory.Host) bool { return slices.Contains(left, h.Name) })

	_, noteErr := s.store.changeRecordsOn(ctx, answering, remove)

	return left, errors.Join(err, noteErr)
}

// drop removes the policy from a record, and makes copies on the absent hosts invalid.
func (s Policies[P]) drop(r *hostrecord.Record, id string, absent []string) {
	all := s.in(r)
	*all = slices.DeleteFunc(*all, func(o P) bool { return o.Identified().ID == id })
	noteRemoved(r, id, s.store.hosts.AskedHosts(), absent)
}

// ForVMsOn returns the policies that apply to VMs on the host. If the hosts' copies differ, this host's copies apply.
// It returns an error only if this host's own record can't be read: what one of the others has, the rest have too.
func (s Policies[P]) ForVMsOn(h *inventory.Host, all []Recording) ([]P, error) {
	var policies []P

	at := slices.IndexFunc(all, func(r Recording) bool { return r.Host == h })
	if at >= 0 {
		if all[at].Err != nil {
			return nil, all[at].Err
		}

		policies = slices.Clone(*s.in(all[at].Record))
	}

	for i, r := range all {
		if i == at || r.Err != nil {
			continue
		}

		for _, p := range *s.in(r.Record) {
			if !slices.ContainsFunc(policies, func(o P) bool { return o.Identified().ID == p.Identified().ID }) {
				policies = append(policies, p)
			}
		}
	}

	return policies, nil
}

// changeRecords changes the records of all hosts that are not fenced, in parallel.
func (s *Store) changeRecords(
	ctx context.Context, change func(host string, r *hostrecord.Record),
) (failed []string, err error) {
	return s.changeRecordsOn(ctx, s.hosts.Present(), change)
}

// changeRecordsOn changes the records of those hosts, in parallel.
func (s *Store) changeRecordsOn(
	ctx context.Context, hosts []*inventory.Host, change func(host string, r *hostrecord.Record),
) (failed []string, err error) {
	errs := make([]error, len(hosts))

	var wg sync.WaitGroup

	for i, h := range hosts {
		wg.Go(func() {
			// A killed run may have left the lock of the record.
			ctx, cancel := context.WithTimeout(ctx, inventory.AskTimeout+lease.TakeoverTime)
			defer cancel()

			errs[i] = s.ChangeRecord(ctx, h, func(r *hostrecord.Record) error {
				change(h.Name, r)

				return nil
			})
		})
	}

	wg.Wait()

	for i, err := range errs {
		if err != nil {
			failed = append(failed, hosts[i].Name)
			errs[i] = fmt.Errorf("host %q: %w", hosts[i].Name, inventory.WithoutHost(err))
		}
	}

	return failed, errors.Join(errs...)
}
