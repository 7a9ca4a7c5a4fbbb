package fleet

import (
	"errors"
	"slices"
	"strings"
	"testing"

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
		r.Evacuation = &hostrecord.Evacuation{Done: true, Steps: []hostrecord.Step{{
			Step:   evacuation.Step{UUID: off.UUID, Name: off.Name, Method: evacuation.MethodShutdown},
			Result: hostrecord.ResultShutDown, Autostart: true,
		}}}

		return nil
	})
	if err != nil {
		t.Fatal(err)
	}

	if _, err := f.Release(t.Context(), h.Name, "m", true); err != nil {
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
