package hostset_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/hostset"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

func open(t *testing.T, name string) hostset.Host {
	t.Helper()
	conn, err := libvirt.Open(libvirt.Config{Name: name, URI: "test:///default"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return hostset.Host{Name: name, Conn: conn}
}

// TestAsk_tellsTheThreeAnswersApart: a host that has no such object is not one that can't tell, and a fenced one is not
// asked.
func TestAsk_tellsTheThreeAnswersApart(t *testing.T) {
	t.Parallel()
	fenced := open(t, "d")
	fenced.Fenced = true
	set := hostset.NewSet(open(t, "c"), open(t, "a"), fenced, open(t, "b"))
	silence := errors.New("silence")
	answers := hostset.Ask(t.Context(), set, func(_ context.Context, h *libvirt.Host) (*string, error) {
		switch name := h.Name(); name {
		case "a":
			return &name, nil
		case "b":
			return &name, &libvirt.Error{Kind: libvirt.ErrNotFound}
		default:
			return &name, silence
		}
	})
	a := "a"
	want := []hostset.Answer[string]{{Host: "a", Value: &a}, {Host: "b"}, {Host: "c", Err: silence}}
	if diff := cmp.Diff(want, answers, cmp.Comparer(errors.Is)); diff != "" {
		t.Errorf("answers differ (-want +got):\n%s", diff)
	}
	if silent := hostset.Silent(answers); len(silent) != 1 || !errors.Is(silent["c"], silence) {
		t.Errorf("silent: %v", silent)
	}
	if found := hostset.Found(answers); len(found) != 1 || found[0].Host != "a" {
		t.Errorf("found: %v", found)
	}
}
