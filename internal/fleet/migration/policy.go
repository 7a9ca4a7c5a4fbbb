package migration

import (
	"encoding/json"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/policy"
)

// Policy tunes the migrations of the VMs that it selects: KubeVirt's MigrationPolicy, for all options.
type Policy struct {
	policy.Identity

	// Options are what the policy says; what it doesn't say is the provider's.
	Options Options `json:"migration_options"`
}

// EffectiveOptions is how a VM is moved: the options in force, and the policy that some of them may come from.
type EffectiveOptions struct {
	// Options are all set, except for what is left to QEMU.
	Options Options
	// Policy is the name of the policy that holds for the VM, "" for none.
	Policy string
}

// ResolveOptions returns the options in force for a VM: its own, those that were written for this very migration, win
// over the policy that holds for it, that over the provider's, and those over the defaults.
func ResolveOptions(m policy.VM, own Options, policies []Policy, provider Options) EffectiveOptions {
	var t EffectiveOptions
	if p := policy.Winner(policies, m); p != nil {
		own, t.Policy = own.Over(p.Options), p.Name
	}
	t.Options = own.Over(provider).WithDefaults()
	return t
}

// Text is the options as a record keeps them, ParseOptions reads it.
func (o Options) Text() string {
	text, err := json.Marshal(o)
	if err != nil {
		return "" // Numbers and flags can be written.
	}
	return string(text)
}

// ParseOptions reads what Text wrote, by this version or another one; what that can't know is not set.
func ParseOptions(text string) (Options, error) {
	var o Options
	err := json.Unmarshal([]byte(text), &o)
	return o, err
}
