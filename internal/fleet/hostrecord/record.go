package hostrecord

import (
	"fmt"
	"slices"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/evacuation"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/policy"
)

// version is the version of the document that this program writes.
const version = 1

// Record is what only we know about a host. It is kept there, so that all who run this program see the same.
type Record struct {
	// Cordon keeps VMs from coming to the host. Nil: they may come.
	Cordon *Cordon `json:"cordon,omitempty"`
	// EvictionPolicies say how VMs are evicted, MigrationPolicies how they are moved. Every host has all of them.
	EvictionPolicies  []evacuation.Policy `json:"eviction_policies,omitempty"`
	MigrationPolicies []migration.Policy  `json:"migration_policies,omitempty"`
	// PolicyHosts are the names of all hosts that were given policies, as far as is known: one that is not configured any
	// more when a policy is removed has it still.
	PolicyHosts []string `json:"policy_hosts,omitempty"`
	// Removed are the ids of policies that were removed while hosts could not be asked, each with the names of those
	// hosts: their copies don't count.
	Removed map[string][]string `json:"removed_policies,omitempty"`
	// Evacuation is what was, or is to be, taken away from the host. Nil: nothing.
	Evacuation *Evacuation `json:"evacuation,omitempty"`
	// Elsewhere are the finished evacuations of other hosts, by their names: those may be off now, and can't tell.
	Elsewhere map[string]*Evacuation `json:"elsewhere,omitempty"`
	// Released are the hosts, by their names, whose maintenance ended while others could not be told, with the beginning
	// of the last such maintenance: what those have of it, or of earlier ones, doesn't count.
	Released map[string]time.Time `json:"released,omitempty"`
}

// Under says that the host is under the maintenance with that id, or that this one has ended without having undone all
// that it did.
func (r Record) Under(id string) bool {
	return id != "" && r.MaintenanceID() == id
}

// Abandoned says that a drain has not come to its end. As long as no run works on it, which its lock tells, whoever
// comes next goes on with it.
func (r Record) Abandoned() bool {
	return r.Cordon != nil && r.Evacuation != nil && !r.Evacuation.Done
}

// MaintenanceID is the id of the maintenance that the host is under, or that has ended without having undone all that
// it did; "" for none.
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

// Empty says that nothing is recorded.
func (r Record) Empty() bool {
	return r.Cordon == nil && len(r.EvictionPolicies) == 0 && len(r.MigrationPolicies) == 0 && r.Evacuation == nil &&
		len(r.Elsewhere) == 0 && len(r.Removed) == 0 && len(r.Released) == 0
}

// HasPolicies says that the host has a copy of any policy.
func (r Record) HasPolicies() bool { return len(r.EvictionPolicies)+len(r.MigrationPolicies) > 0 }

// WithoutPolicies has none of those policies.
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

// Evicted says why the VM, which is off, is to stay so; "" is that it need not.
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

// Evicting says why the VM, which runs, is about to be gone; "" is that it isn't, as far as is known.
func (r Record) Evicting(uuid, host string) string {
	if !r.Abandoned() {
		return ""
	}

	for _, s := range r.Evacuation.Steps {
		if s.UUID == uuid && s.Result == "" && (s.Method == evacuation.MethodLive || s.off()) {
			return r.Cordon.Text(host)
		}
	}

	return ""
}

// ForgetElsewhere drops what the record has of the maintenance of one host, and of those that are known to be under
// none.
func (r Record) ForgetElsewhere(name string, over map[string]bool) {
	for _, all := range []map[string]bool{over, {name: true}} {
		for host := range all {
			delete(r.Elsewhere, host)
			delete(r.Released, host)
		}
	}
}

// Cordon is the mark of a host that takes no VMs, whoever places or moves them.
type Cordon struct {
	// ID tells whose mark it is; only who knows it removes it. Owner is the same for people.
	ID    string    `json:"id"`
	Owner string    `json:"owner"`
	Since time.Time `json:"since"`
	// Why is a sentence without a full stop.
	Why string `json:"why"`
}

// Text says that the host is cordoned.
func (c *Cordon) Text(host string) string {
	return fmt.Sprintf("host %q is cordoned by %s since %s: %s", host, c.Owner, c.Since.Format(time.RFC3339), c.Why)
}
