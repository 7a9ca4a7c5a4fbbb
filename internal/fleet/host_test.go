package fleet

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/hostrecord"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/records"
)

// builtIn is a fleet of libvirt's built-in test host, and a VM there of
// nobody else's.
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

	h, id := f.Host("local"), uuid.NewString()
	xml := fmt.Sprintf("<domain type='test'><name>%s</name><uuid>%s</uuid><memory>1024</memory>"+
		"<os><type>hvm</type></os></domain>", id, id)

	if _, err := h.Conn.DefineDomain(t.Context(), xml); err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
		defer cancel()

		if err := h.Conn.UndefineDomain(ctx, id); err != nil {
			t.Error(err)
		}
	})

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

// A VM that lost its autostart to a step that then failed gets it back
// when the maintenance ends, and nothing else is done to it.
func TestRelease_failedStepGetsItsAutostartBack(t *testing.T) {
	t.Parallel()

	for _, done := range []bool{true, false} {
		f, vm := builtIn(t)
		step := hostrecord.Step{Result: hostrecord.ResultFailed, Autostart: true}
		step.UUID, step.Name, step.Method = vm.UUID, vm.Name, "Shutdown"

		r := &release{fleet: f, host: vm.On, evacuation: hostrecord.Evacuation{Done: done, Steps: []hostrecord.Step{step}}}

		left, err := r.run(t.Context(), true)
		if err != nil || left != nil {
			t.Errorf("%+v, %v", left, err)
		}

		now, err := f.FindNow(t.Context(), vm.UUID, inventory.LastKnown{})
		if err != nil || !now.Autostart || now.Active {
			t.Errorf("done %v: autostart %v, active %v, %v", done, now.Autostart, now.Active, err)
		}
	}
}

// What could not be given back stays recorded, for the next attempt.
func TestRelease_whatFailsStaysRecorded(t *testing.T) {
	t.Parallel()

	f, vm := builtIn(t)
	step := hostrecord.Step{Result: hostrecord.ResultFailed, Autostart: true}
	step.UUID, step.Name, step.Method = vm.UUID, vm.Name, "Shutdown"

	r := &release{fleet: f, host: vm.On, evacuation: hostrecord.Evacuation{Steps: []hostrecord.Step{step}}}

	ended, cancel := context.WithCancel(t.Context())
	cancel()

	left, err := r.run(ended, true)
	if err == nil || left == nil || len(left.Steps) != 1 || !left.Steps[0].Autostart {
		t.Errorf("%+v, %v", left, err)
	}
}
