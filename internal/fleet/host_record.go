package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/eviction"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

const (
	// recordUsage is the usage id of the secret that holds a host's record: the one place where libvirt keeps something
	// for us that belongs to no domain.
	recordUsage = "virtfleet:host-record"
	// recordVersion is the version of the document that this program writes.
	recordVersion = 1
)

// HostRecord is what only we know about a host. It is kept there, so that all
// who run this program see the same.
type HostRecord struct {
	// Cordon keeps machines from coming to the host. Nil: they may come.
	Cordon *Cordon `json:"cordon,omitempty"`
	// EvictionPolicies say how machines are evicted, MigrationPolicies how they are
	// moved. Every host has all of them.
	EvictionPolicies  []eviction.Policy  `json:"eviction_policies,omitempty"`
	MigrationPolicies []migration.Policy `json:"migration_policies,omitempty"`
	// PolicyHosts are the names of all hosts that were given policies, as far as is
	// known: one that is not configured any more when a policy is removed has it still.
	PolicyHosts []string `json:"policy_hosts,omitempty"`
	// Removed are the ids of policies that were removed while hosts could not be
	// asked, each with the names of those hosts: their copies don't count.
	Removed map[string][]string `json:"removed_policies,omitempty"`
	// Evacuation is what was, or is to be, taken away from the host. Nil: nothing.
	Evacuation *Evacuation `json:"evacuation,omitempty"`
	// Elsewhere are the finished evacuations of other hosts, by their names: those
	// may be off now, and can't tell.
	Elsewhere map[string]*Evacuation `json:"elsewhere,omitempty"`
}

// Cordon is the mark of a host that takes no machines, whoever places or moves
// them.
type Cordon struct {
	// ID tells whose mark it is; only who knows it removes it. Owner is the
	// same for people.
	ID    string    `json:"id"`
	Owner string    `json:"owner"`
	Since time.Time `json:"since"`
	// Why is a sentence without a full stop.
	Why string `json:"why"`
}

// Under says that the host is under the maintenance with that id, or that this
// one has ended without having undone all that it did.
func (r HostRecord) Under(id string) bool {
	return r.Cordon != nil && r.Cordon.ID == id || r.Cordon == nil && r.Evacuation != nil && r.Evacuation.Releasing == id
}

func (r HostRecord) empty() bool {
	return r.Cordon == nil && len(r.EvictionPolicies) == 0 && len(r.MigrationPolicies) == 0 && r.Evacuation == nil &&
		len(r.Elsewhere) == 0 && len(r.Removed) == 0
}

// recordCell is a view's record, which is read when it is first asked for.
type recordCell struct {
	mu     sync.Mutex
	record *HostRecord
}

// recordOf is the record of a host that answered, as of the snapshot. Nobody may
// change what it returns.
func (a answer) recordOf(ctx context.Context) (*HostRecord, error) {
	a.view.record.mu.Lock()
	defer a.view.record.mu.Unlock()

	if a.view.record.record == nil {
		record, _, err := readRecord(ctx, a.host)
		if err != nil {
			return nil, err
		}

		a.view.record.record = record
	}

	return a.view.record.record, nil
}

// readRecord reads a host's record, and the secret that it is in, which is nil
// where there is none.
func readRecord(ctx context.Context, h *host) (*HostRecord, *libvirt.Secret, error) {
	secret, err := h.conn.Secret(ctx, recordUsage)

	switch {
	case isNotFound(err), errors.Is(err, ErrUnsupported):
		return &HostRecord{}, nil, nil
	case err != nil:
		return nil, nil, err
	case len(secret.Value) == 0: // Its writer was killed before it wrote.
		return &HostRecord{}, secret, nil
	}

	document, err := decodeRecord(secret.Value)
	if err != nil {
		return nil, nil, recordError(h, "can't be read", err)
	}

	if document.Version > recordVersion {
		return nil, nil, recordError(h, "was written by a newer version of virtfleet", nil)
	}

	return &document.HostRecord, secret, nil
}

func recordError(h *host, what string, err error) error {
	return &Error{
		Host: h.name, Kind: ErrInvalid, Err: err,
		Detail: fmt.Sprintf("the record that virtfleet keeps on host %q (libvirt secret %s) %s", h.name, recordUsage, what),
		Remedy: "Update virtfleet; or remove the record with virsh secret-undefine on the host, which uncordons it. " +
			"Policies are written again by the next apply.",
	}
}

// changeRecord reads a host's record, lets change change it and writes it back.
// A lock keeps others from doing so meanwhile. A record that says nothing is
// removed.
func (f *Fleet) changeRecord(ctx context.Context, h *host, change func(*HostRecord) error) error {
	ctx, unlock, err := f.lockOn(ctx, h, "host-record", "changing the record of")
	if err != nil {
		return err
	}
	defer unlock()

	record, secret, err := readRecord(ctx, h)
	if err != nil {
		return err
	}

	if err := change(record); err != nil {
		return err
	}

	value, omitted, err := encodeRecord(*record, recordLimit)

	switch {
	case errors.Is(err, errTooLong):
		return record.tooLong(h.name)
	case err != nil:
		return fmt.Errorf("encoding the record of host %q: %w", h.name, err)
	case omitted != "":
		f.log.WarnContext(ctx, "record of the host is abridged, as libvirt takes no longer one", "host", h.name,
			"omitted", omitted)
	}

	switch {
	case record.empty() && secret == nil:
	case record.empty():
		err = h.conn.UndefineSecret(ctx, *secret)
	case secret == nil:
		err = h.conn.DefineSecret(ctx, libvirt.Secret{
			UUID: uuid.NewString(), UsageID: recordUsage, Value: value,
			Description: "virtfleet: what is to be known of this host",
		})
	default:
		secret.Value = value
		err = h.conn.SetSecretValue(ctx, *secret)
	}

	if err != nil {
		return fmt.Errorf("writing the record: %w", err)
	}

	h.forgetRecord()

	return nil
}

// forgetRecord makes the next reader ask for the record again.
func (h *host) forgetRecord() {
	h.mu.Lock()
	defer h.mu.Unlock()

	// Who waits for a loading may read the record as soon as it is there.
	h.loading = nil

	if h.view != nil {
		next := *h.view
		next.record = &recordCell{}
		h.view = &next
	}
}

// Record is what is recorded on the host, as of the snapshot.
func (f *Fleet) Record(ctx context.Context, name string) (HostRecord, error) {
	h, err := f.targetHost(name)
	if err != nil {
		return HostRecord{}, err
	}

	a, err := f.answerOf(ctx, h)
	if err != nil {
		return HostRecord{}, err
	}

	record, err := a.recordOf(ctx)
	if err != nil {
		return HostRecord{}, err
	}

	return HostRecord{
		Cordon: record.Cordon, EvictionPolicies: slices.Clone(record.EvictionPolicies),
		MigrationPolicies: slices.Clone(record.MigrationPolicies), Evacuation: record.Evacuation,
	}, nil
}
