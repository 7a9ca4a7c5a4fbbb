package inventory

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// A host hangs while one caller waits for its answer. A caller that is cancelled leaves at once nevertheless, whatever
// both of them ask, and another host answers the same question. A caller that waits gets an answer once there is one.
func TestHost_silentWhileAsked(t *testing.T) {
	t.Parallel()

	for name, ask := range map[string]func(context.Context, *Inventory, *Host){
		"record": func(ctx context.Context, _ *Inventory, h *Host) {
			_, _ = Reply{Host: h, View: h.view}.RecordOf(ctx)
		},
		"stopped pools": func(ctx context.Context, _ *Inventory, h *Host) { _, _ = h.view.StoppedPools(ctx, h) },
		"volumes": func(ctx context.Context, inv *Inventory, h *Host) {
			_, _ = inv.PoolVolumes(ctx, h, "default-pool")
		},
		"mounts":           func(ctx context.Context, _ *Inventory, h *Host) { _, _, _ = h.MountTables(ctx) },
		"own networks":     func(ctx context.Context, _ *Inventory, h *Host) { _ = h.OwnNetworks(ctx) },
		"devices handed":   func(ctx context.Context, _ *Inventory, h *Host) { _ = h.HandedOut(ctx, []string{"lan"}) },
		"devices of hosts": func(ctx context.Context, _ *Inventory, h *Host) { _ = h.USBDevices(ctx) },
		"device": func(ctx context.Context, _ *Inventory, h *Host) {
			_ = h.LacksDevice(ctx, domain.HostPart{Kind: domain.PCIDevice, ID: "0000:00:00.0"})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			asked, answer := make(chan struct{}), make(chan struct{})
			hang := sync.OnceFunc(func() { close(asked) })

			// It heeds no context, as a login that a user has to confirm.
			silent := HostConfig{
				URI: "qemu+ssh://silent/system",
				Dial: func(context.Context, string) (net.Conn, error) {
					hang()
					<-answer

					return nil, errors.New("refused")
				},
				ReadEnd: func(context.Context, string, int) ([]byte, error) {
					hang()
					<-answer

					return nil, errors.New("refused")
				},
			}

			inv, err := New(map[string]HostConfig{"silent": silent, "there": {URI: "test:///default"}},
				slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}

			t.Cleanup(func() { _ = inv.Close() })

			release := sync.OnceFunc(func() { close(answer) })
			t.Cleanup(release)

			for _, h := range inv.Configured {
				h.view = NewView(&libvirt.HostInfo{}, nil)
				h.view.at = time.Now()
			}

			inTime := func(who string, ctx context.Context, host string) {
				t.Helper()

				left := make(chan struct{})

				go func() {
					defer close(left)
					ask(ctx, inv, inv.Host(host))
				}()

				select {
				case <-left:
				case <-time.After(20 * time.Second):
					t.Errorf("%s waits for the host that hangs", who)
				}
			}

			first := make(chan struct{})

			go func() {
				defer close(first)
				ask(t.Context(), inv, inv.Host("silent"))
			}()

			<-asked

			cancelled, cancel := context.WithCancel(t.Context())
			cancel()
			inTime("who is cancelled", cancelled, "silent")
			inTime("who asks another host", t.Context(), "there")

			select {
			case <-first:
				t.Error("the first has an answer from a host that hangs")
			default:
			}

			release()
			inTime("who asks later", t.Context(), "silent")
			<-first
		})
	}
}
