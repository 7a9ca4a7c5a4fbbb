package virtualmachine

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/attrpath"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/migrationoptions"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

// invalid is the summary of errors in a configuration.
const invalid = "Invalid virtual machine"

// ValidateConfig checks everything that can be checked without a host. Unknown values are checked once they are known.
func (r *Resource) ValidateConfig(
	ctx context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse,
) {
	var config model
	resp.Diagnostics.Append(req.Config.Get(ctx, &config)...)
	if resp.Diagnostics.HasError() {
		return
	}
	resp.Diagnostics.Append(config.validate()...)
	resp.Diagnostics.Append(config.warnOfGrace(ctx)...)
}

// tolerated matches attributes for which imported VMs may have values that the provider wouldn't set itself. The plan
// checks them if they differ from the VM's values, so the configuration of an imported VM is valid.
var tolerated = regexp.MustCompile(`^(type|memory\.(size|max_size)|` +
	`disks\.[^.]+\.(bus|device|format|serial|read_only|logical_block_size|io_tune\.([a-z_]+_max|size_iops_sec))|` +
	`interfaces\.[^.]+\.model|` +
	`devices\.(channels\.[^.]+\.name|filesystems\.[^.]+\.source)|` +
	`platform\.launch_security\.(dh_cert|session|id_block|id_auth|host_data))$`)

// validate checks what a configuration says by itself.
func (m *model) validate() diag.Diagnostics {
	var diags diag.Diagnostics
	for _, p := range m.spec(nil).Validate() {
		if !tolerated.MatchString(p.Path) && m.blockKnown(p.Path) && !hasInvalidQuantity(m.lookUp(p.Path)) {
			diags.Append(attrpath.Error(m.attributePath(p.Path), invalid, p.Message))
		}
	}
	if isSet(m.Name) && m.Name.ValueString() == "" {
		diags.AddAttributeError(path.Root("name"), invalid, "A virtual machine needs a name.")
	}
	placement := open(m.Placement)
	diags.Append(validateLabels(path.Root("labels"), m.Labels)...)
	diags.Append(validateLabels(path.Root("placement").AtName("host_labels"), placement.stringMap("host_labels"))...)
	diags.Append(validateLabels(path.Root("placement").AtName("anti_affinity").AtName("labels"),
		open(placement.object("anti_affinity")).stringMap("labels"))...)
	diags.Append(m.validateDedicatedCPUs()...)
	disks := openAll(m.Disks)
	diags.Append(validateSources(disks)...)
	diags.Append(validateOwnDisks(disks)...)
	diags.Append(m.validateDeviceClasses()...)
	diags.Append(m.validateFirstBootKeys()...)
	diags.Append(m.validateCloudInit()...)
	diags.Append(m.validateIgnition()...)
	diags.Append(m.validateGraphicsAccess()...)
	diags.Append(m.validateWait()...)
	diags.Append(migrationoptions.Validate(m.MigrationOptions, path.Root(migrationoptions.Name))...)
	return diags
}

func validateLabels(at path.Path, labels types.Map) diag.Diagnostics {
	var diags diag.Diagnostics
	for key, label := range labels.Elements() {
		if s, ok := label.(types.String); ok && (!domain.Readable(key) || !domain.Readable(text(s))) {
			diags.Append(attrpath.Error(at.AtMapKey(key), invalid, fmt.Sprintf(
				"The label %q = %q has a character that can't be written in a definition.", key, text(s))))
		}
	}
	return diags
}

