package migration

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// during migrates slowly and has harm done when memory is on its way.
func (b *bench) during(t *testing.T, o Options, harm func()) (State, error) {
	t.Helper()
	o.Bandwidth = new(uint64(slow))
	var once sync.Once
	var harming sync.WaitGroup
	defer harming.Wait()
	return b.run(t.Context(), t, o, func(s State) {
		if s.Phase == PhaseRunning && s.Statistics.Data.Processed > 0 {
			once.Do(func() { harming.Go(harm) })
		}
	})
}

// killQEMU kills the VM's process on a host.
func (b *bench) killQEMU(t *testing.T, h *lab.Host) {
	t.Helper()
	b.lab.Run(t, h.Name, "sh", "-c", fmt.Sprintf("kill -KILL $(cat /run/libvirt/qemu/%s.pid)", b.machine.Name))
}

// Whatever breaks while memory is copied, the VM continues at its source and nothing is left on the target. Only if
// its own process dies it is off, and nothing runs on the target either.
func TestLab_faultBeforeSwitchoverLeavesTheVMAlone(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	source, target := l.StartHost(t), l.StartHost(t)
	b := newBenchOn(t, l, source, target, "dirty=32 data")
	b.tunnels = b.overSSH
	for _, fault := range []struct {
		name string
		o    Options
		harm func()
	}{
		{"the target's process is killed", Options{}, func() { b.killQEMU(t, target) }},
		{"the link is cut", Options{}, func() { b.cutLink(t) }},
		{"the target's libvirtd is killed", Options{}, func() { l.KillLibvirtd(t, target)() }},
		{"the source's libvirtd is killed", Options{}, func() { l.KillLibvirtd(t, source)() }},
		{"the relay's way to the target is cut", Options{Transport: TransportSSHRelay}, func() { l.StopSSH(t, target)() }},
		{"the relay's way to the source is cut", Options{Transport: TransportSSHRelay}, func() { l.StopSSH(t, source)() }},
	} {
		state, err := b.during(t, fault.o, fault.harm)
		failed, ok := errors.AsType[*FailedError](err)
		where := fmt.Sprintf("on host %q (Running)", source.Name)
		if !ok || state.FailurePlane != PlaneData || !strings.Contains(failed.Where, where) {
			t.Errorf("%s: state %+v: %v", fault.name, state, err)
		}
		lab.Await(t, "the target to notice that nothing comes any more", func() bool {
			// A libvirtd answers before it has seen to all of its guests.
			_, err := b.target.Domain(t.Context(), b.machine.UUID)
			return errors.Is(err, libvirt.ErrNotFound) || !strings.Contains(fault.name, "libvirtd")
		})
		b.runsOnlyOn(t, b.source, b.target)
		b.noSockets(t)
	}

	state, err := b.during(t, Options{}, func() { b.killQEMU(t, source) })
	failed, ok := errors.AsType[*FailedError](err)
	if !ok || !state.Failed || !strings.Contains(failed.Where, fmt.Sprintf("on host %q (Shutoff)", source.Name)) {
		t.Errorf("the source's process is killed: state %+v: %v", state, err)
	}
	if d, err := b.target.Domain(t.Context(), b.machine.UUID); !errors.Is(err, libvirt.ErrNotFound) {
		t.Errorf("on the target: %+v, %v; want nothing", d, err)
	}
	if err := b.source.StartDomain(t.Context(), b.machine.UUID); err != nil {
		t.Fatal(err)
	}
	b.intact(t, b.source)
}
