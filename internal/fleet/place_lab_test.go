package fleet

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"sync"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/fleettest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/placement"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

// atOnce creates VMs at the same time, by turns in one run and another, and counts on which hosts they are. What found
// no host is under "".
func atOnce(t *testing.T, l *lab.Lab, runs []*Fleet, wishes ...placement.Desired) map[string]int {
	t.Helper()

	var (
		wg   sync.WaitGroup
		mu   sync.Mutex
		made = map[string]int{}
	)

	for i, d := range wishes {
		l.RemoveDomain(t, d.Spec.Name)

		wg.Go(func() {
			vm, err := runs[i%len(runs)].Create(t.Context(), d)
			if err != nil && (vm != nil || !errors.Is(err, placement.ErrNoHost)) {
				t.Errorf("creating %s: %v", d.Spec.Name, err)
			}

			mu.Lock()
			defer mu.Unlock()

			if vm == nil {
				made[""]++
			} else {
				made[vm.Host]++
			}
		})
	}

	fleettest.AwaitAll(t, &wg)

	return made
}

// VMs that are made at once, in two runs, fill the hosts to the last byte that they may commit, and none over-commits
// one or gets where it must not be.
func TestLab_placementAtOnce(t *testing.T) {
	t.Parallel()

	const each, perHost = 64 << 20, 6

	l := lab.Open(t)

	// What other tests run counts too, so it happens on hosts that they don't know.
	one, two := l.StartHost(t).Name, l.StartHost(t).Name
	limit := func(name string, hc *inventory.HostConfig) {
		hc.OvercommitGuestOverhead = true
		hc.MemoryLimit, hc.Unschedulable = perHost*each, name != one && name != two
	}
	runs := []*Fleet{labFleet(t, l, "first run", limit), labFleet(t, l, "second run", limit)}
	prefix := lab.Name(t)
	wish := func(what string, i int, change func(*placement.Desired)) placement.Desired {
		d := guest(l, fmt.Sprintf("%s-%s-%d", prefix, what, i), "")
		d.Metadata.RunStrategy = "Manual"
		size := uint64(each)
		d.Spec.Memory.Size = &size
		change(&d)

		return d
	}
	wishes := func(what string, n int, change func(*placement.Desired)) (all []placement.Desired) {
		for i := range n {
			all = append(all, wish(what, i, change))
		}

		return all
	}

	network := t.TempDir() + "/network.xml"
	if err := os.WriteFile(network, []byte(`<network><name>rare</name></network>`), 0o600); err != nil {
		t.Fatal(err)
	}

	l.Virsh(t, two, "net-define", network)
	l.Virsh(t, two, "net-start", "rare")
	volume := l.Image(t, two, prefix+".raw", "raw", 1<<20)
	byID := "default/" + path.Base(l.Image(t, two, prefix+"-id.raw", "raw", 1<<20))

	for _, tt := range []struct {
		what   string
		wishes []placement.Desired
		want   map[string]int
	}{
		{"those that avoid each other", wishes("alone", 4, func(d *placement.Desired) {
			d.Metadata.Labels = map[string]string{"app": prefix}
			d.Placement.AntiAffinity = &placement.AntiAffinity{Labels: d.Metadata.Labels, Required: true}
		}), map[string]int{one: 1, two: 1, "": 2}},
		{"those that need what one host has, though it has less room", []placement.Desired{
			wish("network", 0, func(d *placement.Desired) {
				d.Spec.Interfaces = map[string]domain.Interface{"lan": {Network: "rare"}}
			}),
			wish("volume", 0, func(d *placement.Desired) {
				d.Spec.Disks = map[string]domain.Disk{"root": {}}
				d.Volumes = map[string]string{"root": volume}
			}),
			wish("volume", 1, func(d *placement.Desired) {
				d.Spec.Disks = map[string]domain.Disk{"root": {}}
				d.Volumes = map[string]string{"root": byID}
			}),
		}, map[string]int{two: 3}},
		{
			"more than there is room for", wishes("any", 10, func(*placement.Desired) {}),
			map[string]int{one: 5, two: 2, "": 3},
		},
	} {
		if made := atOnce(t, l, runs, tt.wishes...); !maps.Equal(made, tt.want) {
			t.Fatalf("%s: by host %v, want %v", tt.what, made, tt.want)
		}
	}
}
