package fleet

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/drain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/evacuation"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/hostrecord"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/placement"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

// A start asks for room and cordon as a creation does, and the plan says so.
func TestLab_startAsksForRoom(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	h := l.StartHost(t)
	cfg := ownConfig("alice", h)
	only := cfg.Hosts[h.Name]
	only.MemoryLimit, only.OvercommitGuestOverhead = 300<<20, true
	cfg.Hosts[h.Name] = only
	f := openFleet(t, cfg)

	d := guest(l, lab.Name(t), "noagent")
	d.Metadata.RunStrategy = "Halted"
	off := create(t, f, l, d)

	// A maintenance that ends starts none that is Halted by now.
	err := f.ChangeRecord(t.Context(), off.On, func(r *hostrecord.Record) error {
		r.Cordon = &hostrecord.Cordon{ID: "m", Owner: "alice", Why: "a test"}
		r.Evacuation = &hostrecord.Evacuation{Done: true, Steps: []hostrecord.RecordedStep{{
			Step:   evacuation.Step{UUID: off.UUID, Name: off.Name, Method: evacuation.MethodShutdown},
			Result: hostrecord.ResultShutDown, Autostart: true,
		}}}

		return nil
	})
	if err != nil {
		t.Fatal(err)
	}

	if _, err := f.Release(t.Context(), h.Name, "m", drain.Restore{Wanted: true}); err != nil {
		t.Error(err)
	}

	if now, err := off.On.Conn.Domain(t.Context(), off.UUID); err != nil || now.Active() || now.Autostart {
		t.Errorf("Halted, and after the maintenance %+v, %v", now, err)
	}

	d.Metadata.RunStrategy = "Always"

	refused := func(what, reason string) {
		t.Helper()
		f.ForgetAll()

		problems, err := f.CheckUpdate(t.Context(), off.UUID, lastOf(off), d)
		if err != nil || !slices.ContainsFunc(problems, func(p inventory.Problem) bool {
			return strings.Contains(p.Summary, "started")
		}) {
			t.Errorf("%s: planned %+v, %v", what, problems, err)
		}

		_, err = f.Update(t.Context(), off.UUID, lastOf(off), d)
		if blocked := (*migration.BlockedError)(nil); !errors.As(err, &blocked) || blocked.Blockers[0].Reason != reason {
			t.Errorf("%s: %v, want %s", what, err, reason)
		}

		// Nothing is to be moved.
		if err == nil || !strings.Contains(err.Error(), "can't be started") || strings.Contains(err.Error(), "be moved") {
			t.Errorf("%s: it says %v", what, err)
		}

		if state := l.Virsh(t, h.Name, "domstate", off.UUID); !strings.Contains(state, "shut off") {
			t.Errorf("%s: it is %s", what, state)
		}
	}

	if err := f.Cordon(t.Context(), h.Name, "m", "a test"); err != nil {
		t.Fatal(err)
	}

	refused("cordoned", migration.HostCordoned)

	if err := f.Uncordon(t.Context(), h.Name, "m"); err != nil {
		t.Fatal(err)
	}

	other := guest(l, lab.Name(t)+"-b", "noagent")
	running := create(t, f, l, other)
	refused("full", migration.InsufficientMemory)

	// More memory than the host may give isn't tried with a restart.
	other.Spec.Memory.Size, other.UpdatePolicy = new(uint64(400<<20)), placement.PolicyRestart
	_, err = f.Update(t.Context(), running.UUID, lastOf(running), other)

	if blocked := (*migration.BlockedError)(nil); !errors.As(err, &blocked) {
		t.Errorf("restarted with more memory: %v", err)
	}

	if state := l.Virsh(t, h.Name, "domstate", running.UUID); !strings.Contains(state, "running") {
		t.Errorf("it is %s", state)
	}
}

// Memory that is added to a running VM, by memory.size or as a device, asks its host for room as a start does, before
// anything is changed, and the plan says so.
func TestLab_addedMemoryAsksForRoom(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	h := l.StartHost(t)
	cfg := ownConfig("alice", h)
	only := cfg.Hosts[h.Name]
	only.MemoryLimit, only.OvercommitGuestOverhead = 600<<20, true
	cfg.Hosts[h.Name] = only
	f := openFleet(t, cfg)

	d := light(t, l, lab.Name(t), nil)
	d.Spec.Memory = domain.Memory{Size: new(uint64(256 << 20)), MaxSize: new(uint64(2 << 30))}
	vm := create(t, f, l, d)

	larger, device := d, d
	larger.Spec.Memory.Size = new(uint64(768 << 20))
	device.Spec.VirtioMem = map[string]domain.Row{"more": {"size": "536870912", "requested": "0"}}

	for attribute, want := range map[string]placement.Desired{"memory.size": larger, "virtio_mem": device} {
		problems, err := f.CheckUpdate(t.Context(), vm.UUID, lastOf(vm), want)
		if err != nil || !slices.ContainsFunc(problems, func(p inventory.Problem) bool {
			return p.Warning && p.Attribute == "memory.size" && strings.Contains(p.Detail, "768Mi")
		}) {
			t.Errorf("%s: planned %+v, %v", attribute, problems, err)
		}

		_, err = f.Update(t.Context(), vm.UUID, lastOf(vm), want)
		if blocked := (*migration.BlockedError)(nil); !errors.As(err, &blocked) ||
			blocked.Blockers[0].Reason != migration.InsufficientMemory {
			t.Errorf("%s: %v", attribute, err)
		}

		if xml := l.Virsh(t, h.Name, "dumpxml", "--inactive", vm.UUID) + l.Virsh(t, h.Name, "dumpxml", vm.UUID); strings.
			Contains(xml, "<memory model") {
			t.Errorf("%s: refused, and the VM has it: %s", attribute, xml)
		}
	}

	// What fits is added.
	larger.Spec.Memory.Size = new(uint64(512 << 20))

	problems, err := f.CheckUpdate(t.Context(), vm.UUID, lastOf(vm), larger)
	if err != nil || len(problems) > 0 {
		t.Errorf("with room: planned %+v, %v", problems, err)
	}

	if _, err := f.Update(t.Context(), vm.UUID, lastOf(vm), larger); err != nil {
		t.Error(err)
	}

	if xml := l.Virsh(t, h.Name, "dumpxml", vm.UUID); !strings.Contains(xml, "<memory model='dimm'") {
		t.Errorf("it has %s", xml)
	}
}
