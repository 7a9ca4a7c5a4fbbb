package fleet

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/admission"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/fleettest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/move"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/placement"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/records"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab/expiry"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// unpinned is a running VM on kvm1 that may move, whose guest has booted.
func unpinned(t *testing.T, f *Fleet, l *lab.Lab, words string) *inventory.VM {
	t.Helper()

	d := mover(t, l, strings.TrimSpace("noagent "+words))
	vm := create(t, f, l, d)
	d.Metadata.Host = ""

	vm, err := f.Update(t.Context(), vm.UUID, lastOf(vm), d)
	if err != nil {
		t.Fatal(err)
	}

	return booted(t, l, vm)
}

// recorded fails the test unless a host's own words about the VM have all the parts.
func recorded(t *testing.T, l *lab.Lab, host, uuid string, parts ...string) {
	t.Helper()

	for _, which := range []string{"--live", "--config"} {
		text := l.Virsh(t, host, "metadata", uuid, domain.MetadataNamespace, which)
		for _, part := range parts {
			if !strings.Contains(text, part) {
				t.Errorf("metadata (%s) on %s has no %q:\n%s", which, host, part, text)
			}
		}
	}
}

// An order is carried out once, whatever happens to the VM afterwards; and again when it was withdrawn.
func TestLab_migrationIsCarriedOutOnce(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	f := labFleet(t, l, "alice", nil)
	vm := unpinned(t, f, l, "")
	order := move.Order{UUID: vm.UUID, Last: lastOf(vm), ID: "4711", Target: "kvm2"}

	now, first, err := f.MoveOnce(t.Context(), order)
	if err != nil || now.Host != "kvm2" || first.Phase != migration.PhaseSucceeded || first.Statistics.Total == 0 {
		t.Fatalf("%+v, %+v, %v", now, first, err)
	}

	recorded(t, l, "kvm2", vm.UUID, `id="4711"`, `owner="alice"`, `source="kvm1"`, `target="kvm2"`, `phase="Succeeded"`,
		`mode="PreCopy"`, `method="LiveMigration"`, `<statistics elapsed=`, `<label key="app" value="web"/>`)

	back, _, err := f.Move(t.Context(), vm.UUID, lastOf(now), "kvm1", migration.Options{})
	if err != nil || back.Host != "kvm1" || len(back.Metadata.Migrations) != 2 {
		t.Fatalf("%+v, %v", back, err)
	}

	now, again, err := f.MoveOnce(t.Context(), order)
	if err != nil || now.Host != "kvm1" || again != first {
		t.Errorf("the second time: on %s, %+v, %v; want it on kvm1, with %+v", now.Host, again, err, first)
	}

	withdrawn, err := f.WithdrawMigration(t.Context(), vm.UUID, lastOf(now), order.ID)
	if err != nil || withdrawn == nil || withdrawn.Start != first.Start {
		t.Errorf("withdrawn: %+v, %v", withdrawn, err)
	}

	now, third, err := f.MoveOnce(t.Context(), order)
	if err != nil || now.Host != "kvm2" || !third.Start.After(first.Start) || len(now.Metadata.Migrations) != 3 {
		t.Errorf("given again: %+v, %+v, %v", now, third, err)
	}

	onlyOn(t, f, vm.UUID, "kvm2")

	if !now.Autostart || now.Metadata.RunStrategy != "Always" {
		t.Errorf("%+v", now)
	}
}

