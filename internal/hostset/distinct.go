package hostset

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// ErrDuplicateHost says that two names lead to one host.
var ErrDuplicateHost = errors.New("two configured hosts are one")

// Known are libvirt's UUIDs of hosts by their names. Each host is asked once, also if it doesn't answer.
type Known struct {
	mu    sync.Mutex
	uuids map[string]func() string
}

// Distinct returns ErrDuplicateHost if two names of the set lead to one host: what is created under one of them would
// be removed under the other. A host that doesn't answer is left out.
func (k *Known) Distinct(ctx context.Context, s Set) error {
	names := map[string]string{}
	for _, a := range Found(Ask(ctx, s, func(ctx context.Context, h *libvirt.Host) (*string, error) {
		uuid := k.uuid(ctx, h)
		return &uuid, nil
	})) {
		if other, taken := names[*a.Value]; taken && *a.Value != "" {
			return fmt.Errorf("%w: hosts %q and %q are the same host (UUID %s)", ErrDuplicateHost, other, a.Host, *a.Value)
		}
		names[*a.Value] = a.Host
	}
	return nil
}

// uuid returns the UUID of a host, and "" if it doesn't answer.
func (k *Known) uuid(ctx context.Context, h *libvirt.Host) string {
	k.mu.Lock()
	if k.uuids == nil {
		k.uuids = map[string]func() string{}
	}
	ask, asked := k.uuids[h.Name()]
	if !asked {
		ask = sync.OnceValue(func() string {
			uuid, err := Host{Conn: h}.UUID(ctx)
			if err != nil {
				return ""
			}
			return uuid
		})
		k.uuids[h.Name()] = ask
	}
	k.mu.Unlock()
	return ask()
}
