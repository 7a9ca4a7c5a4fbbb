package migration

import (
	"encoding/json"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/policy"
)

// Policy tunes the migrations of the VMs that it selects. It is KubeVirt's MigrationPolicy, for all options.
type Policy struct {
	policy.Identity

	// Options are those that the policy sets. The provider's apply where it sets none.
	Options Options `json:"migration_options"`
}

// EffectiveOptions are the options in force for a VM, and the policy that some of them come from.
type EffectiveOptions struct {
	// Options are all set, except for those that are left to QEMU.
	Options Options
	// Policy is the name of the policy that applies to the VM, "" for none.
	Policy string
}

// ResolveOptions returns the options in force for a VM. Its own, which were given for this migration, take precedence
// over the policy that applies to the VM, then the provider's, then the defaults.
func ResolveOptions(m policy.VM, own Options, policies []Policy, provider Options) EffectiveOptions {
	var t EffectiveOptions
	if p := policy.Winner(policies, m); p != nil {
		own, t.Policy = own.Over(p.Options), p.Name
	}
	t.Options = own.Over(provider).WithDefaults()
	return t
}

// Text returns the options as a record keeps them. ParseOptions reads them.
func (o Options) Text() string {
	text, err := json.Marshal(o)
	if err != nil {
		return "" // Numbers and flags can always be encoded.
	}
	return string(text)
}

// ParseOptions reads what Text of this or another version wrote. Options that this version doesn't know are not set.
func ParseOptions(text string) (Options, error) {
	var o Options
	err := json.Unmarshal([]byte(text), &o)
	return o, err
}