// What a run that was killed left behind is brought to its end, not repeated.
func TestLab_migrationInterruptedIsAdopted(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		// migrates and bandwidth are what continues without its run, 0 nothing.
		bandwidth uint64
		// arrived lets it end first.
		arrived bool
		// impatient is who adopts it, and has no more time once he knows what he adopts.
		impatient       bool
		on              string
		err             error
		records, aborts int
	}{
		"arrived":   {bandwidth: 1 << 30, arrived: true, on: "kvm2", records: 1},
		"continues": {bandwidth: 24 << 20, on: "kvm2", records: 1},
		"is aborted": {
			bandwidth: 1 << 20, impatient: true, on: "kvm1", err: context.DeadlineExceeded, records: 1, aborts: 1,
		},
		"never got on": {on: "kvm2", records: 2},
	}

	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			l := lab.Open(t)
			f := labFleet(t, l, "alice", nil)
			vm := unpinned(t, f, l, "dirty=4")
			began := migration.State{
				SourceHost: "kvm1", TargetHost: "kvm2", Start: time.Now(), Phase: migration.PhasePreparingTarget,
			}.Record("4711", "bob")
			began.Autostart, began.Transport = true, migration.TransportAuto

			if _, err := records.WriteMetadata(t.Context(), vm, vm.Metadata.WithMigration(began)); err != nil {
				t.Fatal(err)
			}

			// As a run leaves it that has no time to tidy up.
			l.Virsh(t, "kvm1", "autostart", "--disable", vm.UUID)

			over := make(chan error, 1)
			if tt.bandwidth > 0 {
				go func() {
					over <- f.Host("kvm1").Conn.Migrate(t.Context(), vm.UUID, f.Host("kvm2").Conn,
						libvirt.Migration{Bandwidth: tt.bandwidth})
				}()
				awaitJob(t, f, vm.UUID, over)
			} else {
				over <- nil
			}

			if tt.arrived {
				if err := fleettest.Await(t, over); err != nil {
					t.Fatal(err)
				}

				over <- nil
			}

			ctx, expire := expiry.Context(t)
			if tt.impatient {
				listen(f, &onLog{Message: "a migration was interrupted", Do: expire})
			}

			order := move.Order{UUID: vm.UUID, Last: lastOf(vm), ID: "4711", Target: "kvm2"}

			_, record, err := f.MoveOnce(ctx, order)
			if !errors.Is(err, tt.err) || record.Failed != (tt.err != nil) || !record.Completed() {
				t.Errorf("%+v, %v; want %v", record, err, tt.err)
			}

			if err := fleettest.Await(t, over); (err != nil) != (tt.aborts > 0) {
				t.Errorf("the migration that continued by itself: %v", err)
			}

			onlyOn(t, f, vm.UUID, tt.on)

			now, kept, err := f.MigrationRecord(t.Context(), vm.UUID, lastOf(vm), "4711")
			if err != nil || kept == nil || kept.Failed != (tt.err != nil) || !kept.Completed() {
				t.Fatalf("%+v, %v", kept, err)
			}

			if n := len(now.Metadata.Migrations); n != tt.records || !now.Autostart || !now.Running() {
				t.Errorf("%d records, want %d: %+v", n, tt.records, now)
			}

			if kept.Transport == migration.TransportAuto {
				t.Errorf("what was asked for is taken for what was used: %+v", kept)
			}

			if (kept.AbortStatus == migration.AbortSucceeded) != (tt.aborts > 0) {
				t.Errorf("aborted: %+v", kept)
			}
		})
	}
}

