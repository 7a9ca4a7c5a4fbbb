package virtualmachine

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/meta"
)

// readTimeout returns how long a read may take. The timeouts package logs a record for a timeout that isn't set, which
// Terraform drops, so it is asked only for one that is.
func (m *model) readTimeout(ctx context.Context) (time.Duration, diag.Diagnostics) {
	if v, ok := m.Timeouts.Attributes()["read"]; !ok || v.IsNull() {
		return readTimeout, nil
	}
	return m.Timeouts.Read(ctx, readTimeout)
}

// observeVM finds the VM and asks for its addresses, once: what the fast path has already seen isn't asked for again.
func (r *Resource) observeVM(ctx context.Context, state *model) (observation, error) {
	if seen, ok := ctx.Value(observed{}).(observation); ok {
		return seen, nil
	}
	vm, err := r.Data.Fleet.Find(ctx, text(state.ID), state.lastKnown())
	if err != nil {
		return observation{}, err
	}
	if err := r.Data.Fleet.NoteInterrupted(ctx, vm); err != nil {
		return observation{}, err
	}
	r.Data.Fleet.NoteReplaced(ctx, vm)
	evicted, err := r.Data.Fleet.Evicted(ctx, vm)
	if err != nil {
		return observation{}, err
	}
	evicting, err := r.Data.Fleet.Evicting(ctx, vm)
	if err != nil {
		return observation{}, err
	}
	cut, _ := r.Data.Fleet.CutOff(ctx, vm) // A host that can't list the ports tells nothing about them.
	return observation{
		vm: vm, cutOff: cut, addresses: r.Data.Fleet.IPAddresses(ctx, vm), evicted: evicted, evicting: evicting,
		deletion: r.Data.Fleet.InterruptedDeletion(ctx, vm),
	}, nil
}

// stateAfterRefresh returns the state of the observed VM and whether it has changed, and records the live definition.
func stateAfterRefresh(
	ctx context.Context, seen observation, state *model, private meta.Private,
) (now *model, changed bool, diags diag.Diagnostics) {
	_, diags = meta.ReadPrivate(ctx, private, privateImported, &seen.imported)
	diags.Append(seen.updateMergeBase(ctx, private, func() domain.Spec { return state.spec(nil) }, domain.Spec{})...)
	diags.Append(seen.readOnlyRunning(ctx, private)...)
	now = &model{}
	now.fromFleet(seen, state)
	now.keepReady(seen, state)
	changed = !equal(now, state)
	diags.Append(now.recordBeforeDrift(ctx, state, changed, private)...)
	diags.Append(seen.warnOfCutOff()...)
	diags.Append(writeSaved(ctx, private, seen.vm)...)
	diags.Append(writeLive(ctx, private, seen.vm)...)
	diags.Append(writeRecorded(ctx, private, seen.vm)...)
	diags.Append(writeUnseen(ctx, private, seen.vm, now)...)
	diags.Append(writeDefined(ctx, private, seen.vm)...)
	diags.Append(writeOwn(ctx, private, seen.vm, true)...)
	diags.Append(writeDeletedInPart(ctx, private, seen)...)
	// A definition on another host shows that the VM had one: it was moved without it, so an apply defines it again.
	if seen.vm.Persistent || len(seen.vm.StaleHosts) > 0 {
		diags.Append(meta.WritePrivate(ctx, private, privateTransient, nil)...)
	}
	for key, why := range map[string]string{privateEvicted: seen.evicted, privateEvicting: seen.evicting} {
		if why == "" {
			diags.Append(meta.WritePrivate(ctx, private, key, nil)...)
		} else {
			diags.Append(meta.WritePrivate(ctx, private, key, why)...)
		}
	}
	return now, changed, diags
}

