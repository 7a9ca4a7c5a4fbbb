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
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
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

// TestCopiesDiffer_volumes: names of volumes are unique only on one host. A host's volume of that name is another VM's
// if that VM uses it and the host can't take the new one. Volumes that are new on their hosts have nothing that a guest
// wrote, so they are alike, and unlike what a host has already.
func TestCopiesDiffer_volumes(t *testing.T) {
	t.Parallel()

	const (
		id, file = "default-pool/root", "/default-pool/root"
		other    = `<domain type='test'><name>db</name><uuid>6f3c1ba0-3c5e-4a4e-9d1c-52d1c5a6e001</uuid><devices>` +
			`<disk type='file' device='disk'><source file='` + file + `'/><target dev='vda'/></disk></devices></domain>`
	)

	for name, c := range map[string]struct {
		pinned        string
		used, refused bool // on kvm2
		absent        []string
		planned, made []string
		tells         bool
	}{
		"used by another VM":                    {used: true, tells: true},
		"used by another VM, which has to stay": {used: true, refused: true},
		"unused on a host that can't take it":   {refused: true, tells: true},
		"another VM's, of a VM that is pinned":  {pinned: "kvm1", used: true, refused: true},
		"planned where it isn't":                {absent: []string{"kvm1"}, planned: []string{"kvm1"}, tells: true},
		"planned where the VM is pinned":        {pinned: "kvm1", absent: []string{"kvm1"}, planned: []string{"kvm1"}},
		"planned on another host than the VM is pinned to": {
			pinned: "kvm2", absent: []string{"kvm1"}, planned: []string{"kvm1"}, tells: true,
		},
		"planned on the only host that has it": {absent: []string{"kvm1"}, planned: []string{"kvm2"}},
		"planned on each host":                 {absent: []string{"kvm1", "kvm2"}, planned: []string{"kvm1", "kvm2"}},
		"planned to be replaced":               {planned: []string{"kvm1", "kvm2"}},
		"made on each host":                    {made: []string{"kvm1", "kvm2"}},
		"made on one host":                     {made: []string{"kvm1"}, tells: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			changed := map[string]string{"kvm1": "1000.5", "kvm2": "2000.5"}
			configs := map[string]inventory.HostConfig{}

			for host, at := range changed {
				configs[host] = inventory.HostConfig{
					URI: "test://" + testNode(t),
					FileMarks: func(context.Context, ...string) (map[string]inventory.FileMark, error) {
						if slices.Contains(c.absent, host) {
							return map[string]inventory.FileMark{}, nil
						}

						return map[string]inventory.FileMark{file: {Bytes: 1 << 20, Modified: at, Changed: at}}, nil
					},
				}
			}

			p, inv := testSchedulerOf(t, configs)
			d := Desired{
				Spec:     domain.Spec{Name: "web", Disks: map[string]domain.Disk{"root": {}}},
				Metadata: domain.Metadata{Host: c.pinned}, Volumes: map[string]string{"root": id},
				Planned: c.made == nil, Made: map[string][]string{},
				PlannedObjects: status.PlannedObjects{{Kind: status.Volume, Name: id}: status.PlannedHosts{}},
			}

			for _, host := range c.planned {
				d.PlannedObjects[status.HostObject{Kind: status.Volume, Name: id}][host] = ""
			}

			for _, host := range c.made {
				d.Made[file] = append(d.Made[file], changed[host])
			}

			domains := map[string]*inventory.Entry{}
			if c.used {
				domains["db"] = inventory.NewEntry(libvirt.Domain{UUID: "db", Name: "db", PersistentXML: other})
			}

			all := []candidate{
				{Reply: inventory.Reply{Host: inv.Host("kvm1"), View: inventory.NewView(nil, nil)}},
				{Reply: inventory.Reply{Host: inv.Host("kvm2"), View: inventory.NewView(nil, domains)}},
			}

			if c.refused {
				all[1].refuse("placement.host_labels", "it lacks labels")
			}

			if problem := p.copiesDiffer(t.Context(), all, d); (problem != nil) != c.tells {
				t.Errorf("got %+v", problem)
			} else if problem != nil && problem.Warning != (c.pinned != "") {
				t.Errorf("got %+v", problem)
			}
		})
	}
}

// TestCopiesDiffer_replaced: a VM that is replaced doesn't begin with an older file because its configuration names the
// host that it has left.
func TestCopiesDiffer_replaced(t *testing.T) {
	t.Parallel()

	const file = "/vms/root"

	host := func(written string) inventory.HostConfig {
		return inventory.HostConfig{
			URI: "test://" + testNode(t),
			FileMarks: func(context.Context, ...string) (map[string]inventory.FileMark, error) {
				return map[string]inventory.FileMark{file: {Bytes: 1 << 20, Modified: written}}, nil
			},
		}
	}
	p, inv := testSchedulerOf(t, map[string]inventory.HostConfig{"kvm1": host("1000.5"), "kvm2": host("2000.5")})

	on := func(state libvirt.DomainState) *inventory.View {
		return inventory.NewView(nil, map[string]*inventory.Entry{
			"old": inventory.NewEntry(libvirt.Domain{UUID: "old", Name: "web", State: state}),
		})
	}
	all := []candidate{
		{Reply: inventory.Reply{Host: inv.Host("kvm1"), View: on(libvirt.Shutoff)}},
		{Reply: inventory.Reply{Host: inv.Host("kvm2"), View: on(libvirt.Running)}},
	}

	for pinned, warning := range map[string]bool{"kvm1": false, "kvm2": true} {
		problem := p.copiesDiffer(t.Context(), all, Desired{
			Spec:     domain.Spec{Name: "web", Disks: map[string]domain.Disk{"root": {}}},
			Metadata: domain.Metadata{Host: pinned}, Files: map[string]string{"disks.root.file": file}, Replaces: "old",
		})
		if problem == nil || problem.Warning != warning {
			t.Errorf("%s: got %+v", pinned, problem)
		}
	}
}
