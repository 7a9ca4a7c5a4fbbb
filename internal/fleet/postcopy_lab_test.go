package fleet

import (
	"context"
	"os"
	"slices"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

// A host whose kernel doesn't let its unprivileged QEMU take a guest in post-copy is no candidate where post-copy is
// asked for: every attempt would fail. Where it isn't, the host is as good as any.
func TestLab_postCopyIsAskedOfEachCandidate(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	f := labFleet(t, l, t.Name(), func(_ string, hc *inventory.HostConfig) {
		hc.ReadEnd = func(_ context.Context, path string, _ int) ([]byte, error) { return os.ReadFile(path) }
	})
	uuid := small(t, l, l.Host("kvm1"), lab.Name(t), "")

	setting, err := os.ReadFile(inventory.UserFaults)
	if err != nil || string(setting) != "0\n" {
		t.Fatalf("the kernel of the lab's hosts lets all users: %q, %v", setting, err)
	}

	for _, postCopy := range []bool{true, false} {
		_, candidates, _, err := f.MoveCandidates(t.Context(), uuid, inventory.LastKnown{}, migration.Options{
			AllowPostCopy: &postCopy,
		}, false)
		if err != nil {
			t.Fatal(err)
		}

		for _, c := range candidates {
			refused := slices.ContainsFunc(c.Blockers, func(b migration.Blocker) bool {
				return b.Reason == migration.OptionsNotSupported && b.Attribute == "migration_options.allow_post_copy"
			})
			if want := postCopy && l.Host(c.Host).Unprivileged; refused != want || !c.Current && c.Fits() == want {
				t.Errorf("post-copy %v, host %s: %+v", postCopy, c.Host, c.Blockers)
			}
		}
	}
}
