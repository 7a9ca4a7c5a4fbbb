package records

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/hostset"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// ErrMovedAway means that a VM was moved to a host that isn't configured, so it is not gone.
var ErrMovedAway = fmt.Errorf("%w: it was moved to another one", inventory.ErrUnconfigured)

// movedAwayUsage is the beginning of the usage id of such a record; the UUID of the VM follows.
const movedAwayUsage = "virtfleet:moved:"

// A host keeps the records of the last movedAwayMost VMs that left it. If there are more, the movedAwayDropped oldest
// are removed at once, because each has to be read for that.
const (
	movedAwayMost    = 1000
	movedAwayDropped = 100
)

// movedAway is what a host keeps of a VM that a move brings to another host. A configuration that has this host and not
// the other one finds the VM nowhere: without the record, it would count as gone, and be created a second time.
type movedAway struct {
	VM string `json:"vm"`
	// To and Hostname are the target's name in the configuration of the run that moved the VM, and its own name.
	To       string    `json:"to"`
	Hostname string    `json:"hostname,omitempty"`
	ToUUID   string    `json:"to_uuid"`
	Began    time.Time `json:"began"`
}

func movedAwayNote(uuid string) hostset.Note {
	return hostset.Note{UsageID: movedAwayUsage + uuid, Description: "virtfleet: a VM was moved to another host"}
}

// NoteMove records on the VM's host that the VM is being moved to another one. It has to be written before the VM can
// be gone. While the host has the VM, the record doesn't count.
func (s *Store) NoteMove(ctx context.Context, vm *inventory.VM, to *inventory.Host) error {
	target, err := to.Conn.Info(ctx)
	if err != nil {
		return err
	}

	text, err := json.Marshal(movedAway{
		VM: vm.Name, To: to.Name, Hostname: target.Hostname, ToUUID: target.UUID, Began: time.Now().UTC(),
	})
	if err != nil {
		return err
	}

	if err := movedAwayNote(vm.UUID).Write(ctx, vm.On.Conn, string(text)); err != nil {
		return err
	}

	if err := dropOldMoves(ctx, vm.On, movedAwayMost, movedAwayDropped); err != nil {
		s.log.WarnContext(ctx, "records of VMs that were moved away were not removed", "host", vm.Host, "error", err.Error())
	}

	return nil
}

// dropOldMoves removes the oldest records of a host that has more than most. It leaves dropped fewer than that.
func dropOldMoves(ctx context.Context, h *inventory.Host, most, dropped int) error {
	ids, err := h.Conn.OwnSecretIDs(ctx, movedAwayUsage)
	if err != nil || len(ids) <= most {
		return ignoreUnsupported(err)
	}

	began := make(map[string]time.Time, len(ids))

	for _, id := range ids {
		record, err := readMove(ctx, h, strings.TrimPrefix(id, movedAwayUsage))
		if err != nil {
			return err
		}

		if record != nil {
			began[id] = record.Began
		}
	}

	// Another run may just have begun to write a record that can't be read.
	ids = slices.SortedFunc(maps.Keys(began), func(a, b string) int { return began[a].Compare(began[b]) })
	if len(ids) <= most {
		return nil
	}

	for _, id := range ids[:len(ids)-most+dropped] {
		if err := movedAwayNote(strings.TrimPrefix(id, movedAwayUsage)).Remove(ctx, h.Conn); err != nil {
			return err
		}
	}

	return nil
}

func ignoreUnsupported(err error) error {
	if errors.Is(err, inventory.ErrUnsupported) {
		return nil
	}

	return err
}

// readMove returns the host's record of that VM, nil if there is none, or if it can't be read. A host without a secret
// driver has none: no run moves a VM that it can't lock.
func readMove(ctx context.Context, h *inventory.Host, uuid string) (*movedAway, error) {
	text, err := movedAwayNote(uuid).Read(ctx, h.Conn)
	if errors.Is(err, libvirt.ErrNoSecretDriver) {
		return nil, nil //nolint:nilnil // No record is not an error.
	}

	if err != nil || text == "" {
		return nil, err
	}

	var record movedAway
	if err := json.Unmarshal([]byte(text), &record); err != nil {
		return nil, nil //nolint:nilerr,nilnil // Its writer was killed, or it is of a newer version.
	}

	return &record, nil
}

