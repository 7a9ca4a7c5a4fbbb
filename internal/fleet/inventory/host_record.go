package inventory

import (
	"context"
	"errors"
	"fmt"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/hostrecord"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// RecordUsage is the usage id of the secret that holds a host's record. A secret is the only object in which libvirt
// keeps data of the provider that belongs to no domain.
const RecordUsage = "virtfleet:host-record"

// RecordOf returns the record of a host that answered, as of the snapshot. If it could not be read together with the
// view, it is read when it is first needed. Callers must not change it.
func (a Reply) RecordOf(ctx context.Context) (*hostrecord.Record, error) {
	return a.View.recordOf(ctx, a.Host)
}

func (v *View) recordOf(ctx context.Context, h *Host) (*hostrecord.Record, error) {
	return v.record.get(ctx, "", func(ctx context.Context) (*hostrecord.Record, error) {
		record, _, err := ReadRecord(ctx, h)

		return record, err
	})
}

// RecordIfAny is RecordOf for a host that may not have answered.
func (a Reply) RecordIfAny(ctx context.Context) (*hostrecord.Record, error) {
	if a.Err != nil {
		return nil, a.Err
	}

	return a.RecordOf(ctx)
}

// ReadRecord reads a host's record and returns it with its secret, which is nil if there is none.
func ReadRecord(ctx context.Context, h *Host) (*hostrecord.Record, *libvirt.OwnSecret, error) {
	secret, err := h.Conn.OwnSecret(ctx, RecordUsage)

	switch {
	case IsNotFound(err), errors.Is(err, ErrUnsupported):
		return &hostrecord.Record{}, nil, nil
	case err != nil:
		return nil, nil, err
	case len(secret.Value) == 0: // its writer was killed before it wrote the value
		return &hostrecord.Record{}, secret, nil
	}

	record, err := hostrecord.Decode(secret.Value)

	switch {
	case errors.Is(err, hostrecord.ErrNewer):
		return nil, nil, recordError(h, "was written by a newer version of virtfleet", nil)
	case err != nil:
		return nil, nil, recordError(h, "can't be read", err)
	}

	return &record, secret, nil
}

func recordError(h *Host, what string, err error) error {
	return &Error{
		Host: h.Name, Kind: ErrInvalid, Err: err,
		Detail: fmt.Sprintf("the record that virtfleet keeps on host %q (libvirt secret %s) %s", h.Name, RecordUsage, what),
		Remedy: "Update virtfleet. Or remove the record, which uncordons the host: find its UUID with \"virsh " +
			"secret-list\", and run \"virsh secret-undefine <UUID>\". " +
			"The next run writes policies again, and cordons a host under maintenance again.",
	}
}

// ForgetCordon makes the next reader read the record again if the host was cordoned when it was last read: a drain
// writes there how far it is, of which no event tells. It leaves a reading that is running alone.
func (h *Host) ForgetCordon() {
	h.mu.Lock()
	v := h.view
	h.mu.Unlock()

	if v == nil {
		return
	}

	if record, is := v.record.seen(""); !is || record.Cordon == nil {
		return
	}

	h.mu.Lock()
	defer h.mu.Unlock()

	if h.view == v {
		next := *v
		next.record = &asked[*hostrecord.Record]{}
		h.view = &next
	}
}

// ForgetRecord makes the next reader read the record from the host again.
func (h *Host) ForgetRecord() {
	h.mu.Lock()
	defer h.mu.Unlock()

	// A reader that waits for the present reading would get a view that may have the old record.
	h.loading = nil

	if h.view != nil {
		next := *h.view
		next.record = &asked[*hostrecord.Record]{}
		h.view = &next
	}
}
