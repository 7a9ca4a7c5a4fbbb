package hostrecord

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/evacuation"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/policy"
)

// version is the version of the document that this program writes.
const version = 1

// Record is what virtfleet keeps about a host. It is stored on the host, so that all runs see the same.
type Record struct {
	// Cordon prevents VMs from being placed on, started on or moved to the host. It is nil if the host is not cordoned.
	Cordon *Cordon `json:"cordon,omitempty"`
	// EvictionPolicies control how VMs are evicted, MigrationPolicies how they are moved. Every host has all of them.
	EvictionPolicies  []evacuation.Policy `json:"eviction_policies,omitempty"`
	MigrationPolicies []migration.Policy  `json:"migration_policies,omitempty"`
	// PolicyHosts are the names of all hosts that are known to have got policies. A host that is no longer configured when
	// a policy is removed still has its copy.
	PolicyHosts []string `json:"policy_hosts,omitempty"`
	// Removed are the ids of policies that were removed while hosts could not be queried, each with the names of those
	// hosts: their copies don't count.
	Removed map[string][]string `json:"removed_policies,omitempty"`
	// Evacuation is what a drain evicted, or is to evict, from the host; nil if there is none.
	Evacuation *Evacuation `json:"evacuation,omitempty"`
	// Elsewhere are the finished evacuations of other hosts, by host name: those hosts may be off now and can't be
	// queried.
	Elsewhere map[string]*Evacuation `json:"elsewhere,omitempty"`
	// Released are the hosts, by name, whose maintenance ended while other hosts could not be reached, with the beginning
	// of the last such maintenance: what those other hosts have of it, or of earlier ones, doesn't count.
	Released map[string]time.Time `json:"released,omitempty"`
}

// Under reports whether the host is under the maintenance with that id, or whether that maintenance has ended and still
// has to undo something.
func (r Record) Under(id string) bool {
	return id != "" && r.MaintenanceID() == id
}

// Lost reports whether the maintenance with this id, of which the other hosts were told, is missing in the record, and
// no other maintenance is in its place: the host was reinstalled, or a user removed the record. told is nil if the
// other hosts know of no maintenance.
func (r Record) Lost(told *Evacuation, id string) bool {
	return told != nil && id != "" && told.Maintenance == id && r.Cordon == nil && r.Evacuation == nil
}

// Unfinished reports whether the host's drain has not finished: a run works on it, which the host's lock shows, or the
// next run continues it.
func (r Record) Unfinished() bool {
	return r.Cordon != nil && r.Evacuation != nil && !r.Evacuation.Done
}

// Drain returns the drain of the maintenance that the host is under; nil for none. What a maintenance that ended has
// left recorded, to be undone or continued later, is no drain.
func (r Record) Drain() *Evacuation {
	if r.Cordon == nil || r.Evacuation == nil || !r.Evacuation.Abandoned.IsZero() {
		return nil
	}

	return r.Evacuation
}

// MaintenanceID returns the id of the maintenance that the host is under, or of one that has ended and still has to
// undo something; "" for none.
func (r Record) MaintenanceID() string {
	switch {
	case r.Cordon != nil:
		return r.Cordon.ID
	case r.Evacuation != nil:
		return r.Evacuation.Releasing
	default:
		return ""
	}
}

// Empty reports whether nothing is recorded.
func (r Record) Empty() bool {
	return r.Cordon == nil && len(r.EvictionPolicies) == 0 && len(r.MigrationPolicies) == 0 && r.Evacuation == nil &&
		len(r.Elsewhere) == 0 && len(r.Removed) == 0 && len(r.Released) == 0
}

// HasPolicies reports whether the host has a copy of any policy.
func (r Record) HasPolicies() bool { return len(r.EvictionPolicies)+len(r.MigrationPolicies) > 0 }

// WithoutPolicies returns the record without those policies.
func (r Record) WithoutPolicies(ids map[string][]string) Record {
	r.EvictionPolicies = lacking(r.EvictionPolicies, ids)
	r.MigrationPolicies = lacking(r.MigrationPolicies, ids)

	return r
}

func lacking[P policy.Policy](all []P, ids map[string][]string) []P {
	return slices.DeleteFunc(slices.Clone(all), func(p P) bool {
		_, removed := ids[p.Identified().ID]

		return removed
	})
}

// Evicted returns why the VM, which is off, is to stay off; "" if it need not.
func (r Record) Evicted(uuid, host string) string {
	if r.Cordon == nil || r.Evacuation == nil {
		return ""
	}

	for _, s := range r.Evacuation.Steps {
		if s.UUID == uuid && s.off() {
			return r.Cordon.Text(host)
		}
	}

	return ""
}

// Evicting returns why the VM, which runs, is about to be evicted; "" if it isn't, as far as is known.
func (r Record) Evicting(uuid, host string) string {
	if !r.Unfinished() {
		return ""
	}

	for _, s := range r.Evacuation.Steps {
		if s.UUID == uuid && s.Result == "" && (s.Method == evacuation.MethodLive || s.off()) {
			return r.Cordon.Text(host)
		}
	}

	return ""
}

// ForgetElsewhere removes from the record the maintenance of the named host, the one with this id, which may be kept
// under a former name of the host, and those of hosts that are known to be under none. Such a host may have lost the
// record of its maintenance, so that one with an id stays until its end.
func (r Record) ForgetElsewhere(name, id string, over map[string]bool) {
	maps.DeleteFunc(r.Elsewhere, func(_ string, e *Evacuation) bool { return id != "" && e != nil && e.Maintenance == id })

	for host := range over {
		// Released stays: another host may still have a maintenance with an id.
		if e := r.Elsewhere[host]; e == nil || e.Maintenance == "" {
			delete(r.Elsewhere, host)
		}
	}

	delete(r.Elsewhere, name)
	delete(r.Released, name)
}

// Cordon marks a host on which no run places, starts or moves VMs.
type Cordon struct {
	// ID identifies the maintenance that set the cordon: only a run that knows the ID removes it. Owner names it for
	// users.
	ID    string    `json:"id"`
	Owner string    `json:"owner"`
	Since time.Time `json:"since"`
	// Why is a sentence without a full stop.
	Why string `json:"why"`
}

// Text returns the sentence that the host is cordoned.
func (c *Cordon) Text(host string) string {
	return fmt.Sprintf("host %q is cordoned by %s since %s: %s", host, c.Owner, c.Since.Format(time.RFC3339), c.Why)
}
