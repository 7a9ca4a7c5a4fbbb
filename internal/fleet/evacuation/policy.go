package evacuation

import (
	"cmp"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/policy"
)

// Eviction strategies, with KubeVirt's names and meaning.
const (
	// None: the guest is shut down.
	None = "None"
	// LiveMigrate: the VM is moved while it runs. A VM that can't be moved blocks the drain.
	LiveMigrate = "LiveMigrate"
	// LiveMigrateIfPossible: the VM is moved while it runs. A VM that can't be moved is shut down.
	LiveMigrateIfPossible = "LiveMigrateIfPossible"
	// External: the VM is marked, and another tool moves it.
	External = "External"
)

// Strategies lists every eviction strategy, in the order of the documentation.
var Strategies = []string{None, LiveMigrate, LiveMigrateIfPossible, External}

// Fallbacks say what happens to a VM that is to be moved live and can't be.
const (
	// Block blocks the drain.
	Block = "Block"
	// ColdMigrate shuts the guest down, moves the VM and starts it there.
	ColdMigrate = "ColdMigrate"
	// Shutdown shuts the guest down and leaves it there.
	Shutdown = "Shutdown"
	// Save writes the guest's memory to its host's disk. The next start resumes the guest from there.
	Save = "Save"
)

// Fallbacks lists every fallback, in the order of the documentation.
var Fallbacks = []string{Block, ColdMigrate, Shutdown, Save}

// What happens to an eviction in progress when the drain is cancelled.
const (
	// Abort aborts it: a VM that was being moved stays where it is.
	Abort = "abort"
	// Finish lets it complete, within its usual time.
	Finish = "finish"
)

// OnCancels lists the values of Policy.OnCancel, the default first.
var OnCancels = []string{Abort, Finish}

// Policy says how the VMs that it selects are evicted.
type Policy struct {
	policy.Identity

	// Strategy is one of Strategies. Fallback is one of Fallbacks, or "" for the strategy's own fallback.
	Strategy string `json:"strategy"`
	Fallback string `json:"fallback,omitempty"`
	// OnCancel is one of OnCancels. "" means Abort.
	OnCancel string `json:"on_cancel,omitempty"`
	// Options are the options of the migrations.
	Options migration.Options `json:"migration_options"`
	// Priority is the order: VMs with the highest priority leave first.
	Priority int `json:"priority,omitempty"`
	// Timeout is how long the eviction of one VM may take. Nil means as long as the drain.
	Timeout *time.Duration `json:"timeout,omitempty"`
}

// Origins say where a strategy comes from.
const (
	OriginVM       = "virtual_machine"
	OriginPolicy   = "policy"
	OriginProvider = "provider"
)

// Rule is the eviction rule that applies to one VM.
type Rule struct {
	Strategy, Fallback string
	// Origin says where the strategy comes from, Policy which policy matched, "" for none. A policy sets the rest even
	// for a VM with a strategy of its own.
	Origin, Policy string
	OnCancel       string
	Options        migration.Options
	Priority       int
	Timeout        *time.Duration
}

// SelectRule returns the rule for a VM on that host. The VM's own strategy takes precedence over the policy that
// applies to it, and that over byDefault, which is the provider's strategy.
func SelectRule(m VM, host string, policies []Policy, byDefault string) Rule {
	rule := Rule{Strategy: cmp.Or(byDefault, LiveMigrateIfPossible), Fallback: Block, Origin: OriginProvider}

	if p := policy.Winner(policies, m.On(host)); p != nil {
		rule = Rule{
			Strategy: p.Strategy, Fallback: cmp.Or(p.Fallback, defaultFallback(p.Strategy)), Origin: OriginPolicy,
			Policy:   p.Name,
			OnCancel: p.OnCancel, Options: p.Options, Priority: p.Priority, Timeout: p.Timeout,
		}
		if m.Strategy != "" && p.Fallback == "" {
			rule.Fallback = defaultFallback(m.Strategy)
		}
	} else if m.Strategy != "" {
		rule.Fallback = defaultFallback(m.Strategy)
	}
	if m.Strategy != "" {
		rule.Strategy, rule.Origin = m.Strategy, OriginVM
	}
	return rule
}

// defaultFallback returns KubeVirt's fallback for a VM that can't be moved live. SelectRule doesn't use it for a VM to
// which only the provider's strategy applies: such a VM is never shut down without being told to.
func defaultFallback(strategy string) string {
	if strategy == LiveMigrateIfPossible {
		return Shutdown
	}
	return Block
}
