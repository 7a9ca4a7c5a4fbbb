package placement

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
)

// A path that the host can't compare doesn't hide the links that it knows.
func TestLinkedPaths_ofWhichSomeAreUnseen(t *testing.T) {
	t.Parallel()

	broken := errors.New("the host doesn't answer")

	for kind, known := range map[error]bool{
		inventory.ErrUnsupported: true, inventory.ErrComparesNone: true, broken: false,
	} {
		var log strings.Builder

		cs := &Claims{log: slog.New(slog.NewTextHandler(&log, nil))}
		h := &inventory.Host{Name: "kvm1", Config: inventory.HostConfig{
			SameFile: func(context.Context, string, ...string) ([]string, error) { return []string{"/link"}, kind },
		}}

		same, is := cs.linkedPaths(t.Context(), h, claim{}, "/disk", []string{"/link", "/hidden/disk"})
		if is != known || known && !slices.Equal(same, []string{"/link"}) {
			t.Errorf("%v: %q, %t", kind, same, is)
		}

		if warns := log.Len() > 0; warns == errors.Is(kind, inventory.ErrComparesNone) {
			t.Errorf("%v: it logs %q", kind, log.String())
		}
	}
}
