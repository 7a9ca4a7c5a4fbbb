package move

import (
	"context"
	"encoding/json"
	"path"
	"slices"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
)

// noteArriving records on the target which files the move is about to make there: if the source is lost in the middle,
// with its record, no other VM is created from half a disk.
func (m *move) noteArriving(ctx context.Context) error {
	info, err := m.to.Conn.Info(ctx)
	if err != nil {
		return err
	}

	files := inventory.ArrivingFiles{VM: m.vm.Name, From: m.from.Name, Began: time.Now().UTC()}
	for _, c := range m.vm.CopiesOn(info.UUID) {
		files.Paths = append(files.Paths, path.Clean(c.Path))
	}

	text, err := json.Marshal(files)
	if err != nil {
		return err
	}

	m.arriving = true

	return inventory.ArrivalOf(m.vm.UUID).Begin(ctx, m.to.Conn, string(text))
}

// endArriving removes that record once the VM is on the target, or nothing of it is left there.
func (m *move) endArriving(ctx context.Context, now *inventory.VM) {
	if !m.arriving || now.Migrating || now.BrokeInPostCopy() {
		return
	}

	left := slices.ContainsFunc(now.Metadata.Copies, func(c domain.Copy) bool { return c.HostUUID == m.record.TargetUUID })
	if now.On == m.to || !left {
		m.mover.EndArriving(ctx, m.to, now)
	}
}

// EndArriving removes the record that the VM's files are being copied to the host. A record that stays only keeps
// other VMs from using these files.
func (cl *Cleanup) EndArriving(ctx context.Context, h *inventory.Host, vm *inventory.VM) {
	if err := inventory.ArrivalOf(vm.UUID).End(ctx, h.Conn); err != nil {
		cl.log.WarnContext(ctx, "the record that files are being copied was not removed", "name", vm.Name, "host", h.Name,
			"error", err.Error())
	}
}
