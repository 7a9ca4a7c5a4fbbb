package virtualmachine

import (
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// TestPlan_unknownThenKnown: any attribute, element or block may be known after apply only. It passes validation then,
// and the plan that knows it differs from the first in nothing that the first had known: Terraform refuses that.
func TestPlan_unknownThenKnown(t *testing.T) {
	t.Parallel()
	before := full.without("kernel").with(in{"run_strategy": "Always", "host": "kvm1"})
	for _, policy := range []string{"Live", "Restart", "Stage"} {
		for name, after := range map[string]in{
			"the same": before, "otherwise": before.with(in{
				"cpu":         in{"sockets": 1, "cores": 2, "threads": 1, "max_sockets": 4, "mode": "maximum"},
				"memory":      in{"size": "2Gi", "max_size": "4Gi"},
				"disks":       in{"root": in{"file": "/images/other.img", "bus": "virtio", "boot_order": 1}},
				"interfaces":  in{"lan": in{"network": "other", "model": "virtio"}, "new": in{"bridge": "br9"}},
				"guest_agent": in{"enabled": true}, "serial_console": in{"enabled": true}, "run_strategy": "Halted",
			}),
		} {
			config := modelOf(t, after.with(in{"update_policy": policy}))
			state := stateAfterApply(t, before.with(in{"update_policy": policy}))
			live := vmAfterApply(t, before).LiveSpec
			known := planning{config: config, state: state, live: live, hosts: []string{"kvm1", "kvm2"}}
			b := known.plan()
			refused := b.diags.HasError() || len(b.replace) > 0
			for _, p := range attributePairs(mergeAttributes(definitionAttributes, policyAttributes), config, config) {
				if p.name == "machine_type" || p.name == "arch" || p.name == "update_policy" || p.a.IsNull() {
					continue // Another machine type is another VM.
				}
				for at, unknown := range unknowns(p.name, p.a) {
					first := *config
					first.combine(attributes{p.name: vmSchema.Attributes[p.name]}, config, config,
						func(pair) attr.Value { return unknown })
					if diags := first.validate(); diags.HasError() {
						t.Errorf("%s isn't valid while it is unknown: %s", at, diagText(diags))
					}
					unknownYet := known
					unknownYet.config = &first
					a := unknownYet.plan()
					if refused {
						continue // Refused in the end is refused.
					}
					for _, p := range attributePairs(vmSchema.Attributes, &a.planned, &b.planned) {
						if !refines(p.a, p.b) {
							t.Errorf("%s, %s, %s unknown: %s was planned as %s, then as %s", policy, name, at, p.name, p.a, p.b)
						}
					}
				}
			}
		}
	}
}

// TestValidate_unknownMayBeNone: what may turn out to be none is held against nothing that is known.
func TestValidate_unknownMayBeNone(t *testing.T) {
	t.Parallel()
	const ignition = `{"ignition": {"version": "3.4.0"}}`
	for name, config := range map[string]in{
		"pool of a disk":  {"disks": in{"a": in{"file": "/a", "pool": unknownMark}}},
		"size of a disk":  {"disks": in{"a": in{"file": "/a", "size": unknownMark}}},
		"image of a disk": {"disks": in{"a": in{"pool": "vms", "image": unknownMark}}},
		"one of two": {"ignition": in{
			"pool": "vms", "config": unknownMark, "config_wo": ignition,
			"config_wo_version": "1",
		}},
		"the other of two": {"ignition": in{"pool": "vms", "config": ignition, "config_wo": unknownMark}},
		"the type of a screen": {
			"graphics_access": in{"password_wo": "more than eight", "password_wo_version": "1"},
			"devices":         in{"graphics": in{"type": unknownMark}},
		},
		"a source of another disk": {"disks": in{"a": in{"file": "/a", "other": unknownMark}}},
	} {
		if diags := modelOf(t, minimal.with(config)).validate(); diags.HasError() {
			t.Errorf("%s isn't valid while it is unknown: %s", name, diagText(diags))
		}
	}
	config := modelOf(t, minimal.with(in{"disks": in{"a": in{"file": "/a", "other": unknownMark}}}))
	o := planning{config: config}.plan()
	if other := open(elements(o.planned.Disks)["a"])["other"]; !other.IsUnknown() {
		t.Errorf("what is unknown is planned as %s, which Terraform refuses", other)
	}
}

// unknowns are a value with each of its parts unknown.
func unknowns(at string, v attr.Value) map[string]attr.Value {
	all := map[string]attr.Value{at: unknownOf(v.Type(nil))} //nolint:staticcheck // It has no use for a context.
	switch v := v.(type) {
	case types.Object:
		for name, part := range open(v) {
			if part.IsNull() {
				continue
			}
			for at, unknown := range unknowns(at+"."+name, part) {
				changed := open(v)
				changed[name] = unknown
				all[at] = types.ObjectValueMust(attributeTypes(v), changed)
			}
		}
	case types.Map:
		if elementType(v).Equal(types.StringType) {
			break
		}
		for key, part := range v.Elements() {
			for at, unknown := range unknowns(at+"."+key, part) {
				changed := v.Elements()
				changed[key] = unknown
				all[at] = types.MapValueMust(elementType(v), changed)
			}
		}
	}
	return all
}

// refines tells whether a later plan keeps to what an earlier one knew.
func refines(first, later attr.Value) bool {
	switch a := first.(type) {
	case types.Object:
		b, ok := later.(types.Object)
		if !ok || !isSet(a) || !isSet(b) {
			break
		}
		for name, v := range open(a) {
			if !refines(v, open(b)[name]) {
				return false
			}
		}
		return true
	case types.Map:
		b, ok := later.(types.Map)
		if !ok || !isSet(a) || !isSet(b) || len(a.Elements()) != len(b.Elements()) {
			break
		}
		for key, v := range a.Elements() {
			if other, ok := b.Elements()[key]; !ok || !refines(v, other) {
				return false
			}
		}
		return true
	}
	return first.IsUnknown() || first.Equal(later)
}
