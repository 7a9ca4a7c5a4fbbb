package virtualmachine

import (
	"reflect"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/migrationoptions"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

// model is the resource in Terraform: a configuration, a plan or a state. Nested objects stay framework values, because
// in a configuration each of them may be unknown as a whole.
type model struct {
	Name types.String `tfsdk:"name"`

	Type          types.String `tfsdk:"type"`
	Machine       types.String `tfsdk:"machine_type"`
	Arch          types.String `tfsdk:"arch"`
	CPU           types.Object `tfsdk:"cpu"`
	Memory        types.Object `tfsdk:"memory"`
	Firmware      types.Object `tfsdk:"firmware"`
	Kernel        types.Object `tfsdk:"kernel"`
	Disks         types.Map    `tfsdk:"disks"`
	Interfaces    types.Map    `tfsdk:"interfaces"`
	GuestAgent    types.Object `tfsdk:"guest_agent"`
	SerialConsole types.Object `tfsdk:"serial_console"`
	Devices       types.Object `tfsdk:"devices"`
	Platform      types.Object `tfsdk:"platform"`
	ExtraDevices  types.Map    `tfsdk:"extra_device_xml"`
	Commandline   types.Object `tfsdk:"qemu_commandline"`
	Title         types.String `tfsdk:"title"`
	Description   types.String `tfsdk:"description"`
	Profile       types.String `tfsdk:"profile"`

	CloudInit              types.Object   `tfsdk:"cloud_init"`
	Ignition               types.Object   `tfsdk:"ignition"`
	GraphicsAccess         types.Object   `tfsdk:"graphics_access"`
	Host                   types.String   `tfsdk:"host"`
	Placement              types.Object   `tfsdk:"placement"`
	Labels                 types.Map      `tfsdk:"labels"`
	RunStrategy            types.String   `tfsdk:"run_strategy"`
	WaitFor                types.Object   `tfsdk:"wait_for"`
	UpdatePolicy           types.String   `tfsdk:"update_policy"`
	TerminationGracePeriod value.Duration `tfsdk:"termination_grace_period"`
	DeletionProtection     types.Bool     `tfsdk:"deletion_protection"`
	OnDestroy              types.Object   `tfsdk:"on_destroy"`
	EvictionStrategy       types.String   `tfsdk:"eviction_strategy"`
	MigrationOptions       types.Object   `tfsdk:"migration_options"`
	Timeouts               timeouts.Value `tfsdk:"timeouts"`

	ID              types.String `tfsdk:"id"`
	CurrentHost     types.String `tfsdk:"current_host"`
	Location        types.Object `tfsdk:"location"`
	Phase           types.String `tfsdk:"phase"`
	Status          types.String `tfsdk:"status"`
	StatusReason    types.String `tfsdk:"status_reason"`
	Ready           types.Bool   `tfsdk:"ready"`
	IPAddresses     types.Map    `tfsdk:"ip_addresses"`
	RestartRequired types.Bool   `tfsdk:"restart_required"`
	Autostart       types.Bool   `tfsdk:"autostart"`
}

// lastKnown returns where the VM was according to the state.
func (m *model) lastKnown() fleet.LastKnown {
	return fleet.LastKnown{Host: text(m.CurrentHost), HostUUID: text(open(m.Location).string("host_uuid"))}
}

// runStrategy returns the effective run strategy.
func (m *model) runStrategy() string {
	if isSet(m.RunStrategy) {
		return m.RunStrategy.ValueString()
	}
	return status.Always
}

// updatePolicy returns the effective update policy.
func (m *model) updatePolicy() string {
	if isSet(m.UpdatePolicy) {
		return m.UpdatePolicy.ValueString()
	}
	return fleet.PolicyLive
}

// leavesHeld reports whether a device that the guest hasn't released when it was asked to waits for a restart.
func (m *model) leavesHeld() bool { return m.updatePolicy() != fleet.PolicyLive }

// spec returns what the model declares of the VM's definition. If prior isn't nil, it supplies values that a
// configuration can't express or doesn't know yet.
func (m *model) spec(prior *model) domain.Spec {
	if prior == nil {
		prior = &model{}
	}
	var s domain.Spec
	for _, b := range blocks {
		b.toDomain(m, prior, &s)
	}
	return s
}

// migrationOptions returns the VM's own migration options.
func (m *model) migrationOptions() migration.Options {
	o := migrationoptions.Options(m.MigrationOptions)
	o.SharedDisks = sharedDisks(openAll(m.Disks))
	return o
}

// toFleet returns what the configuration asks of the fleet. Attributes that it doesn't declare are left alone.
func (m *model) toFleet(prior *model) fleet.Desired {
	disks := openAll(m.Disks)
	d := fleet.Desired{
		Spec: m.spec(prior),
		Metadata: domain.Metadata{
			Labels:                 value.StringMap(m.Labels),
			RunStrategy:            m.runStrategy(),
			Host:                   text(m.Host),
			TerminationGracePeriod: m.TerminationGracePeriod.Duration(),
			DeletionProtection:     value.Bool(m.DeletionProtection),
			Kept:                   keptParts(m.OnDestroy),
			EvictionStrategy:       text(m.EvictionStrategy),
			SharedDisks:            sharedDisks(disks),
			ExtraDevices:           m.extraDevices(nil),
		},
		Volumes:      diskVolumes(disks),
		OwnDisks:     ownAmong(disks),
		Files:        m.requiredFiles(),
		Placement:    placementToFleet(m.Placement),
		UpdatePolicy: m.updatePolicy(),
		LeavesHeld:   m.leavesHeld(),

		GraphicsPassword: m.graphicsPassword(prior),
	}
	if prior != nil {
		d.Handed = handedOver(m.Disks, withRenamed(m.Disks, prior.Disks))
		d.Renamed, d.Removes = renamedOwnDisks(m.Disks, prior.Disks), removedDisks(m.Disks, prior.Disks)
	}
	m.cloudInitToFleet(&d)
	m.ignitionToFleet(&d)
	return d
}

// observation is what was seen of a VM in one reading.
type observation struct {
	vm *fleet.VM
	// addresses are the VM's addresses by interface; nil if unknown.
	addresses map[string][]string
	// evicted says why a VM that is off stays off; "": it doesn't.
	evicted string
	// evicting says why a running VM will be taken off its host; "": it won't.
	evicting string
	// cutOff are the interfaces that libvirt no longer connects to their networks.
	cutOff []status.CutOff
	// deletion is what an interrupted destroy has left of the VM; nil: there was none.
	deletion *fleet.InterruptedDeletion
	// imported says that no apply has recorded the provider's metadata yet, so the prior state holds.
	imported bool
	// mergeBase is what both definitions said when they last agreed; nil: the prior state. See updateMergeBase.
	mergeBase *domain.Spec
	// onlyRunning are the paths of devices that the state doesn't have, see privateOnlyRunning.
	onlyRunning []string
	// restart caches the result of restartRequired; nil: not computed yet.
	restart *bool
}

// restartRequired reports whether the next start would start a VM that differs from the running one.
func (o *observation) restartRequired() bool {
	if o.restart == nil {
		o.restart = new(o.vm.RestartRequired())
	}
	return *o.restart
}

// fromFleet sets the model to the state of an observed VM. prior is the state or plan so far. Values keep its notation
// if they mean the same.
func (m *model) fromFleet(seen observation, prior *model) {
	vm := seen.vm
	*m = *prior
	merged := m.definitionFromFleet(seen, prior)
	m.metadataFromFleet(seen, merged, prior)

	m.ID = types.StringValue(vm.UUID)
	m.CurrentHost = types.StringValue(vm.Host)
	m.Location = locationFromFleet(vm)
	m.Phase = types.StringValue(vm.Phase())
	m.Status = types.StringValue(vm.Status())
	m.StatusReason = value.NewStringOrNull(vm.StatusReason())
	m.Ready = readyFromFleet(waitToFleet(m.WaitFor), seen)
	m.IPAddresses = addressesFromFleet(seen.addresses)
	m.RestartRequired = types.BoolValue(seen.restartRequired())
	m.Autostart = types.BoolValue(vm.StartsWithHost())
}

// keepReady keeps a VM ready if its addresses are unknown. A refresh asks the guest only once, and a guest that is too
// busy to answer has not lost its address.
func (m *model) keepReady(seen observation, prior *model) {
	wait := waitToFleet(m.WaitFor)
	if wait.IPAddress == "" || seen.addresses != nil || !prior.Ready.ValueBool() {
		return
	}
	wait.IPAddress = ""
	m.Ready = readyFromFleet(wait, observation{vm: seen.vm})
}

// readyFromFleet returns whether the VM is ready. A VM whose creation isn't finished isn't ready. So the next plan
// shows a mark that its creation couldn't remove, and the apply removes it.
func readyFromFleet(wait fleet.WaitFor, seen observation) types.Bool {
	return types.BoolValue(wait.Ready(seen.vm, seen.addresses) && seen.vm.Metadata.Creating == nil)
}

// definitionFromFleet sets the attributes that the VM's definitions have, and returns what they say together.
func (m *model) definitionFromFleet(seen observation, prior *model) domain.Spec {
	vm := seen.vm
	before := seen.mergeBase
	if before == nil && vm.LiveSpec != nil { // Otherwise there is nothing to merge.
		before = new(prior.spec(nil))
	}
	spec := domain.Merge(vm.PersistentSpec, seen.shownLive(), before, vm.Metadata.Staged)

	for _, b := range blocks {
		b.fromDomain(m, spec, seen, prior)
	}
	m.combine(definitionAttributes, m, prior, func(p pair) attr.Value {
		now, _ := shapes[p.field].keepNotation(p.a, p.b)
		return now
	})
	return spec
}

// metadataFromFleet sets the attributes that only the provider records. An imported VM has no record for this
// configuration: its host stays unpinned, and its run strategy is the one that describes what was observed.
func (m *model) metadataFromFleet(seen observation, merged domain.Spec, prior *model) {
	recorded := seen.vm.Metadata
	m.Labels = kept("labels", value.NewStringMap(recorded.Labels), prior.Labels)
	m.TerminationGracePeriod = kept("termination_grace_period",
		value.NewDurationPointer(recorded.TerminationGracePeriod), prior.TerminationGracePeriod)
	m.DeletionProtection = kept("deletion_protection",
		types.BoolPointerValue(recorded.DeletionProtection), prior.DeletionProtection)
	m.OnDestroy = onDestroyFromFleet(recorded.Kept, prior.OnDestroy)

	m.CloudInit = cloudInitFromFleet(seen.vm, merged, prior.CloudInit)
	m.Ignition = ignitionFromFleet(seen.vm, prior.Ignition, prior.updatePolicy())
	m.EvictionStrategy = kept("eviction_strategy",
		value.NewStringOrNull(recorded.EvictionStrategy), prior.EvictionStrategy)
	m.Placement = placementFromFleet(recorded, prior.Placement)

	if seen.imported {
		m.RunStrategy = prior.RunStrategy
		m.Host = prior.Host
		if !prior.Placement.IsNull() {
			m.Placement = prior.Placement
		}
		return
	}
	m.Host = kept("host", value.NewStringOrNull(recorded.Host), prior.Host)
	m.RunStrategy = value.NewStringOrNull(recorded.RunStrategy)
	if prior.RunStrategy.IsNull() && recorded.RunStrategy == prior.runStrategy() {
		m.RunStrategy = prior.RunStrategy
	}
	if _, managed := status.Autostart(prior.runStrategy()); !managed && seen.vm.LostAutostart() {
		m.RunStrategy = types.StringValue(status.Manual) // No plan shows autostart, and any change gives it back.
	}
}

// observedStrategy returns the run strategy of an imported VM: the recorded one, or else one that leaves the VM as it
// is.
func observedStrategy(vm *fleet.VM) types.String {
	if recorded := vm.Metadata.RunStrategy; recorded != "" {
		return types.StringValue(recorded)
	}
	return types.StringValue(status.ObservedRunStrategy(vm.Active, vm.Paused(), vm.Autostart))
}

// kept is keepNotation for a known type.
func kept[T attr.Value](name string, observed, prior T) T {
	now, _ := shapes[fields[name]].keepNotation(observed, prior)
	v, ok := now.(T)
	if !ok {
		return observed
	}
	return v
}

func addressesFromFleet(addresses map[string][]string) types.Map {
	if addresses == nil {
		return types.MapNull(addressesType.ElemType)
	}
	out := make(map[string]attr.Value, len(addresses))
	for key, list := range addresses {
		out[key] = value.NewStringList(list)
	}
	return types.MapValueMust(addressesType.ElemType, out)
}

func staleFromFleet(hosts []string) types.List {
	if hosts == nil {
		hosts = []string{}
	}
	return value.NewStringList(hosts)
}

// fields maps the names of the attributes to the indices of their fields in the model.
var fields = func() map[string]int {
	places := map[string]int{}
	for i, name := range attributeNames {
		places[name] = i
	}
	return places
}()

// get returns an attribute of the model by name.
func (m *model) get(name string) attr.Value {
	place, ok := fields[name]
	if !ok {
		return nil
	}
	v, _ := reflect.TypeAssert[attr.Value](reflect.ValueOf(m).Elem().Field(place))
	return v
}

// set sets an attribute of the model by name.
func (m *model) set(name string, v attr.Value) {
	reflect.ValueOf(m).Elem().Field(fields[name]).Set(reflect.ValueOf(v))
}