// validatePlanned checks the remaining values that are planned to change.
func (p planning) validatePlanned(planned *model) diag.Diagnostics {
	diags := p.refuseOwnDisks()
	if p.state == nil {
		diags.Append(p.config.validateProfile()...)
	}
	spec := p.config.spec(p.state)
	diags.Append(p.refuseSharedMACs(spec)...)
	diags.Append(p.refuseSharedSources(spec)...)
	diags.Append(p.refuseLackingThreads(spec)...)
	withFollowed(spec, planned)
	for _, problem := range spec.Validate() {
		if !p.config.blockKnown(problem.Path) {
			continue
		}
		if p.state != nil && tolerated.MatchString(problem.Path) {
			is, was := planned.lookUp(problem.Path), p.state.lookUp(problem.Path)
			if is != nil && was != nil && is.Equal(was) {
				continue
			}
		}
		diags.Append(attrpath.Error(p.config.attributePath(problem.Path), invalid, problem.Message))
	}
	if agent := open(planned.GuestAgent).bool("enabled"); waitToFleet(p.config.WaitFor).GuestAgent &&
		!planned.GuestAgent.IsUnknown() && !agent.IsUnknown() && !agent.ValueBool() {
		diags.Append(noAgentToWaitFor())
	}
	if wait := waitToFleet(p.config.WaitFor); p.state == nil && wait.IPAddress != "" && p.config.Interfaces.IsNull() {
		diags.Append(noInterfaceToWaitFor(wait.IPAddress, "A new VM without interfaces has none."))
	}
	if m := p.config.Memory; p.state == nil && (m.IsNull() || isSet(m) && open(m)["size"].IsNull()) {
		diags.AddAttributeError(path.Root("memory"), invalid, "A new VM needs memory.size.")
	}
	return diags
}

// refuseSharedMACs returns an error for interfaces with the same address, unless an imported VM already has them.
func (p planning) refuseSharedMACs(spec domain.Spec) diag.Diagnostics {
	var diags diag.Diagnostics
	for _, problem := range spec.SharedMACs() {
		if p.state == nil || !slices.Contains(p.state.spec(nil).SharedMACs(), problem) {
			diags.Append(attrpath.Error(p.config.attributePath(problem.Path), invalid, problem.Message))
		}
	}
	return diags
}

// refuseSharedSources returns an error for disks that are the same disk of the host or of a server, to which the guest
// would write twice, unless an imported VM already has them.
func (p planning) refuseSharedSources(spec domain.Spec) diag.Diagnostics {
	var diags diag.Diagnostics
	keys := value.Keys(spec.Disks)
	for i, key := range keys {
		for _, other := range keys[:i] {
			a, b := spec.Disks[other], spec.Disks[key]
			if a.Source.File == domain.UnknownFile || !domain.SameData(a.Source, b.Source) ||
				a.Concurrent() && b.Concurrent() {
				continue
			}
			if p.state != nil {
				had := p.state.spec(nil).Disks
				if domain.SameData(had[other].Source, had[key].Source) {
					continue
				}
			}
			diags.Append(attrpath.Error(p.config.attributePath("disks."+key), invalid, fmt.Sprintf("The disks %s and %s are "+
				"the same: %s. The guest would take them for two, and damage what is on them.\n\nRemove one of them. If the "+
				"guest only reads them, set read_only = true for both.", other, key, b.Source)))
		}
	}
	return diags
}

// refuseLackingThreads returns an error for tuned threads that the VM doesn't have, unless an imported VM already lacks
// them by its numbers: other tools may give I/O threads any number.
func (p planning) refuseLackingThreads(spec domain.Spec) diag.Diagnostics {
	var diags diag.Diagnostics
	if !p.config.blockKnown("cpu") || !p.config.blockKnown("platform") {
		return nil
	}
	var running *domain.CPU
	if p.live != nil {
		running = &p.live.CPU
	}
	var lacked []domain.Problem
	if p.state != nil {
		lacked = p.state.spec(nil).LackingThreads(false, running)
	}
	for _, problem := range spec.LackingThreads(p.state == nil, running) {
		// A thread that the VM has by its number may get more settings, in other attributes.
		same := func(was domain.Problem) bool { return was.Message == problem.Message }
		if !slices.ContainsFunc(lacked, same) {
			diags.Append(attrpath.Error(p.config.attributePath(problem.Path), invalid, problem.Message))
		}
	}
	return diags
}

// blockKnown reports whether everything about the block or device of a path is known. In an unknown block, missing
// values may still follow.
func (m *model) blockKnown(dotted string) bool {
	steps := strings.Split(dotted, ".")
	if len(steps) > 1 && slices.Contains(keyed, steps[0]) {
		steps = steps[:2]
	} else {
		steps = steps[:1]
	}
	v := m.lookUp(strings.Join(steps, "."))
	return v == nil || isKnown(v)
}

