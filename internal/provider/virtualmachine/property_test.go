package virtualmachine

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"pgregory.net/rapid"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/meta"
)

// TestPlan_ofAnyConfiguration: whatever is valid is planned by Terraform's rules, becomes what was planned, and plans
// empty after that. Whatever of it is known after apply only is valid while it is unknown, and the plan that knows it
// keeps to the plan that didn't.
func TestPlan_ofAnyConfiguration(t *testing.T) {
	t.Parallel()
	tried := 0
	rapid.Check(t, func(rt *rapid.T) {
		before := drawConfig(t, rt)
		rt.Logf("%v", before)
		config := modelOf(t, before)
		state := checkNew(t, rt, config)
		if state == nil {
			return
		}
		tried++
		changed := drawChanges(t, rt, before)
		rt.Logf("%v\nbecomes\n%v", before, changed)
		after := modelOf(t, changed)
		vm, err := makeVM(config)
		if err != nil {
			rt.Fatal(err)
		}
		second := planning{config: after, state: state, live: vm.LiveSpec, hosts: []string{"kvm1", "kvm2"}}
		b := second.plan()
		if b.diags.HasError() || len(b.replace) > 0 {
			return // Refused in the end is refused.
		}
		checkPlanned(rt, after, state, &b.planned)
		first := second
		var unknown []string
		first.config, unknown = drawUnknowns(rt, after)
		rt.Logf("unknown: %v", unknown)
		if diags := first.config.validate(); diags.HasError() {
			rt.Errorf("it isn't valid while something is unknown: %s", diagText(diags))
		}
		a := first.plan()
		if a.diags.HasError() || len(a.replace) > 0 {
			return // What is unknown may need a new VM.
		}
		checkPlanned(rt, first.config, state, &a.planned)
		for _, p := range attributePairs(vmSchema.Attributes, &a.planned, &b.planned) {
			if !refines(p.a, p.b) {
				rt.Errorf("%s was planned as %s, then as %s", p.name, p.a, p.b)
			}
		}
	})
	if tried == 0 {
		t.Error("no VM was made: nothing was proven")
	}
}

// TestPlan_ofAnyDrift: whatever someone changed in both definitions of a running VM, the plan of the configuration that
// was applied isn't refused for a restart, unless the VM would have to be renamed. If everything waits for the next
// start, the plan after the apply is empty.
func TestPlan_ofAnyDrift(t *testing.T) {
	t.Parallel()
	drifted, waited := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		before := drawConfig(t, rt).with(in{"update_policy": "Live", "run_strategy": "Always"})
		config := modelOf(t, before)
		state := checkNew(t, rt, config)
		if state == nil {
			return
		}
		changed := drawChanges(t, rt, before)
		rt.Logf("%v\nbecomes\n%v", before, changed)
		vm, err := makeVM(config)
		if err != nil {
			rt.Fatal(err)
		}
		byHand, desired, err := definitionOf(modelOf(t, changed))
		if err != nil {
			return // No host would have it.
		}
		vm.PersistentSpec, vm.LiveSpec = new(readSpec(byHand, desired)), new(readSpec(byHand, desired))
		vm.Name = vm.LiveSpec.Name
		private := privateValues{}
		now, p := plannedAfterRefresh(t, rt, config, vm, state, private)
		have, want := p.specs()
		if p.beforeDrift == nil || len(p.sourceDrifts(have, want)) > 0 {
			return
		}
		drifted++
		o := p.plan()
		checkPlanned(rt, config, now, &o.planned)
		renamed := !now.Name.Equal(config.Name)
		if said := diagText(o.diags); strings.Contains(said, "Error: Change needs a restart") != renamed && o.replace == nil {
			rt.Errorf("the drift is refused: %s", said)
		}
		if o.diags.HasError() || len(o.replace) > 0 || !onlyRestarts(*vm.LiveSpec, want) ||
			len(want.DeviceClasses()) > 0 {
			return // Only a host can give devices of a class.
		}
		waited++
		changes := domain.Changes(*vm.LiveSpec, want)
		if started := domain.StartedBefore(*vm.LiveSpec, *vm.PersistentSpec, changes); started != nil {
			vm.LiveSpec.Started = started // The update records it first.
		}
		if err := byHand.Apply(want); err != nil {
			rt.Fatal(err)
		}
		vm.PersistentSpec = new(byHand.Spec())
		vm.Metadata.Staged = domain.StagedBy(*vm.LiveSpec, *vm.PersistentSpec, want)
		var after model
		after.fromFleet(observation{vm: vm, addresses: anAddress}, &o.planned)
		_, again := plannedAfterRefresh(t, rt, config, vm, &after, privateValues{})
		if o := again.plan(); o.changed || o.diags.HasError() {
			rt.Errorf("planned again: %v %s", changedAttributes(&after, &o.planned), diagText(o.diags))
		}
	})
	if drifted == 0 || waited == 0 {
		t.Errorf("%d VMs had drifted, %d waited for a restart: nothing was proven", drifted, waited)
	}
}

