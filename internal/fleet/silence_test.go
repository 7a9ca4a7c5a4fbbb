package fleet

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
)

// A host that is down is asked once per operation, however often the fleet is asked for the VM.
func TestWithVMLocked_asksASilentHostOnce(t *testing.T) {
	t.Parallel()

	var dials atomic.Int32

	f := openFleet(t, Config{Hosts: map[string]inventory.HostConfig{
		"up": {URI: "test:///default"},
		"down": {
			URI: "qemu+ssh://down/system", ConnectTimeout: 50 * time.Millisecond,
			Dial: func(context.Context, string) (net.Conn, error) {
				dials.Add(1)

				return nil, errors.New("no route to host")
			},
		},
	}})

	// One question may try several sockets.
	if _, err := f.Host("down").Conn.Info(t.Context()); !errors.Is(err, inventory.ErrUnreachable) {
		t.Fatal(err)
	}

	once := dials.Load()

	vm, err := f.FindByName(t.Context(), "test")
	if err != nil {
		t.Fatal(err)
	}

	operate := func() {
		t.Helper()

		before := dials.Load()

		err := f.WithVMLocked(t.Context(), vm.UUID, lastOf(vm), "testing", func(ctx context.Context, vm *inventory.VM) error {
			_, err := f.FindNow(ctx, vm.UUID, lastOf(vm))

			return err
		})
		if err != nil {
			t.Fatal(err)
		}

		if n := dials.Load() - before; n != once {
			t.Errorf("it was dialled %d times, and one question dials %d times", n, once)
		}
	}

	operate()
	operate() // Another operation asks again: it may be back.
}
