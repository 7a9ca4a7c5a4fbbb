package virtualmachine

import (
	"fmt"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/meta"
)

// planning is everything that a plan follows from. A plan depends on nothing else, because Terraform plans again during
// the apply, in another process, and rejects any difference.
type planning struct {
	// config is the user's configuration. Its values may be unknown.
	config *model
	// state is the state of the last read; nil for a new VM.
	state *model
	// live is the live definition at the last read; nil if the VM was off.
	live *domain.Spec
	// onlyRunning are the paths of devices that an imported VM has until it is off, see privateOnlyRunning.
	onlyRunning []string
	// agreed is what both definitions of the running VM said when they last agreed; nil: they agree.
	agreed *domain.Spec
	// beforeDrift is what the state said of the definition before someone changed it on the host; nil: no user has, or
	// going back needs no restart.
	beforeDrift *domain.Spec
	// unseen are the paths of changes that an apply which failed has left in the definition, see privateUnseen.
	unseen []string
	// defined is what else the definition says and the state doesn't tell.
	defined defined
	// applied are the sources that the disks had when this configuration was last applied, by key. recorded are the
	// sources that the VM's metadata has: another configuration may have been applied since.
	applied  map[string]domain.DiskSource
	recorded map[string]string
	// own are the records of the disks and media that were created with the VM.
	own map[string]domain.OwnDisk
	// elsewhere are the volumes of own disks in whose place the VM uses other files.
	elsewhere map[string]string
	// unsure are those of which that is unknown.
	unsure map[string]string
	// lost are the disks and media that were created with the VM and that its definition has lost on the host.
	lost map[string]domain.OwnDisk
	// saved says that the VM, which is off, resumes from saved memory when it is started.
	saved bool
	// savedAs is the definition with which that memory was saved; nil: not known.
	savedAs *domain.Spec
	// evicted says why a VM that is off stays off; "": it doesn't.
	evicted string
	// evicting says why a running VM will be taken off its host; "": it won't.
	evicting string
	// deletedInPart is what an interrupted destroy has left of the VM; nil: there was none.
	deletedInPart *deletedInPart
	// transient says that the VM was imported without a definition, and stays without one.
	transient bool
	// hosts are the names of the provider's hosts. classes returns the devices of a host that VMs may ask for, by
	// class.
	hosts   []string
	classes func(host string) map[string][]domain.HostPart
	// poolChange returns how a host's storage pool, which was planned before the VM, leaves its volumes.
	poolChange func(host, pool string) meta.PoolChange
}

// outcome is the result of planning.
type outcome struct {
	planned model
	// changed says that planned differs from the state.
	changed bool
	// want is the declared definition of an existing VM, and disks are its declared disks.
	want  domain.Spec
	disks map[string]object
	// policy is the update policy that the fleet applies.
	policy string
	// power is what the plan shows of the VM's power; nil: it isn't known.
	power *fleet.PlannedPower
	// replace are the attributes whose changes need a new VM.
	replace path.Paths
	diags   diag.Diagnostics
}

// starts reports whether the apply starts a VM that is off.
func (o outcome) starts() bool { return o.power != nil && o.power.Action == status.Start }

// plan returns what an apply will do. It is a pure function.
func (p planning) plan() outcome {
	o := outcome{planned: p.plannedValues(), policy: p.config.updatePolicy()}
	p.planDevices(&o.planned)
	if p.state == nil {
		p.planNew(&o.planned)
		o.changed = true
		o.diags.Append(p.warnAboutBoot()...)
		return o
	}

	p = p.onNextHost()
	if p.replaceDeletedInPart(&o) {
		return o
	}
	p.planDefinition(&o.planned)
	o.diags.Append(p.warnAboutProfile()...)
	have, want := p.specs()
	drifts := p.sourceDrifts(have, want)
	o.diags.Append(p.sourcesKept(drifts)...)
	existing := openAll(p.state.Disks)
	o.diags.Append(p.strayDisks(existing)...)
	want, taken := p.takeBack(want)
	o.want = want
	need := p.restartNeeds(have, want).withoutDrifts(drifts)
	need.takenBack, need.left = len(taken.Paths) > 0, taken.Staying
	if o.replace = need.replacePaths(); len(o.replace) > 0 {
		// Terraform plans the new VM itself.
		p.planNew(&o.planned)
		o.changed = true
		o.diags.Append(p.replaceProtected(o.replace)...)
		return o
	}
	p.warnAboutDefinition(&o, have, want, existing)
	p.planPower(&o, need)
	p.planMove(&o)
	o.changed = !equal(&o.planned, p.state)
	p.warnTakenBack(&o, taken)
	if !o.changed {
		o.diags.Append(p.waitingWarning(need.restart)...)
		o.planned = *p.state
		return o
	}
	p.planAfterTransition(&o)
	return o
}

