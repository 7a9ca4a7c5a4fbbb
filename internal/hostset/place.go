package hostset

import (
	"context"
	"errors"
	"fmt"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// ErrOtherHost says that a host's name leads to another host than before.
var ErrOtherHost = errors.New("another host has its name")

// Place is where an object was last.
type Place struct {
	// Host is the name that the host had.
	Host string
	// UUID is libvirt's UUID of the host, by which it is known whatever its name is. It is "" if it isn't known.
	UUID string
}

// UUID returns libvirt's UUID of the host: "" for libvirt's test driver, all of whose hosts have the same one.
func (h Host) UUID(ctx context.Context) (string, error) {
	if !h.Conn.HasFiles() {
		return "", nil
	}
	info, err := h.Conn.Info(ctx)
	if err != nil {
		return "", err
	}
	return info.UUID, nil
}

// Locate returns the name that the host of a place has now. It is the former name if that is fenced, if the place has
// no UUID, and if no host has its UUID because the name isn't configured any more. ErrOtherHost says that the name
// leads to another host, and that no host that answers is the former one; another error, that the host of that name
// can't be asked.
func (s Set) Locate(ctx context.Context, at Place) (name string, err error) {
	h, configured := s.Host(at.Host)
	if at.UUID == "" || h.Fenced {
		return at.Host, nil
	}
	var uuid string
	if configured {
		uuid, err = h.UUID(ctx)
	}
	if err == nil && uuid == at.UUID {
		return at.Host, nil
	}
	others := s.Without(at.Host)
	for _, a := range Found(Ask(ctx, others, func(ctx context.Context, h *libvirt.Host) (*string, error) {
		uuid, err := Host{Conn: h}.UUID(ctx)
		return &uuid, err
	})) {
		if *a.Value == at.UUID {
			return a.Host, nil
		}
	}
	if configured && err == nil {
		err = fmt.Errorf("%w: hosts.%s led to the host with UUID %s, and now leads to the one with UUID %s. No other "+
			"configured host that answers has the former UUID", ErrOtherHost, at.Host, at.UUID, uuid)
	}
	return at.Host, err
}
