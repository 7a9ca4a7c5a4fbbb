package placement

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
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

// TestCopiesDiffer_asksOnce: however many VMs of a plan name a host, each host is asked once for the files of all of
// them, also about those that it doesn't have.
func TestCopiesDiffer_asksOnce(t *testing.T) {
	t.Parallel()

	const hosts, vms = 4, 10

	var asked, listed atomic.Int32

	configs := map[string]inventory.HostConfig{}

	for i := range hosts {
		marks := map[string]inventory.FileMark{}
		for vm := i; vm < vms; vm += hosts - 1 { // The last host has what the first one has, and that differs.
			marks[fmt.Sprintf("/default-pool/vm-%d", vm)] = inventory.FileMark{Bytes: 1 << 20, Modified: fmt.Sprint(1000 + i)}
		}

		configs[fmt.Sprint("kvm", i)] = inventory.HostConfig{
			URI: "test://" + testNode(t),
			FileMarks: func(_ context.Context, paths ...string) (map[string]inventory.FileMark, error) {
				asked.Add(1)

				seen := maps.Clone(marks)
				maps.DeleteFunc(seen, func(file string, _ inventory.FileMark) bool { return !slices.Contains(paths, file) })

				return seen, nil
			},
			DirectoryMarks: func(_ context.Context, dir string) (map[string]inventory.FileMark, error) {
				listed.Add(1)

				seen := maps.Clone(marks)
				maps.DeleteFunc(seen, func(file string, _ inventory.FileMark) bool { return path.Dir(file) != dir })

				return seen, nil
			},
		}
	}

	p, inv := testSchedulerOf(t, configs)
	testVolume(t, inv.Host("kvm3"), "vm-1", 1) // Only libvirt sees it.

	tell := 0 // vm-3, vm-6 and vm-9 are on kvm0, too; vm-1 is on kvm1, too.

	for vm := range vms {
		answers, err := inv.Snapshot(t.Context())
		if err != nil {
			t.Fatal(err)
		}

		all := make([]candidate, len(answers))
		for i, a := range answers {
			all[i].Reply = a
		}

		if p.copiesDiffer(t.Context(), all, Desired{
			Planned: true, Metadata: domain.Metadata{Host: fmt.Sprint("kvm", vm%(hosts-1))},
			Spec:  domain.Spec{Name: "web", Disks: map[string]domain.Disk{"root": {}}},
			Files: map[string]string{"disks.root.file": fmt.Sprintf("/default-pool/vm-%d", vm)},
		}) != nil {
			tell++
		}
	}

	// A pool with a file that the user who logs in doesn't see is asked for it.
	want := map[string]int{"virConnectListAllStoragePools": 1, "virStoragePoolListVolumes": 1}
	for host, calls := range inv.Calls() {
		for call, n := range want {
			if calls[call] != n {
				t.Errorf("host %s had %d calls %s, want %d", host, calls[call], call, n)
			}
		}

		// Of files that differ, the pools of both hosts say whether they share them.
		if n := calls["virStorageVolLookupByPath"]; n > tell {
			t.Errorf("host %s was asked for %d volumes by their paths", host, n)
		}
	}

	if asked.Load() != 0 || listed.Load() != hosts || tell != 4 {
		t.Errorf("%d programs looked at files, %d at directories; %d VMs were warned of", asked.Load(), listed.Load(), tell)
	}
}