// warnAboutDefinition warns about what the changes of the definition lose or leave behind. existing are the disks in
// the state. It also sets o.disks, which later checks read.
func (p planning) warnAboutDefinition(o *outcome, have, want domain.Spec, existing map[string]object) {
	o.diags.Append(p.warnRemoved(existing)...)
	o.diags.Append(p.warnKept(existing)...)
	o.diags.Append(p.warnRenamed(existing)...)
	o.disks = openAll(p.config.Disks)
	o.diags.Append(p.warnElsewhere(existing, o.disks)...)
	o.diags.Append(p.warnUnknownImages(o.disks)...)
	o.diags.Append(p.warnAboutVariables()...)
	o.diags.Append(p.warnDiscarded(have, want)...)
	o.diags.Append(p.warnAboutMemory()...)
}

// planAfterTransition plans the status of a VM that was read during a transition: what comes after it is known only
// after the apply. A plan without another change doesn't get here, because unknown values alone would make it a change.
func (p planning) planAfterTransition(o *outcome) {
	m := &o.planned
	if !m.Status.Equal(p.state.Status) {
		return
	}
	if isRestartReason(text(m.StatusReason)) {
		m.StatusReason = types.StringUnknown() // Any apply ends it.
	}
	if status.IsTransitional(text(m.Status)) {
		m.Phase, m.Status, m.StatusReason = types.StringUnknown(), types.StringUnknown(), types.StringUnknown()
		m.Ready, m.IPAddresses = types.BoolUnknown(), types.MapUnknown(addressesType.ElemType)
		o.power = nil
	}
}

// planNew plans the computed attributes of a new VM.
func (p planning) planNew(m *model) {
	m.combine(computedAttributes, m, m, func(p pair) attr.Value {
		return shapes[p.field].unknown
	})
	if text(m.Host) != "" {
		m.CurrentHost = m.Host
	}
}

// plannedValues plans every attribute, as far as its value follows from the configuration and the state.
func (p planning) plannedValues() model {
	c, s := *p.config, &model{}
	if p.state != nil {
		*s = *p.state
		s.Interfaces = withPairedInterfaces(c.Interfaces, s.Interfaces)
	}
	c.CloudInit = withoutWriteOnly(c.CloudInit, cloudInitAttributes)
	c.Ignition = withoutWriteOnly(c.Ignition, ignitionAttributes)
	c.GraphicsAccess = withoutWriteOnly(c.GraphicsAccess, graphicsAccessAttributes)
	var m model
	m.combine(vmSchema.Attributes, &c, s, func(attribute pair) attr.Value {
		if p.state == nil {
			attribute.b = nil
		}
		planned, _ := shapes[attribute.field].planValue(attribute.a, attribute.b)
		return planned
	})
	for _, b := range blocks {
		if b.planDependent != nil {
			b.planDependent(&m, &c, s)
		}
	}
	m.RunStrategy = plannedRunStrategy(c.RunStrategy, s.RunStrategy)
	planFollowing(&m, &c, s)
	planBootOrders(&m, &c)
	return m
}

// plannedRunStrategy returns the declared strategy. If none is declared, another one in the state becomes the default,
// which the plan names, and the default stays, as after the import of a VM that runs and starts with its host.
func plannedRunStrategy(config, state types.String) types.String {
	if !config.IsNull() || state.IsNull() {
		return config
	}
	return types.StringValue(status.Always)
}

// withoutOther plans that a device has no source in "other" if it has a source that the schema can express.
func withoutOther(config types.Map, sources ...string) edit {
	declared := elements(config)
	return func(key string, a object) bool {
		if a["other"].IsNull() || isSet(a["other"]) && text(a.string("other")) == "" {
			return false
		}
		if v := open(declared[key])["other"]; v != nil && v.IsUnknown() {
			return false
		}
		if !slices.ContainsFunc(sources, func(s string) bool { return !a[s].IsNull() }) {
			return false
		}
		a["other"] = types.StringNull()
		if slices.ContainsFunc(sources, func(s string) bool { return a[s].IsUnknown() }) {
			a["other"] = types.StringUnknown()
		}
		return true
	}
}