// ForgetMove removes the record that the VM was moved away from a host that has the VM. A record that stays doesn't
// count as long as the host has it.
func (s *Store) ForgetMove(ctx context.Context, vm *inventory.VM) { s.forgetMoveOn(ctx, vm.On, vm) }

func (s *Store) forgetMoveOn(ctx context.Context, h *inventory.Host, vm *inventory.VM) {
	err := movedAwayNote(vm.UUID).Remove(ctx, h.Conn)
	if err != nil && !errors.Is(err, libvirt.ErrNoSecretDriver) {
		s.log.WarnContext(ctx, "the record that a VM was moved away was not removed", "name", vm.Name, "host", h.Name,
			"error", err.Error())
	}
}

// ForgetMoves removes what hosts keep of the moves of a VM that is deleted: on its host, and on those that its last
// moves left. It asks no host about a VM that has not moved.
func (s *Store) ForgetMoves(ctx context.Context, vm *inventory.VM) {
	if !vm.HasMoved() {
		return
	}

	for _, h := range s.hosts.Present() {
		if h == vm.On || !slices.Contains(vm.SilentHosts, h.Name) && hasLeft(ctx, vm, h) {
			s.forgetMoveOn(ctx, h, vm)
		}
	}
}

// hasLeft says whether one of the VM's last moves left the host. Another configuration may give the host another name,
// so that the name counts only if no UUID is recorded.
func hasLeft(ctx context.Context, vm *inventory.VM, h *inventory.Host) bool {
	info, err := h.Conn.Info(ctx)

	return slices.ContainsFunc(vm.Metadata.Migrations, func(m domain.Migration) bool {
		if m.SourceUUID == "" {
			return m.SourceHost == h.Name
		}

		return err == nil && m.SourceUUID == info.UUID
	})
}

// VerifyNotMoved returns ErrMovedAway if a VM that no host has was moved to a host that isn't configured, as far as a
// host knows. name is the VM's, "" if it isn't known. last is where the VM was last seen. Of several such moves, the
// last counts. A move to a host that is fenced by now doesn't count.
func (s *Store) VerifyNotMoved(ctx context.Context, uuid, name string, last inventory.LastKnown) error {
	var (
		latest     *movedAway
		from       string
		configured = map[string]bool{}
	)

	for _, h := range s.hosts.Configured {
		if h.Config.Fenced {
			continue
		}

		info, err := h.Conn.Info(ctx)
		if err != nil {
			return err
		}

		configured[info.UUID] = true
	}

	for _, h := range s.hosts.Present() {
		record, err := readMove(ctx, h, uuid)
		if err != nil {
			return err
		}

		if record == nil || configured[record.ToUUID] || s.isFenced(record, last) ||
			latest != nil && latest.Began.After(record.Began) {
			continue
		}

		latest, from = record, h.Name
	}

	if latest == nil {
		return nil
	}

	return latest.failed(uuid, name, from)
}

// isFenced says whether the target of the record is a fenced host, which is asked nothing: it may be the target under
// the same name, or under the name by which the VM was last seen there.
func (s *Store) isFenced(record *movedAway, last inventory.LastKnown) bool {
	named, seen := s.hosts.Host(record.To), s.hosts.Host(last.Host)

	return named != nil && named.Config.Fenced ||
		seen != nil && seen.Config.Fenced && last.HostUUID != "" && last.HostUUID == record.ToUUID
}

func (m *movedAway) failed(uuid, name, from string) error {
	if name == "" {
		name = m.VM
	}

	called := ""
	if m.Hostname != "" && m.Hostname != m.To {
		called = fmt.Sprintf("host name %s, ", m.Hostname)
	}

	return &inventory.Error{
		VM: name, Host: from, Kind: ErrMovedAway,
		Detail: fmt.Sprintf("it (UUID %s) was moved from host %q to host %q (%sUUID %s) at %s, and that host is not among "+
			"the configured hosts", uuid, from, m.To, called, m.ToUUID, m.Began.Format(time.RFC3339)),
	}
}
