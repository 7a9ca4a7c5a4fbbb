package records

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/hostrecord"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// ErrMaybeWritten means that no answer came to the call that writes a host's record. It may be written, or be written
// soon: reading it again doesn't tell.
var ErrMaybeWritten = errors.New("whether the host's record was written is not known")

// ChangeRecord reads a host's record, calls change with it and writes it back, under a lock against other runs. A
// record that is empty afterwards is removed. See ErrMaybeWritten.
func (s *Store) ChangeRecord(ctx context.Context, h *inventory.Host, change func(*hostrecord.Record) error) error {
	ctx, unlock, err := s.Lock(ctx, h, "host-record", "changing the record of")
	if err != nil {
		return err
	}
	defer unlock()

	record, secret, err := inventory.ReadRecord(ctx, h)
	if err != nil {
		return err
	}

	if err := change(record); err != nil {
		return err
	}

	value, omitted, err := hostrecord.Encode(*record, hostrecord.Limit)

	switch {
	case errors.Is(err, hostrecord.ErrTooLong):
		return &inventory.Error{
			Host: h.Name, Kind: inventory.ErrInvalid, Err: err,
			Detail: fmt.Sprintf("what is to be recorded on host %q (%s) is longer than the %d KiB that libvirt keeps", h.Name,
				record.Size(), hostrecord.Limit>>10),
			Remedy: "Have fewer or shorter policies, or move some of the host's VMs away before it is drained.",
		}
	case err != nil:
		return fmt.Errorf("encoding the record of host %q: %w", h.Name, err)
	case omitted != "":
		s.log.WarnContext(ctx, "record of the host is abridged, as libvirt takes no longer one", "host", h.Name,
			"omitted", omitted)
	}

	switch {
	case record.Empty() && secret == nil:
	case record.Empty():
		err = h.Conn.UndefineOwnSecret(ctx, *secret)
	case secret == nil:
		err = h.Conn.DefineOwnSecret(ctx, libvirt.OwnSecret{
			UUID: uuid.NewString(), UsageID: inventory.RecordUsage, Value: value,
			Description: "virtfleet: what is to be known of this host",
		})
	default:
		secret.Value = value
		err = h.Conn.SetOwnSecretValue(ctx, *secret)
	}

	h.ForgetRecord()

	switch {
	case err == nil:
		return nil
	case inventory.Refused(err):
		return fmt.Errorf("writing the record: %w", err)
	default:
		return fmt.Errorf("%w: %w", ErrMaybeWritten, err)
	}
}

// Record returns the host's record, as of the snapshot.
func (s *Store) Record(ctx context.Context, name string) (hostrecord.Record, error) {
	h, err := s.hosts.UsableHost(name)
	if err != nil {
		return hostrecord.Record{}, err
	}

	record, err := s.recordOf(ctx, h)
	if err != nil {
		return hostrecord.Record{}, err
	}

	return hostrecord.Record{
		Cordon: record.Cordon, EvictionPolicies: slices.Clone(record.EvictionPolicies),
		MigrationPolicies: slices.Clone(record.MigrationPolicies), Evacuation: record.Evacuation,
	}, nil
}

// recordOf returns the host's record, as of the snapshot. Callers must not change it.
func (s *Store) recordOf(ctx context.Context, h *inventory.Host) (*hostrecord.Record, error) {
	a, err := s.hosts.ReplyOf(ctx, h)
	if err != nil {
		return nil, err
	}

	return a.RecordOf(ctx)
}

// HostUnder returns the name of the host that is under the maintenance with this id, as of the snapshot; "" if no host
// that answers is. A maintenance is of a host, whatever name the provider's hosts give it. unread are the hosts that
// did not answer, or whose record can't be read: one of them may be that host.
func (s *Store) HostUnder(ctx context.Context, id string) (name string, unread []string, err error) {
	all, err := s.Records(ctx)
	if err != nil {
		return "", nil, err
	}

	name, unread = hostUnder(all, id)

	return name, unread, nil
}

func hostUnder(all []Recording, id string) (name string, unread []string) {
	for _, r := range all {
		switch {
		case r.Err != nil:
			unread = append(unread, r.Host.Name)
		case r.Record.Under(id):
			name = r.Host.Name
		}
	}

	return name, unread
}
