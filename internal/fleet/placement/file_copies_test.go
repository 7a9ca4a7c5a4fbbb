package placement

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
)

// TestCopiesDiffer_asks: the hosts are asked for their files, also those that can't take the VM. If the configuration
// names a host that can't take it, the plan is refused, and none is asked.
func TestCopiesDiffer_asks(t *testing.T) {
	t.Parallel()

	const file = "/vms/root"

	for name, c := range map[string]struct {
		pinned   string
		problems []inventory.Problem
		err      error
		asked    int32
		tells    bool
	}{
		"no host named":                  {asked: 2, tells: true},
		"no host named, one can't":       {problems: []inventory.Problem{{Detail: "it is full"}}, asked: 2, tells: true},
		"named host":                     {pinned: "kvm1", asked: 2, tells: true},
		"named host can't":               {pinned: "kvm1", problems: []inventory.Problem{{Detail: "it is full"}}},
		"named host doesn't answer":      {pinned: "kvm1", err: errors.New("it doesn't answer")},
		"other than the named one can't": {pinned: "kvm2", problems: []inventory.Problem{{}}, asked: 2, tells: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			var asked atomic.Int32

			host := func(written string) inventory.HostConfig {
				return inventory.HostConfig{
					URI: "test://" + testNode(t),
					FileMarks: func(context.Context, ...string) (map[string]inventory.FileMark, error) {
						asked.Add(1)

						return map[string]inventory.FileMark{file: {Bytes: 1 << 20, Modified: written}}, nil
					},
				}
			}
			p, inv := testSchedulerOf(t, map[string]inventory.HostConfig{"kvm1": host("1000.5"), "kvm2": host("2000.5")})
			all := []candidate{
				{Reply: inventory.Reply{Host: inv.Host("kvm1"), Err: c.err}, problems: c.problems},
				{Reply: inventory.Reply{Host: inv.Host("kvm2")}},
			}

			problem := p.copiesDiffer(t.Context(), all, Desired{
				Spec:     domain.Spec{Name: "web", Disks: map[string]domain.Disk{"root": {}}},
				Metadata: domain.Metadata{Host: c.pinned}, Files: map[string]string{"disks.root.file": file},
			})
			if got := asked.Load(); got != c.asked || (problem != nil) != c.tells {
				t.Errorf("%d hosts were asked, want %d: %+v", got, c.asked, problem)
			}
		})
	}
}