// warnOfCutOff warns of interfaces that libvirt no longer connects to their networks. An apply can't repair that,
// unless it changes the network: libvirt connects them when the VM or libvirt itself starts.
func (o *observation) warnOfCutOff() (diags diag.Diagnostics) {
	lines := make([]string, len(o.cutOff))
	for i, cut := range o.cutOff {
		lines[i] = "  - " + cut.String()
	}
	if len(lines) > 0 {
		diags.AddAttributeWarning(path.Root("interfaces"), "Virtual machine is cut off: "+o.vm.Name, fmt.Sprintf(
			"These interfaces of the virtual machine, which runs on host %q, aren't connected:\n\n%s\n\nAn apply "+
				"connects only those that it changes to another network. For the others, shut the virtual machine down and "+
				"start it again. Or restart the host's libvirtd, or virtqemud: "+
				"this connects the interfaces of all its running VMs again, and doesn't interrupt them.",
			o.vm.Host, strings.Join(lines, "\n")))
	}
	return diags
}

// waitUntilReady waits until a running VM is ready, if there is anything to wait for, and returns the last observation.
func (r *Resource) waitUntilReady(ctx context.Context, seen observation, m *model) (observation, error) {
	if !waitsForMore(m.WaitFor) && seen.vm.Running() {
		seen.addresses = r.Data.Fleet.IPAddresses(ctx, seen.vm)
		return seen, nil
	}
	ctx, cancel := context.WithTimeout(ctx, waitTimeout(m.WaitFor))
	defer cancel()
	vm, addresses, err := r.Data.Fleet.Wait(ctx, seen.vm, waitToFleet(m.WaitFor))
	if vm != nil {
		seen = observation{vm: vm, addresses: addresses}
	}
	return seen, err
}

// stateAfterCreate returns the state of a new VM: the planned values, and observed ones where the plan was unknown. The
// next read sees differences from the plan as changes to repair. If this state had them, Terraform would treat the
// create as failed, and destroy the VM.
func stateAfterCreate(seen observation, plan *model) *model {
	var now model
	now.fromFleet(seen, plan)
	now.adoptPlanned(plan)
	return &now
}

// saveUpdated writes the state after an update with a declared definition: the observed values. It adds an error if the
// update left a planned change undone.
func (r *Resource) saveUpdated(
	ctx context.Context, seen observation, plan, state *model, want domain.Spec, resp *resource.UpdateResponse,
) {
	beforeDrift, diags := readPrivateSpec(ctx, resp.Private, privateBeforeDrift)
	diags.Append(seen.updateMergeBase(ctx, resp.Private, func() domain.Spec {
		if beforeDrift != nil {
			return *beforeDrift
		}
		return state.spec(nil)
	}, want)...)
	diags.Append(seen.readOnlyRunning(ctx, resp.Private)...)
	var now model
	now.fromFleet(seen, plan)
	if resp.Diagnostics.HasError() {
		now.Disks = withVolumesNotApplied(now.Disks, plan.Disks, state.Disks)
	}
	if resp.Diagnostics.Append(diags...); !resp.Diagnostics.HasError() {
		resp.Diagnostics.Append(unmetChanges(&now, plan, state)...)
	}
	if !resp.Diagnostics.HasError() {
		observed := now.spec(nil)
		now.adoptPlanned(plan)
		resp.Diagnostics.Append(warnStarted(ctx, resp.Private, observed, &now)...)
		resp.Diagnostics.Append(meta.WritePrivate(ctx, resp.Private, privateBeforeDrift, nil)...)
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, &now)...)
	resp.Diagnostics.Append(writeLive(ctx, resp.Private, seen.vm)...)
	resp.Diagnostics.Append(writeRecorded(ctx, resp.Private, seen.vm)...)
	resp.Diagnostics.Append(writeUnseen(ctx, resp.Private, seen.vm, &now)...)
	resp.Diagnostics.Append(writeDefined(ctx, resp.Private, seen.vm)...)
	resp.Diagnostics.Append(writeOwn(ctx, resp.Private, seen.vm, false)...)
	resp.Diagnostics.Append(writeApplied(ctx, resp.Private, &now, plan)...)
	resp.Diagnostics.Append(meta.WritePrivate(ctx, resp.Private, privateImported, nil)...)
	resp.Diagnostics.Append(meta.WritePrivate(ctx, resp.Private, privateReplaced, nil)...)
}
