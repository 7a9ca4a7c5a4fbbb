package move

import (
	"context"
	"sync/atomic"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/lease"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// moveLive moves a running VM, over the connections that were opened for that.
func (m *move) moveLive(ctx context.Context, inspected migration.VM, ahead *libvirt.MigrationAhead) error {
	arrival, err := m.mover.placement.ReserveArrival(ctx, m.vm, m.to, false)
	if err != nil {
		return err
	}
	defer arrival.Release()

	if err := m.begin(ctx, migration.MethodLive); err != nil {
		return err
	}

	if err := m.clearAutostart(ctx); err != nil {
		return err
	}

	if m.vm.AgentConnected {
		m.to.Conn.ExpectAgentCall() // For the guest's clock.
	}

	var released atomic.Bool

	m.state, err = migration.Run(ctx, migration.Request{
		VM: inspected, Source: m.from.Conn, Target: m.to.Conn, Address: m.to.Config.MigrationAddress,
		PeerURI:      m.to.Config.PeerURI,
		SourceTunnel: m.from.Config.Tunnel, TargetTunnel: m.to.Config.Tunnel, Options: m.effective.Options,
		Logger: m.mover.log, Ahead: ahead,
		Starting: arrival.Verify,
		Creating: m.making,
		Created: func(ctx context.Context, s migration.State, images []string) error {
			m.copied = append(m.copied, m.vm.NotOwn(images)...)

			if err := m.made(ctx, s, images); err != nil {
				return err
			}

			return m.mover.placement.VerifyGrowth(ctx, m.vm, m.to, images)
		},
		Progress: func(s migration.State) {
			// From now on the target has the VM, and counts the VM's memory by itself.
			if s.Phase == migration.PhaseRunning && released.CompareAndSwap(false, true) {
				m.mover.background.Go(arrival.Release)
			}
		},
		Abandoned: m.noteAbandoned,
	})

	after, cancel := lease.CleanupContext(ctx, inventory.FinishTimeout)
	defer cancel()

	if err != nil {
		err = m.mover.applyOnIrrecoverable(after, m.vm.UUID, m.from, m.to, m.effective.Options, err)
		m.state.FailureReason = failureReason(m.state, err)

		return m.failure(ctx, err)
	}

	m.kept = m.keepsOriginals()
	m.restoreAutostart(after, m.to)
	m.setClock(ctx)

	return nil
}

// setClock begins to set the guest's clock on the target, for which its agent may take long.
func (m *move) setClock(ctx context.Context) {
	setting, cancel := lease.CleanupContext(ctx, inventory.FinishTimeout)
	vm := m.vm

	m.clock.Go(func() {
		defer cancel()
		m.mover.SetClock(setting, m.to, vm)
	})
}

// clearAutostart keeps the source from starting the VM at boot once the VM has left.
func (m *move) clearAutostart(ctx context.Context) error {
	if !m.vm.Autostart {
		return nil
	}

	return m.from.Conn.SetAutostart(ctx, m.vm.UUID, false)
}

// restoreAutostart sets autostart on the host that has the VM now, as it was before the move. The record has that
// setting: the VM was read again since, without it.
func (m *move) restoreAutostart(ctx context.Context, on *inventory.Host) {
	if !m.record.Autostart {
		return
	}

	if err := on.Conn.SetAutostart(ctx, m.vm.UUID, true); err != nil {
		m.mover.log.WarnContext(ctx, "autostart not set", "name", m.vm.Name, "host", on.Name, "error", err.Error())
	}
}
