package fleet

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/fleettest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/records"
)

// builtIn is a fleet of libvirt's built-in test host, and a VM there that no other test uses.
func builtIn(t *testing.T) (*Fleet, *inventory.VM) {
	t.Helper()

	f, err := New(Config{Hosts: map[string]inventory.HostConfig{"local": {URI: "test:///default"}}, Owner: "alice"})
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})

	id := fleettest.DefineBuiltIn(t, f.Host("local"))

	vm, err := f.FindNow(t.Context(), id, inventory.LastKnown{})
	if err != nil {
		t.Fatal(err)
	}

	return f, vm
}

// However many read meanwhile, who asks after a write sees it.
func TestHost_writesAreSeen(t *testing.T) {
	t.Parallel()

	const writes = 40

	f, vm := builtIn(t)
	h := vm.On
	id := vm.UUID
	reading, stop := context.WithCancel(t.Context())

	var readers sync.WaitGroup

	for range 4 {
		readers.Go(func() {
			for reading.Err() == nil {
				_, _ = f.Find(reading, id, inventory.LastKnown{})
			}
		})
	}

	defer readers.Wait()
	defer stop()

	for i := range writes {
		want := fmt.Sprint(i)

		said := domain.Metadata{Labels: map[string]string{"n": want}}
		if _, err := records.WriteMetadata(t.Context(), vm, said); err != nil {
			t.Fatal(err)
		}

		if i%2 == 0 {
			h.Forget()
		} else if _, err := f.ReadVM(t.Context(), h, vm.UUID); err != nil {
			t.Fatal(err)
		}

		now, err := f.Find(t.Context(), id, inventory.LastKnown{})
		if err != nil || now.Metadata.Labels["n"] != want {
			t.Fatalf("after write %s: %+v, %v", want, now.Metadata.Labels, err)
		}

		vm = now
	}
}

// The plan of a change warns of what it could not check, also if the VM is pinned to a host that doesn't answer.
func TestCheckUpdate_warnsWhileThePinIsSilent(t *testing.T) {
	t.Parallel()

	const uuid = "6a9ae2dc-22f3-4d0c-a8d8-0a9b2f1dca12"

	f := openFleet(t, Config{Owner: "alice", Hosts: map[string]inventory.HostConfig{
		"here": {URI: fleettest.BuiltInURI(t, `<domain type="test"><name>web</name><uuid>`+uuid+`</uuid>
  <memory>1024</memory><os><type>hvm</type></os></domain>`)},
		"silent": {URI: "qemu+unix:///system?socket=/nowhere"},
	}})

	vm, err := f.FindNow(t.Context(), uuid, inventory.LastKnown{})
	if err != nil {
		t.Fatal(err)
	}

	d := Desired{Spec: *vm.DeclaredSpec(), Metadata: vm.Metadata}
	d.Spec.Name, d.Metadata.Host = "renamed", "silent"

	problems, err := f.CheckUpdate(t.Context(), uuid, lastOf(vm), d)
	if err != nil || len(problems) != 1 || !problems[0].Warning || problems[0].Attribute != "name" {
		t.Errorf("planned %+v, %v; want a warning that the name isn't checked on the silent host", problems, err)
	}
}
