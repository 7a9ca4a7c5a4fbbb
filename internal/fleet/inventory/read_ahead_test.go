package inventory

import (
	"context"
	"errors"
	"log/slog"
	"net"
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
