package drain

import (
	"context"
	"fmt"
	"maps"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/evacuation"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/fleettest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// A host that doesn't answer what its storage has left keeps no other host waiting.
func TestReadFreeSpace_asksAllHostsAtOnce(t *testing.T) {
	t.Parallel()

	asked, slow := make(chan string, 2), make(chan struct{})
	release := sync.OnceFunc(func() { close(slow) })
	dial := func(name string) inventory.HostConfig {
		return inventory.HostConfig{
			URI: "qemu+ssh://" + name + "/system",
			Dial: func(context.Context, string) (net.Conn, error) {
				asked <- name
				<-slow

				return nil, fmt.Errorf("%w: no answer", libvirt.ErrUnreachable)
			},
		}
	}
	dr := drainerOf(t, map[string]inventory.HostConfig{"one": dial("one"), "two": dial("two")})

	t.Cleanup(release)

	space := map[string]evacuation.Space{"one": {"/vms": 1}, "two": {"/vms": 1}}
	done := make(chan struct{})

	go func() {
		defer close(done)

		dr.readRoom(t.Context(), evacuation.Input{
			Hosts: []evacuation.Host{{Name: "one"}, {Name: "two"}}, VMs: []evacuation.VM{{LiveSpace: space}},
		}, []inventory.Reply{{Host: dr.hosts.Host("one")}, {Host: dr.hosts.Host("two")}})
	}()

	for range 2 {
		select {
		case <-asked:
		case <-time.After(time.Minute):
			t.Fatal("a host is asked only once the other one has answered")
		}
	}

	release()
	fleettest.Await(t, done)
}

// What disks may grow to counts in a drain only where the host limits it, and apart from the space that they take.
func TestSpaceFor(t *testing.T) {
	t.Parallel()

	load := migration.TransferSize{
		Files:  map[string]uint64{"/vms/a": 1, "/vms/b": 2, "/fast/c": 4},
		Growth: map[string]uint64{"/vms/a": 10, "/vms/b": 20, "/fast/c": 40},
	}
	unlimited, limited := &inventory.Host{}, &inventory.Host{}
	limited.Config.StorageOverprovisioningFactor = 2

	if got := spaceFor(unlimited, load); !maps.Equal(got, map[string]uint64{"/vms": 3, "/fast": 4}) {
		t.Errorf("without a limit: %v", got)
	}

	want := map[string]uint64{"/vms": 3, "/fast": 4, "/vms" + evacuation.GrowthIn: 30, "/fast" + evacuation.GrowthIn: 40}
	if got := spaceFor(limited, load); !maps.Equal(got, want) {
		t.Errorf("with a limit: %v; want %v", got, want)
	}
}

// Hosts are asked for what a running VM has, and for what its definition needs if it may be turned off to be moved.
func TestNeedsOf(t *testing.T) {
	t.Parallel()

	uses := func(network string) domain.HostUse {
		return domain.HostUse{Networks: map[string][]string{network: {"nic"}}}
	}
	vm := evacuation.VM{Use: uses("runs"), StartedUse: uses("defined")}

	if got := needsOf([]evacuation.VM{vm}); len(got) != 1 || got[0].Networks["runs"] == nil {
		t.Errorf("moved live: %+v", got)
	}

	vm.ColdBlockers = map[string][]migration.Blocker{}
	if got := needsOf([]evacuation.VM{vm}); len(got) != 2 || got[1].Networks["defined"] == nil {
		t.Errorf("moved while it is off: %+v", got)
	}
}