// anAddress is what is seen of a VM that is ready.
var anAddress = map[string][]string{"lan": {"10.0.0.2"}}

// plannedAfterRefresh reads a running VM, and returns its state and what the plan follows from.
func plannedAfterRefresh(
	t *testing.T, rt *rapid.T, config *model, vm *fleet.VM, state *model, private privateValues,
) (*model, planning) {
	t.Helper()
	now, _, diags := stateAfterRefresh(t.Context(), observation{vm: vm, addresses: anAddress}, state, private)
	r := &Resource{meta.Resource{Data: &meta.Data{Unknown: true}}}
	p, d := r.planning(t.Context(), config, now, private)
	if diags.Append(d...); len(diags) > 0 {
		rt.Fatal(diagText(diags))
	}
	p.hosts, p.classes = []string{"kvm1", "kvm2"}, nil
	return now, p
}

// onlyRestarts reports whether the running VM can take none of the changes.
func onlyRestarts(live, want domain.Spec) bool {
	return !slices.ContainsFunc(domain.Changes(live, want), func(c domain.Change) bool { return c.Live })
}

// written are the attributes that users write.
var written = mergeAttributes(definitionAttributes, policyAttributes)

// checkNew checks the plan of a new VM and what becomes of it, and returns its state; nil: it can't be made.
func checkNew(t *testing.T, rt *rapid.T, config *model) *model {
	t.Helper()
	p := planning{config: config, hosts: []string{"kvm1", "kvm2"}}
	o := p.plan()
	if o.diags.HasError() || p.validatePlanned(&o.planned).HasError() {
		return nil
	}
	checkPlanned(rt, config, nil, &o.planned)
	vm, err := makeVM(config)
	if err != nil {
		return nil // The fleet refuses it in the plan.
	}
	seen := observation{vm: vm, addresses: map[string][]string{"lan": {"10.0.0.2"}}}
	state := stateAfterCreate(seen, &o.planned)
	for _, p := range attributePairs(vmSchema.Attributes, &o.planned, state) {
		if !refines(p.a, p.b) {
			rt.Errorf("%s was planned as %s and became %s", p.name, p.a, p.b)
		}
	}
	var now model
	now.fromFleet(seen, state)
	again := planning{config: config, state: &now, live: vm.LiveSpec, hosts: p.hosts}.plan()
	for _, p := range attributePairs(written, &now, &again.planned) {
		if !p.a.Equal(p.b) {
			rt.Errorf("%s is %s after the apply, and planned as %s", p.name, p.a, p.b)
		}
	}
	return state
}