// planPower plans the VM's status after the apply, and whether the VM is restarted for its changes.
func (p planning) planPower(o *outcome, need needs) {
	m, s := &o.planned, p.state

	action := p.powerAction()
	restarts := p.planRestart(o, need, action)
	switch {
	case p.config.RunStrategy.IsUnknown():
		m.Phase, m.Status, m.StatusReason = types.StringUnknown(), types.StringUnknown(), types.StringUnknown()
	case action == status.Stop:
		m.Status = types.StringValue(status.StatusStopped)
		m.Phase, m.StatusReason = types.StringUnknown(), types.StringUnknown()
	case action != status.None, restarts:
		m.Status, m.Phase = types.StringValue(status.StatusRunning), types.StringValue(status.PhaseRunning)
		m.StatusReason = types.StringUnknown()
	}
	if !m.Status.IsUnknown() && text(s.StatusReason) != status.ReasonPostcopyFailed {
		o.power = &fleet.PlannedPower{Status: text(s.Status), Action: action, Restarts: restarts}
	}
	p.planPostCopyRecovery(o)
	m.Ready = p.plannedReady(m)
	if !m.Status.Equal(s.Status) || !m.StatusReason.Equal(s.StatusReason) || !m.Ready.Equal(s.Ready) ||
		!sameValue(m.Interfaces, s.Interfaces) {
		m.IPAddresses = types.MapUnknown(addressesType.ElemType)
	}
	p.warnUnknownPower(o)
	p.warnAboutPause(o, action)
	p.warnAboutInterruptedRestart(o, action)
	p.warnAboutEviction(o)
	p.warnAboutInstance(o)
}

func (p planning) powerAction() status.Action {
	if p.config.RunStrategy.IsUnknown() || p.evicted != "" {
		return status.None
	}
	return p.strategyAction()
}

// strategyAction returns the action that the run strategy asks for, even if the VM is evicted.
func (p planning) strategyAction() status.Action {
	s := p.state
	return status.PowerAction(p.config.runStrategy(), text(s.Status), text(s.Phase), text(s.StatusReason))
}

// plannedReady plans whether the VM is ready. An apply waits until a running VM is ready, or fails. So a VM that isn't
// ready yet is planned to become ready, and the next apply waits for it again.
func (p planning) plannedReady(m *model) types.Bool {
	switch {
	case m.Status.IsUnknown(), m.WaitFor.IsUnknown():
		return types.BoolUnknown()
	case text(m.Status) == status.StatusRunning && p.evicting != "" && m.Status.Equal(p.state.Status):
		return p.state.Ready // A drain, not this apply, decides whether it runs on.
	case text(m.Status) == status.StatusRunning:
		return types.BoolValue(true)
	case m.Status.Equal(p.state.Status):
		return p.state.Ready
	default:
		return types.BoolValue(false)
	}
}

// warnAboutEviction warns why a VM that should run is left as it is.
func (p planning) warnAboutEviction(o *outcome) {
	on, managed := status.Autostart(p.config.runStrategy())
	suspended := managed && !p.state.Autostart.IsNull() && p.state.Autostart.ValueBool() != on
	if p.evicting != "" && suspended {
		o.diags.AddAttributeWarning(path.Root("status"), "Virtual machine is being evicted", fmt.Sprintf(
			"A drain takes virtual machine %q away from host %q: %s. Until that is over its autostart is left as the drain "+
				"has set it.\n\nPlan again when the drain has ended.", text(p.state.Name), text(p.state.CurrentHost), p.evicting))
	}
	if p.evicted == "" || p.strategyAction() != status.Start {
		return
	}
	o.diags.AddAttributeWarning(path.Root("status"), "Virtual machine is off for a maintenance", fmt.Sprintf(
		"Virtual machine %q should run, but it was shut down or saved because its host is being drained: %s.\n\n"+
			"It is started once that maintenance is over.", text(p.state.Name), p.evicted))
}

// warnAboutPause warns about a pause that only a person can assess. planPostCopyRecovery says what to do about a broken
// migration, whose parts must be neither resumed nor destroyed by hand.
func (p planning) warnAboutPause(o *outcome, action status.Action) {
	if action != status.None || p.config.RunStrategy.IsUnknown() || p.config.runStrategy() != status.Always ||
		text(p.state.Status) != status.StatusPaused ||
		text(p.state.StatusReason) == status.ReasonPostcopyFailed {
		return
	}
	o.diags.AddAttributeWarning(path.Root("status"), "Virtual machine is paused and not resumed",
		"Virtual machine \""+text(p.state.Name)+"\" should run, but it is paused ("+text(p.state.StatusReason)+"). "+
			"Resuming it blindly could damage its data.\n\n"+
			"Find out why it was paused, then resume it with \"virsh resume\" or stop it with \"virsh destroy\" on host \""+
			text(p.state.CurrentHost)+"\".")
}