// awaitJob waits until the VM is on its way from kvm1.
func awaitJob(t *testing.T, f *Fleet, uuid string, over chan error) {
	t.Helper()

	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()

	for {
		job, err := f.Host("kvm1").Conn.Job(ctx, uuid)
		if err == nil && job != nil && job.Data.Total > 0 {
			return
		}

		select {
		case err := <-over:
			over <- err

			return
		default:
		}

		if err := admission.Pause(ctx, 50*time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
}

// Withdrawing an order whose migration runs aborts it, whoever runs it.
func TestLab_migrationIsWithdrawnWhileItRuns(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	alice, bob := labFleet(t, l, "alice", nil), labFleet(t, l, "bob", nil)
	vm := unpinned(t, alice, l, "dirty=8")
	order := move.Order{
		UUID: vm.UUID, Last: lastOf(vm), ID: "4711", Target: "kvm2",
		Options: migration.Options{Bandwidth: new(uint64(1 << 20))},
	}
	over := make(chan error, 1)

	go func() {
		_, _, err := alice.MoveOnce(t.Context(), order)
		over <- err
	}()
	awaitJob(t, bob, vm.UUID, over)

	record, err := bob.WithdrawMigration(t.Context(), vm.UUID, lastOf(vm), order.ID)
	if err != nil || record == nil {
		t.Errorf("%+v, %v", record, err)
	}

	if err := fleettest.Await(t, over); !errors.Is(err, move.ErrNotMoved) {
		t.Errorf("who ran it: %v", err)
	}

	onlyOn(t, bob, vm.UUID, "kvm1")

	if _, kept, err := bob.MigrationRecord(t.Context(), vm.UUID, lastOf(vm), order.ID); err != nil || !kept.Failed {
		t.Errorf("%+v, %v", kept, err)
	}
}

// The best host is chosen, each one's reasons are told, and a VM stays where its configuration pins it.
func TestLab_migrationChoosesItsTarget(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	f := labFleet(t, l, "alice", func(name string, hc *inventory.HostConfig) { hc.Unschedulable = name == "kvm3" })
	small := labFleet(t, l, "bob", func(name string, hc *inventory.HostConfig) {
		hc.MemoryLimit = map[string]uint64{"kvm2": 1 << 20}[name]
		hc.Fenced = name == "kvm3"
	})
	vm := unpinned(t, f, l, "")

	_, candidates, _, err := f.MoveCandidates(t.Context(), vm.UUID, lastOf(vm), migration.Options{}, false)
	if err != nil || candidates[0].Host != "kvm2" || !candidates[0].Fits() || candidates[0].FreeMemory == nil {
		t.Fatalf("%+v, %v", candidates, err)
	}

	for _, c := range candidates[1:] {
		current := c.Host == "kvm1"
		if c.Fits() || c.Current != current || !current && c.Blockers[0].Reason != migration.HostNotSchedulable {
			t.Errorf("%+v", c)
		}
	}

	order := move.Order{UUID: vm.UUID, Last: lastOf(vm), ID: "4711"}

	problems, err := small.CheckMigration(t.Context(), order)
	if err != nil || len(problems) != 1 || problems[0].Warning || !strings.Contains(problems[0].Detail, "fenced") ||
		!strings.Contains(problems[0].Detail, migration.InsufficientMemory) {
		t.Errorf("%+v, %v", problems, err)
	}

	_, record, err := small.MoveOnce(t.Context(), order)
	if !errors.Is(err, ErrBlocked) || !errors.Is(err, placement.ErrNoHost) || !record.Failed ||
		record.FailurePlane != migration.PlaneControl {
		t.Errorf("%+v, %v", record, err)
	}

	now, record, err := f.MoveOnce(t.Context(), order)
	if err != nil || now.Host != "kvm2" || record.TargetHost != "kvm2" {
		t.Fatalf("%+v, %v", record, err)
	}

	pinned := now.Metadata
	pinned.Host = "kvm2"

	if _, err := records.WriteMetadata(t.Context(), now, pinned); err != nil {
		t.Fatal(err)
	}

	f.Host("kvm2").Forget()

	order = move.Order{UUID: vm.UUID, Last: lastOf(now), ID: "4712", Target: "kvm1"}

	problems, err = f.CheckMigration(t.Context(), order)
	if last := len(problems) - 1; err != nil || last < 0 || !problems[last].Warning ||
		!strings.HasSuffix(problems[last].Summary, migration.HostPinned) {
		t.Errorf("%+v, %v", problems, err)
	}

	now, record, err = f.MoveOnce(t.Context(), order)
	if !errors.Is(err, ErrBlocked) || !strings.Contains(err.Error(), migration.HostPinned) || now.Host != "kvm2" ||
		!record.Failed {
		t.Errorf("%+v, %v", record, err)
	}

	order.Target = "kvm2"

	now, record, err = f.MoveOnce(t.Context(), order)
	if err != nil || now.Host != "kvm2" || record.Phase != migration.PhaseSucceeded || record.Method != "" {
		t.Errorf("where it is: %+v, %v", record, err)
	}
}
