package hostset

import (
	"context"
	"errors"
	"strings"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// Creation is the record on a host that a run is creating an object there. It is written before the object is created,
// and removed when the object is complete. So if it is there and no run is at work, a run was killed, and an object
// that has what the record says is that run's. The record is a libvirt secret.
type Creation struct {
	// Kind and Name are those of the object: "network", "lan".
	Kind, Name string
}

// UsageID is the usage of the secret, by which "virsh secret-list" shows it.
func (c Creation) UsageID() string { return "virtfleet:creating:" + c.Kind + ":" + c.Name }

// Creating returns the names of the objects of a kind of which a run records on the host that it is creating them.
func Creating(ctx context.Context, h *libvirt.Host, kind string) ([]string, error) {
	prefix := Creation{Kind: kind}.UsageID()
	names, err := h.OwnSecretIDs(ctx, prefix)
	if errors.Is(err, libvirt.ErrUnsupported) {
		return nil, nil // There, no run records anything.
	}
	for i := range names {
		names[i] = strings.TrimPrefix(names[i], prefix)
	}
	return names, err
}

func (c Creation) note() Note {
	return Note{UsageID: c.UsageID(), Description: "virtfleet is creating " + c.Kind + " " + c.Name}
}

// Begun returns what Begin recorded about the object, and "" if there is no record.
func (c Creation) Begun(ctx context.Context, h *libvirt.Host) (string, error) {
	return c.note().Read(ctx, h)
}

// Begin records how the object that is about to be created can be recognized. libvirt's test driver gets no record:
// what a run creates there ends with its process.
func (c Creation) Begin(ctx context.Context, h *libvirt.Host, object string) error {
	return c.note().Write(ctx, h, object)
}

// End removes the record.
func (c Creation) End(ctx context.Context, h *libvirt.Host) error { return c.note().Remove(ctx, h) }
