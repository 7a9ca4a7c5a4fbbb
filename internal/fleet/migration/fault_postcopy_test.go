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
	for _, side := range []string{"source", "target"} {
		t.Run(side, func(t *testing.T) {
			t.Parallel()
			l := lab.Open(t)
			source, target := l.StartHost(t), l.StartHost(t)
			b := newBenchOn(t, l, source, target, "dirty=32 data")
			dying := map[string]*lab.Host{"source": source, "target": target}[side]
			before := b.counter(source.Name)
			state, err := b.postCopy(t, Options{}, func() { l.KillLibvirtd(t, dying)() })
			if err != nil || state.Mode != PostCopy {
				t.Errorf("state %+v: %v", state, err)
			}
			b.handedOver(t)
			lab.Await(t, "the guest to go on counting", func() bool { return b.counter(target.Name) > before })
		})
	}
}

// handedOver expects the VM on the target with its data, and no process of it at the source. There libvirt leaves
// a definition when QEMU carried on without it, which the fleet removes.
func (b *bench) handedOver(t *testing.T) {
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

// After the handover either process has a part of the guest that exists nowhere else. Without one of them the guest is
// lost: that is told, with what both hosts have, and the other part is left as it is.
func TestLab_postCopyDoesNotSurviveAQEMU(t *testing.T) {
	t.Parallel()
	for _, side := range []string{"source", "target"} {
		t.Run(side, func(t *testing.T) {
			t.Parallel()
			l := lab.Open(t)
			source, target := l.StartHost(t), l.StartHost(t)
			b := newBenchOn(t, l, source, target, "dirty=32")
			dying := map[string]*lab.Host{"source": source, "target": target}[side]
			state, err := b.postCopy(t, Options{}, func() { b.killQEMU(t, dying) })
			failed, ok := errors.AsType[*FailedError](err)
			if !errors.Is(err, ErrIrrecoverable) || !ok || !state.Failed || state.FailurePlane != PlaneData ||
				!strings.Contains(failed.Where, source.Name) || !strings.Contains(failed.Where, target.Name) ||
				!strings.Contains(failed.Where, "(PostcopyFailed)") || !strings.Contains(err.Error(), side+" is gone") {
				t.Errorf("state %+v: %v", state, err)
			}
			for _, h := range []*libvirt.Host{b.source, b.target} {
				d, err := h.Domain(t.Context(), b.machine.UUID)
				if lost := h.Name() == dying.Name; lost == (err == nil && d.Active()) {
					t.Errorf("on %s, where it was killed (%v): %+v, %v", h.Name(), lost, d, err)
				}
			}
		})
	}
}
