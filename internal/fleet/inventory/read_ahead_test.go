package inventory

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What was read ahead is what the next reader gets, without another question. A host that didn't answer is asked again,
// and a fenced one never.
func TestInventory_ReadAhead(t *testing.T) {
	t.Parallel()

	var dialled, dialledFenced atomic.Int32

	refuse := func(n *atomic.Int32) HostConfig {
		return HostConfig{
			URI: "qemu+ssh://host/system", Fenced: n == &dialledFenced,
			Dial: func(context.Context, string) (net.Conn, error) {
				n.Add(1)

				return nil, errors.New("refused")
			},
		}
	}

	inv, err := New(map[string]HostConfig{
		"there": {URI: "test:///default"}, "silent": refuse(&dialled), "fenced": refuse(&dialledFenced),
	}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { _ = inv.Close() })

	inv.ReadAhead([]string{"there", "silent", "fenced", "not configured"})
	inv.background.Wait()

	before := inv.Calls()["there"]

	v, err := inv.ViewOf(t.Context(), inv.Host("there"))
	if err != nil || v.Err != nil || len(v.Domains) == 0 {
		t.Errorf("the host that answers: %v, %v", err, v)
	}

	if diff := cmp.Diff(before, inv.Calls()["there"]); diff != "" || before["virConnectListAllDomains"] == 0 {
		t.Errorf("reading ahead asked %v, and the reader once more:\n%s", before, diff)
	}

	if inv.Host("silent").view != nil || dialled.Load() == 0 {
		t.Errorf("the silent host was dialled %d times, and that is kept", dialled.Load())
	}

	if dialledFenced.Load() != 0 || inv.Host("fenced").view != nil {
		t.Error("the fenced host was asked")
	}
}

// A reading that the end of the run interrupts says nothing about the host, so it warns of nothing. A host that refuses
// is another matter.
func TestInventory_ReadAhead_interruptedByTheEnd(t *testing.T) {
	t.Parallel()

	for name, tt := range map[string]struct{ refuses, warns bool }{
		"the end comes first": {false, false}, "the host refuses": {true, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			var log bytes.Buffer

			dialled := make(chan struct{})
			tell := sync.OnceFunc(func() { close(dialled) })

			inv, err := New(map[string]HostConfig{"slow": {
				URI: "qemu+ssh://host/system",
				Dial: func(ctx context.Context, _ string) (net.Conn, error) {
					tell()

					if !tt.refuses {
						<-ctx.Done()
					}

					return nil, errors.New("refused")
				},
			}}, slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})))
			if err != nil {
				t.Fatal(err)
			}

			inv.ReadAhead([]string{"slow"})
			<-dialled

			if tt.refuses {
				inv.background.Wait()
			}

			if err := inv.Close(); err != nil {
				t.Error(err)
			}

			if warned := strings.Contains(log.String(), "level=WARN"); warned != tt.warns {
				t.Errorf("warned: %v, want %v:\n%s", warned, tt.warns, log.String())
			}
		})
	}
}
