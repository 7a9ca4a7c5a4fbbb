package virtualmachine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/attrpath"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/tfdiag"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

// isGone reports whether every host that could have the VM answered, and none has it.
func isGone(err error) bool { return errors.Is(err, fleet.ErrNotFound) }

// failure turns an error about the VM into one for the user.
func (m *model) failure(verb string, err error) tfdiag.Failure {
	name := text(m.Name)
	if name == "" {
		name = text(m.ID)
	}
	f := tfdiag.Failure{Verb: verb, Noun: noun, VirtualMachine: name, Host: text(m.CurrentHost), Err: err}
	if keys := value.Keys(m.extraDevices(nil)); len(keys) > 0 && errors.Is(err, fleet.ErrInvalid) {
		f.Remedy = "If libvirt's words are about its schema, compare the XML in " + domain.ExtraDevices + " (" +
			strings.Join(keys, ", ") + ") with https://libvirt.org/formatdomain.html: libvirt knows each element and attribute."
	}
	return f
}

// failureAfter is like failure, and also says how long the provider tried.
func (m *model) failureAfter(verb string, err error, began time.Time) tfdiag.Failure {
	f := m.failure(verb, err)
	f.Elapsed = time.Since(began)
	return f
}

// failureOn is like failureAfter for a VM that may have failed to reach the host that the plan gives it. Unless the
// error is another host's, the host that it names is the one where the VM was last known.
func (m *model) failureOn(last fleet.LastKnown, verb string, err error, began time.Time) tfdiag.Failure {
	f := m.failureAfter(verb, err, began)
	if f.Host == "" || f.Host == last.Host {
		return f
	}
	f.Host = last.Host
	if call, ok := errors.AsType[*libvirt.Error](err); ok {
		f.Host = call.Host
	} else if silent, ok := errors.AsType[*fleet.Error](err); ok && errors.Is(err, fleet.ErrUnreachable) {
		f.Host = cmp.Or(silent.Host, f.Host)
	}
	return f
}

// failureAt returns the error at the attribute that it names, such as a disk that can't be created.
func failureAt(f tfdiag.Failure) diag.Diagnostic {
	for err := f.Err; ; {
		e, ok := errors.AsType[*fleet.Error](err)
		switch {
		case !ok:
			return f.Error()
		case e.Attribute != "":
			d := f.Error()
			return attrpath.Error(attrpath.Parse(e.Attribute, keyed...), d.Summary(), d.Detail())
		}
		err = e.Err
	}
}

// switchedOff reports whether a host that doesn't answer was drained for its maintenance. If the host had the VM last,
// the drain must have left the VM there: a VM that came later shows that the host was in use again. last is the VM as
// the state has it, nil if it has none.
func (r *Resource) switchedOff(ctx context.Context, host string, last *model) bool {
	if last == nil || lastHost(last) != host {
		return r.Data.Fleet.SwitchedOff(ctx, host)
	}
	return r.Data.Fleet.SwitchedOffWith(ctx, host, text(last.ID))
}

// lastHost is where the state has the VM, "" for none.
func lastHost(last *model) string {
	if last == nil {
		return ""
	}
	return text(last.CurrentHost)
}

// planFailure turns an error during a plan into one for the user. If a host is switched off for maintenance, the error
// advises against fencing it, which would create its VMs a second time. A VM that is gone was removed since the
// refresh: a saved plan is applied, or the plan doesn't refresh. last is the VM as the state has it, nil if it has
// none.
func (r *Resource) planFailure(ctx context.Context, m, last *model, verb string, err error) tfdiag.Failure {
	f := m.failure(verb, err)
	if isGone(err) {
		f.Remedy = "A user or another tool has removed it since Terraform last read it. Plan again, with a refresh: the " +
			"new plan creates it. A saved plan from before can't be applied."
		return f
	}
	silent, ok := errors.AsType[*fleet.Error](err)
	if ok && errors.Is(err, fleet.ErrUnreachable) && r.switchedOff(ctx, silent.Host, last) {
		if home := lastHost(last); home != "" && home != silent.Host {
			f.Remedy = fmt.Sprintf("Host %q is under maintenance and may be switched off. Switch it on, then plan again: until "+
				"then no VM that is off can be started on another host, such as this one on host %q, because it may be running "+
				"there. Don't set fenced = true for the host: the VMs that the drain left there would be created a second "+
				"time, with new disks where they have a pool.", silent.Host, home)
			return f
		}
		f.Remedy = fmt.Sprintf("Host %q is under maintenance and may be switched off. Switch it on, then plan again: until "+
			"then its VMs that are off can't be started, changed or destroyed. move_stopped = true in "+
			"virtfleet_host_maintenance moves them too, before the host is switched off. Don't set fenced = true for the host: "+
			"the VM would be created a second time, with new disks where they have a pool.", silent.Host)
	}
	return f
}