// hasInvalidQuantity reports whether there is, at or below a value, a quantity that the schema refuses. What else would
// be wrong follows from that: the domain package takes it for a missing one.
func hasInvalidQuantity(v attr.Value) bool {
	below := func(all map[string]attr.Value) bool {
		return slices.ContainsFunc(slices.Collect(maps.Values(all)), hasInvalidQuantity)
	}
	switch v := v.(type) {
	case value.Quantity:
		return v.Invalid()
	case types.Object:
		return below(v.Attributes())
	case types.Map:
		return below(v.Elements())
	default:
		return false
	}
}

// lookUp returns the value at a dotted path, nil if there is none.
func (m *model) lookUp(dotted string) attr.Value {
	steps := strings.Split(dotted, ".")
	var v attr.Value
	for _, p := range attributePairs(definitionAttributes, m, m) {
		if p.name == steps[0] {
			v = p.a
		}
	}
	for _, step := range steps[1:] {
		switch at := v.(type) {
		case types.Object:
			v = open(at)[step]
		case types.Map:
			v = at.Elements()[step]
		default:
			return nil
		}
	}
	return v
}

// attributePath returns the path of an attribute that the domain package names. The domain package knows a volume only
// by its path.
func (m *model) attributePath(dotted string) path.Path {
	steps := strings.Split(dotted, ".")
	if len(steps) == 3 && steps[0] == "disks" && (steps[2] == "file" || steps[2] == "block") {
		if !open(elements(m.Disks)[steps[1]]).string("volume").IsNull() {
			steps[2] = "volume"
		}
		if !open(elements(m.Disks)[steps[1]]).string("pool").IsNull() {
			steps[2] = "pool"
		}
	}
	return attrpath.Parse(strings.Join(steps, "."), keyed...)
}

// diskSources are the attributes of a disk that say where its data is stored.
var diskSources = []string{"file", "block", "volume", "network", "pool"}

// validateSources returns an error for a disk that is declared to be in two places, because the domain package sees
// only one.
func validateSources(disks map[string]object) diag.Diagnostics {
	var diags diag.Diagnostics
	for _, key := range value.Keys(disks) {
		var given []string
		a := disks[key]
		for _, name := range append(slices.Clone(diskSources), "other") {
			if v := a[name]; v != nil && !v.IsNull() && !isNothing(v) {
				given = append(given, name)
			}
		}
		if len(given) > 1 {
			diags.Append(attrpath.Error(path.Root("disks").AtMapKey(key), invalid, fmt.Sprintf(
				"Only one of %s can be set, but %s are.", strings.Join(diskSources, ", "), strings.Join(given, " and "))))
		}
	}
	return diags
}

// validateWait returns an error for waiting for something that can't happen.
func (m *model) validateWait() diag.Diagnostics {
	var diags diag.Diagnostics
	wait := waitToFleet(m.WaitFor)
	if wait.IPAddress != "" && isSet(m.Interfaces) {
		if _, ok := m.Interfaces.Elements()[wait.IPAddress]; !ok {
			diags.Append(noInterfaceToWaitFor(wait.IPAddress,
				"Declared are: "+cmp.Or(strings.Join(value.Keys(m.Interfaces.Elements()), ", "), "none")+"."))
		}
	}
	if agent := open(m.GuestAgent).bool("enabled"); wait.GuestAgent && isSet(agent) && !agent.ValueBool() {
		diags.Append(noAgentToWaitFor())
	}
	return diags
}

func noInterfaceToWaitFor(key, there string) diag.Diagnostic {
	return attrpath.Error(path.Root("wait_for").AtName("ip_address"), invalid, fmt.Sprintf(
		"There is no interface %q to wait for. %s", key, there))
}

func noAgentToWaitFor() diag.Diagnostic {
	return attrpath.Error(path.Root("wait_for").AtName("guest_agent"), invalid,
		"A guest agent can't be waited for while guest_agent.enabled is false. Set guest_agent = { enabled = true }, or "+
			"don't wait for it.")
}
