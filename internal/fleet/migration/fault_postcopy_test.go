package migration

import (
	"errors"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// A daemon that dies in post-copy takes no guest's memory along: the QEMUs carry on, and the VM arrives.
func TestLab_postCopySurvivesALibvirtd(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	b := newBenchOn(t, l, l.StartHost(t), l.StartHost(t), "dirty=32 data")
	for _, side := range []string{"source", "target"} {
		dying := map[string]*libvirt.Host{"source": b.source, "target": b.target}[side]
		before := b.counter(b.source.Name())
		state, err := b.postCopy(t, Options{}, func() { l.KillLibvirtd(t, l.Host(dying.Name()))() })
		if err != nil || state.Mode != PostCopy {
			t.Errorf("%s: state %+v: %v", side, state, err)
		}
		b.switchedOver(t)
		lab.Await(t, "the guest to keep counting", func() bool { return b.counter(b.target.Name()) > before })
		b.turn(t)
	}
}

// turn has the VM move back next. What libvirt left of it where it was goes.
func (b *bench) turn(t *testing.T) {
	t.Helper()
	if _, err := b.source.Domain(t.Context(), b.machine.UUID); err == nil {
		b.lab.Virsh(t, b.source.Name(), "undefine", b.machine.UUID)
	}
	b.source, b.target = b.target, b.source
}

// switchedOver expects the VM on the target with its data, and no process of it at the source. There libvirt leaves
// a definition when QEMU carried on without it, which the fleet removes.
func (b *bench) switchedOver(t *testing.T) {
	t.Helper()
	if d, err := b.source.Domain(t.Context(), b.machine.UUID); err == nil && d.Active() {
		t.Errorf("at the source it is %s (%s)", d.State, d.Reason)
	}
	d, err := b.target.Domain(t.Context(), b.machine.UUID)
	if err != nil || d.State != libvirt.Running || !d.Persistent {
		t.Errorf("on the target: %+v, %v", d, err)
	}
	b.intact(t, b.target)
}

// After the handover either process has a part of the guest that exists nowhere else. Without the target's the guest is
// lost: that is told, with what both hosts have, and the other part is left as it is.
func TestLab_postCopyDoesNotSurviveAQEMU(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	source, target := l.StartHost(t), l.StartHost(t)
	b := newBenchOn(t, l, source, target, "dirty=32")
	state, err := b.postCopy(t, Options{}, func() { b.killQEMU(t, target) })
	failed, ok := errors.AsType[*FailedError](err)
	if !errors.Is(err, ErrIrrecoverable) || !ok || !state.Failed || state.FailurePlane != PlaneData ||
		!strings.Contains(failed.Where, source.Name) || !strings.Contains(failed.Where, target.Name) ||
		!strings.Contains(failed.Where, "(PostcopyFailed)") || !strings.Contains(err.Error(), "target is gone") {
		t.Errorf("state %+v: %v", state, err)
	}
	if d, err := b.source.Domain(t.Context(), b.machine.UUID); err != nil || !d.Active() {
		t.Errorf("at the source: %+v, %v", d, err)
	}
	if d, err := b.target.Domain(t.Context(), b.machine.UUID); err == nil && d.Active() {
		t.Errorf("on the target, where it was killed: %+v", d)
	}
}
