package libvirt

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/digitalocean/go-qemu/qmp"
	golibvirt "libvirt.org/go/libvirt"
)

// QMPResult is what a QMP command returned.
type QMPResult = json.RawMessage

// QMPError is QEMU's refusal of a QMP command.
type QMPError struct{ Class, Description string }

// Error returns QEMU's text.
func (e *QMPError) Error() string { return "QEMU: " + e.Description }

// QMP runs a QMP command (virDomainQemuMonitorCommand). The arguments are marshalled to JSON; nil means none. It marks
// the domain as tainted, so it is for what libvirt has no call for, and a plan must not use it. QEMU's refusals are
// *QMPError and ErrInternal. It is for commands that QEMU answers at once: the error is ErrBusy for a QEMU that doesn't
// answer, whatever deadline the caller has.
func (h *Host) QMP(ctx context.Context, uuid, execute string, arguments any) (QMPResult, error) {
	s := changeCall("running " + execute + " in QEMU for domain " + uuid)
	s.patient, s.timeout = false, readTimeout
	command, err := json.Marshal(qmp.Command{Execute: execute, Args: arguments})
	if err != nil {
		return nil, h.wrap(s, fmt.Errorf("%w arguments: %w", ErrInvalid, err), false)
	}
	return onDomain(ctx, h, s, uuid, func(c *conn, d *golibvirt.Domain) (QMPResult, error) {
		return runQMP(&monitor{conn: c, domain: d}, command)
	})
}

// MigrationBlockers asks QEMU what prevents a running domain from being migrated (query-migrate), and returns QEMU's
// texts. QEMU reports devices and features that can't be migrated from version 6.0 on; earlier versions report none. It
// uses QMP, and taints the domain.
func (h *Host) MigrationBlockers(ctx context.Context, uuid string) ([]string, error) {
	info, err := h.queryMigrate(ctx, uuid)
	return info.Reasons, err
}

// The states of a migration, in QEMU's words at the source, that show whether a migration that libvirt considers broken
// is broken.
const (
	// MigrationPostCopyPaused says that the migration has lost its connection in post-copy, and waits to be resumed.
	MigrationPostCopyPaused = "postcopy-paused"
	// MigrationFailed says that the migration has failed for good.
	MigrationFailed = "failed"
)

// MigrationStatus asks QEMU at the source for the state of the outgoing migration (query-migrate), in QEMU's words; ""
// if there was none. It uses QMP, and taints the domain; on the target it waits until the migration is over.
func (h *Host) MigrationStatus(ctx context.Context, uuid string) (string, error) {
	info, err := h.queryMigrate(ctx, uuid)
	return info.Status, err
}

// migrationInfo is QEMU's answer to query-migrate.
type migrationInfo struct {
	Status  string   `json:"status"`
	Reasons []string `json:"blocked-reasons"`
}

func (h *Host) queryMigrate(ctx context.Context, uuid string) (migrationInfo, error) {
	var info migrationInfo
	result, err := h.QMP(ctx, uuid, "query-migrate", nil)
	if err != nil {
		return info, err
	}
	if err := json.Unmarshal(result, &info); err != nil {
		s := changeCall("asking QEMU about the migration of domain " + uuid)
		return info, h.wrap(s, fmt.Errorf("%w: QEMU's answer can't be read: %w", ErrInternal, err), false)
	}
	return info, nil
}

// runQMP runs a command and distinguishes its result from QEMU's refusal.
func runQMP(m qmp.Monitor, command []byte) (QMPResult, error) {
	answer, err := m.Run(command)
	if err != nil {
		return nil, err
	}
	var response struct {
		Return QMPResult `json:"return"`
		Error  *struct {
			Class string `json:"class"`
			Desc  string `json:"desc"`
		} `json:"error"`
	}
	if err := json.Unmarshal(answer, &response); err != nil {
		return nil, fmt.Errorf("%w: QEMU's answer can't be read: %w", ErrInternal, err)
	}
	if response.Error != nil {
		return nil, fmt.Errorf("%w: %w", ErrInternal,
			&QMPError{Class: response.Error.Class, Description: response.Error.Desc})
	}
	return response.Return, nil
}

// monitor is a QMP monitor that reaches QEMU through libvirt, during one call.
type monitor struct {
	conn   *conn
	domain *golibvirt.Domain
}

var _ qmp.Monitor = (*monitor)(nil)

// Connect does nothing: libvirt is connected to QEMU.
func (m *monitor) Connect() error { return nil }

// Disconnect does nothing.
func (m *monitor) Disconnect() error { return nil }

// Run sends a command and returns QEMU's answer.
func (m *monitor) Run(command []byte) ([]byte, error) {
	m.conn.countCall("virDomainQemuMonitorCommand")
	answer, err := m.domain.QemuMonitorCommand(string(command), golibvirt.DOMAIN_QEMU_MONITOR_COMMAND_DEFAULT)
	return []byte(answer), err
}

// Events isn't supported: Host.Subscribe delivers libvirt's own.
func (m *monitor) Events(context.Context) (<-chan qmp.Event, error) {
	return nil, qmp.ErrEventsNotSupported
}