// checkPlanned checks by Terraform's rules what was planned of a configuration.
func checkPlanned(rt *rapid.T, config, state, planned *model) {
	prior := state
	if prior == nil {
		prior = &model{}
	}
	for i, p := range attributePairs(vmSchema.Attributes, config, planned) {
		was := attributePairs(vmSchema.Attributes, prior, prior)[i].a
		if state == nil {
			was = nil
		}
		if wrong := refusedByTerraform(p.name, vmSchema.Attributes[p.name], p.a, was, p.b); wrong != "" {
			rt.Errorf("Terraform refuses the plan: %s", wrong)
		}
	}
}

// refusedByTerraform says what of a planned value Terraform refuses: what is written is planned as it is written, or as
// it was.
func refusedByTerraform(at string, a schema.Attribute, config, prior, planned attr.Value) string {
	switch {
	case planned.Equal(config), prior != nil && !prior.IsNull() && planned.Equal(prior) && !config.IsNull():
		return ""
	case a.IsWriteOnly():
		if planned.IsNull() {
			return ""
		}
	case config.IsNull() && a.IsComputed():
		return ""
	}
	switch a := a.(type) {
	case schema.SingleNestedAttribute:
		c, p := config.(types.Object), planned.(types.Object) //nolint:forcetypeassert // The schema says so.
		if !isSet(c) || !isSet(p) {
			break
		}
		before, _ := prior.(types.Object)
		return againstLevel(at, a.Attributes, open(c), open(before), open(p))
	case schema.MapNestedAttribute:
		c, p := config.(types.Map), planned.(types.Map) //nolint:forcetypeassert // The schema says so.
		if !isSet(c) || !isSet(p) || len(c.Elements()) != len(p.Elements()) {
			break
		}
		before, _ := prior.(types.Map)
		for key, v := range elements(c) {
			is, ok := elements(p)[key]
			if !ok {
				return fmt.Sprintf("%s.%s isn't planned", at, key)
			}
			if v.Equal(is) {
				continue
			}
			was := open(elements(before)[key])
			if wrong := againstLevel(at+"."+key, a.NestedObject.Attributes, open(v), was, open(is)); wrong != "" {
				return wrong
			}
		}
		return ""
	}
	return fmt.Sprintf("%s is written as %s and planned as %s", at, config, planned)
}

func againstLevel(at string, level attributes, config, prior, planned object) string {
	for name, v := range config {
		if wrong := refusedByTerraform(joinPath(at, name), level[name], v, prior[name], planned[name]); wrong != "" {
			return wrong
		}
	}
	return ""
}

// drawUnknowns draws parts of a configuration that are known after apply only, and says which.
func drawUnknowns(rt *rapid.T, config *model) (*model, []string) {
	var paths []string
	first := *config
	all := attributePairs(written, config, config)
	for range rapid.IntRange(1, 3).Draw(rt, "unknowns") {
		name := rapid.SampledFrom(all).Draw(rt, "unknown").name
		if name == "machine_type" || name == "arch" || name == "timeouts" {
			continue // Another machine type is another VM.
		}
		v, at := drawUnknown(rt, name, first.get(name))
		first.set(name, v)
		paths = append(paths, at)
	}
	return &first, paths
}

// drawUnknown draws which part of a value is unknown, and where that is.
func drawUnknown(rt *rapid.T, at string, v attr.Value) (attr.Value, string) {
	var parts map[string]attr.Value
	object, isObject := v.(types.Object)
	several, isMap := v.(types.Map)
	switch {
	case isObject:
		parts = open(object)
	case isMap && isSet(v):
		parts = several.Elements()
	}
	if len(parts) == 0 || rapid.IntRange(0, 3).Draw(rt, "as a whole") == 0 {
		return unknownLike(v), at
	}
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(parts)), func(name string) bool {
		return name == "path" && strings.HasPrefix(at, "disks.") // It can't be declared.
	})
	name := rapid.SampledFrom(names).Draw(rt, "part")
	parts[name], at = drawUnknown(rt, joinPath(at, name), parts[name])
	if isObject {
		return types.ObjectValueMust(attributeTypes(object), parts), at
	}
	return types.MapValueMust(elementType(several), parts), at
}
