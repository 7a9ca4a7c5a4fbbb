package fleet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/fleettest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/move"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/observe"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab/expiry"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

func TestLab_moveTakesEverythingAlong(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	f := labFleet(t, l, t.Name(), nil)
	vm := waitAgent(t, f, create(t, f, l, mover(t, l, "")))

	for _, target := range []string{"kvm2", "kvm1"} {
		problems, err := f.CheckMove(t.Context(), move.Order{UUID: vm.UUID, Last: lastOf(vm), Target: target}, nil)
		if err != nil {
			t.Fatal(err)
		}

		for _, p := range problems {
			if !p.Warning {
				t.Errorf("checking the move to %s: %+v", target, p)
			}
		}

		now, state, err := f.Move(t.Context(), vm.UUID, lastOf(vm), target, migration.Options{})
		if err != nil {
			t.Fatal(err)
		}

		if now.Host != target || !now.Running() || !now.Autostart || !now.Persistent || len(now.StaleHosts) > 0 {
			t.Errorf("after the move to %s: %+v", target, now)
		}

		if now.Metadata.Labels["app"] != "web" || now.Metadata.RunStrategy != "Always" || now.Metadata.Host != "kvm1" {
			t.Errorf("metadata on %s: %+v", target, now.Metadata)
		}

		if state.Phase != migration.PhaseSucceeded || state.Method != migration.MethodLive || state.TargetHost != target {
			t.Errorf("state %+v", state)
		}

		onlyOn(t, f, vm.UUID, target)

		if again, state, err := f.Move(t.Context(), vm.UUID, lastOf(now), target, migration.Options{}); err != nil ||
			again.Host != target || !state.Start.IsZero() {
			t.Errorf("moving it where it is: %+v, %v", state, err)
		}

		vm = now
	}
}

// Everything that blocks is told at once, before anything was touched.
func TestLab_moveIsRefusedWithAllReasons(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	f := labFleet(t, l, t.Name(), func(name string, hc *inventory.HostConfig) {
		if name == "kvm2" {
			hc.MemoryLimit = 1 << 20
		}
	})
	d := mover(t, l, "noagent")
	net := "move-" + d.Spec.Name[len(d.Spec.Name)-6:]
	l.Run(t, "kvm1", "sh", "-c", fmt.Sprintf("echo '<network><name>%s</name></network>' > /tmp/%s.xml && "+
		"virsh net-create /tmp/%s.xml", net, net, net))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()

		if _, err := l.Host("kvm1").Virsh(ctx, "net-destroy", net); err != nil {
			t.Error(err)
		}
	})

	d.Spec.Disks["data"] = domain.Disk{
		Source: domain.DiskSource{File: l.Image(t, "kvm1", d.Spec.Name+".qcow2", "qcow2", 1<<20)}, Format: "qcow2",
	}
	d.Spec.Interfaces["nat"] = domain.Interface{Network: "default"}
	d.Spec.Interfaces["lost"] = domain.Interface{Network: net}
	vm := create(t, f, l, d)

	l.Define(t, "kvm2", "<domain type='qemu'><name>"+vm.Name+"</name><memory>1024</memory>"+
		"<os><type>hvm</type></os></domain>")

	problems, err := f.CheckMove(t.Context(), move.Order{UUID: vm.UUID, Last: lastOf(vm), Target: "kvm2"}, nil)
	if err != nil {
		t.Fatal(err)
	}

	at := map[string]string{}

	for _, p := range problems {
		if !p.Warning {
			at[p.Attribute] += p.Summary

			if p.Remedy == "" {
				t.Errorf("no remedy for %+v", p)
			}
		}
	}

	want := map[string]string{
		"interfaces.nat": migration.InterfaceNotLiveMigratable, "interfaces.lost": migration.NetworkNotAvailable,
		"disks.data": migration.DisksNotLiveMigratable, "name": migration.NameTaken,
		"memory.size": migration.InsufficientMemory,
	}
	for attribute, reason := range want {
		if !strings.Contains(at[attribute], reason) {
			t.Errorf("%s: %q, want %s", attribute, at[attribute], reason)
		}
	}

	// Were the network created on the target, it would be that host's own.
	if lost := at["interfaces.lost"]; !strings.Contains(lost, migration.InterfaceNotLiveMigratable) {
		t.Errorf("interfaces.lost: %q", lost)
	}

	if len(at) != len(want) {
		t.Errorf("problems at %v", at)
	}

	now, state, err := f.Move(t.Context(), vm.UUID, lastOf(vm), "kvm2", migration.Options{})
	if !errors.Is(err, ErrBlocked) || now == nil || now.Host != "kvm1" || !state.Start.IsZero() || !now.Autostart {
		t.Errorf("Move: %+v, %+v, %v; want ErrBlocked and the VM at kvm1", now, state, err)
	}

	for _, reason := range want {
		if err != nil && !strings.Contains(err.Error(), reason) {
			t.Errorf("%v does not say %s", err, reason)
		}
	}
}

func TestLab_moveNeedsATargetThatAnswers(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	f := labFleet(t, l, t.Name(), func(name string, hc *inventory.HostConfig) {
		switch name {
		case "kvm2":
			hc.URI = "qemu+unix:///system?socket=/nowhere"
		case "kvm3":
			hc.Fenced = true
		}
	})
	vm := create(t, f, l, mover(t, l, "noagent"))

	for target, reason := range map[string]string{
		"kvm2": migration.HostNotAvailable, "kvm3": "fenced", "kvm9": "not among the configured hosts",
	} {
		problems, err := f.CheckMove(t.Context(), move.Order{UUID: vm.UUID, Last: lastOf(vm), Target: target}, nil)
		if err != nil || len(problems) != 1 || !strings.Contains(problems[0].Detail, reason) || problems[0].Warning {
			t.Errorf("%s: %+v, %v; want %q", target, problems, err, reason)
		}

		if _, _, err := f.Move(t.Context(), vm.UUID, lastOf(vm), target, migration.Options{}); err == nil {
			t.Errorf("moved to %s", target)
		}
	}
}

// What makes a migration fail leaves the VM as it was, and nothing on the target.
func TestLab_moveThatFailsChangesNothing(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	f := labFleet(t, l, t.Name(), func(name string, hc *inventory.HostConfig) {
		hc.ReadEnd = func(_ context.Context, path string, _ int) ([]byte, error) {
			return os.ReadFile(l.Host(name).Path(path))
		}
	})
	vm := booted(t, l, create(t, f, l, mover(t, l, "noagent dirty=32")))
	crawl := migration.Options{Bandwidth: new(uint64(2 << 20))}

	late := crawl
	late.CompletionTimeoutPerGiB = new(2 * time.Second)

	now, state, err := f.Move(t.Context(), vm.UUID, lastOf(vm), "kvm2", late)
	if !errors.Is(err, move.ErrNotMoved) || !errors.Is(err, migration.ErrLate) ||
		!strings.Contains(errRemedy(err), "allow_post_copy") {
		t.Errorf("too late: %v", err)
	}

	if now == nil || now.Host != "kvm1" || !now.Running() || !now.Autostart || !state.Failed {
		t.Errorf("too late: %+v, %+v", now, state)
	}

	onlyOn(t, f, vm.UUID, "kvm1")

	ctx, expire := expiry.Context(t)
	over := make(chan error, 1)

	go func() {
		var err error

		now, state, err = f.Move(ctx, vm.UUID, lastOf(vm), "kvm2", crawl)
		over <- err
	}()
	awaitJob(t, f, vm.UUID, over)
	expire()

	err = fleettest.Await(t, over)
	if !errors.Is(err, context.DeadlineExceeded) || state.AbortStatus != migration.AbortSucceeded {
		t.Errorf("timeout: %+v, %v", state, err)
	}

	if now == nil || now.Host != "kvm1" || !now.Running() || !now.Autostart {
		t.Errorf("timeout: %+v", now)
	}

	onlyOn(t, f, vm.UUID, "kvm1")

	reader := labFleet(t, l, "a reader", nil)

	listen(f, &onLog{Message: "migrating", Do: func() {
		// When libvirt has given it up, and before its end is recorded.
		listen(f, &onLog{Message: "migration failed", Do: func() {
			o, err := reader.Observe(t.Context(), observe.Question{UUID: vm.UUID})
			if err != nil || o.Migration == nil || o.Migration.Phase != migration.PhaseRunning || o.Migration.Completed() {
				t.Errorf("a killed target, while the VM is looked for: %+v, %v", o, err)
			}
		}})
		l.Run(t, "kvm2", "sh", "-c", "kill -KILL $(cat /run/libvirt/qemu/"+vm.Name+".pid)")
	}})

	_, _, err = f.Move(t.Context(), vm.UUID, lastOf(vm), "kvm2", crawl)

	var broken *inventory.Error
	if !errors.As(err, &broken) || !errors.Is(err, move.ErrNotMoved) {
		t.Fatalf("a killed target: %v", err)
	}

	if want := `The end of QEMU's log on host "kvm1":`; !strings.Contains(broken.Words, want) {
		t.Errorf("a killed target: QEMU's words are %q, want %q", broken.Words, want)
	}

	onlyOn(t, f, vm.UUID, "kvm1")
}

// Two runs that move one VM: one moves it, the other finds it moved.
func TestLab_moveIsDoneOnce(t *testing.T) {
	t.Parallel()
	doneOnce(t, status.Always)
}

// Two runs that move one VM that is off.
func TestLab_coldMoveIsDoneOnce(t *testing.T) {
	t.Parallel()
	doneOnce(t, status.Halted)
}

func doneOnce(t *testing.T, strategy string) {
	t.Helper()

	l := lab.Open(t)
	fleets := []*Fleet{labFleet(t, l, "alice", nil), labFleet(t, l, "bob", nil)}
	d := mover(t, l, "noagent")
	d.Metadata.RunStrategy = strategy
	vm := create(t, fleets[0], l, d)

	var wg sync.WaitGroup

	states := make([]migration.State, len(fleets))

	for i, f := range fleets {
		wg.Go(func() {
			now, state, err := f.Move(t.Context(), vm.UUID, lastOf(vm), "kvm2", migration.Options{})
			if err != nil || now.Host != "kvm2" {
				t.Errorf("run %d: %+v, %v", i, now, err)
			}

			states[i] = state
		})
	}

	fleettest.AwaitAll(t, &wg)

	if states[0].Start.IsZero() == states[1].Start.IsZero() {
		t.Errorf("states %+v; want one that moved", states)
	}

	onlyOn(t, fleets[0], vm.UUID, "kvm2")
}

// Two runs that move one VM to different hosts: the second is told who moves it and where to, and it stays there.
func TestLab_secondMoveIsRefused(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	alice, bob := labFleet(t, l, "alice", nil), labFleet(t, l, "bob", nil)
	vm := unpinned(t, alice, l, "dirty=16")
	over := make(chan error, 1)

	go func() {
		_, _, err := alice.Move(t.Context(), vm.UUID, lastOf(vm), "kvm2", migration.Options{Bandwidth: new(uint64(1 << 20))})
		over <- err
	}()
	awaitJob(t, alice, vm.UUID, over)

	_, state, moveErr := bob.Move(t.Context(), vm.UUID, lastOf(vm), "kvm3", migration.Options{})
	_, record, orderErr := bob.MoveOnce(t.Context(), move.Order{
		UUID: vm.UUID, Last: lastOf(vm), ID: "4711", Target: "kvm3",
	})

	for _, err := range []error{moveErr, orderErr} {
		if text := fmt.Sprint(err); !errors.Is(err, inventory.ErrBusy) ||
			!strings.Contains(text, "alice is moving it since") ||
			!strings.Contains(text, `from host "kvm1" to host "kvm2"`) {
			t.Errorf("the second is told %v", err)
		}
	}

	if !state.Start.IsZero() || !record.Failed || record.FailurePlane != migration.PlaneControl {
		t.Errorf("the second did %+v, %+v", state, record)
	}

	if err := alice.Host("kvm1").Conn.SetMigrationBandwidth(t.Context(), vm.UUID, 1<<40, false); err != nil {
		t.Error(err)
	}

	if err := fleettest.Await(t, over); err != nil {
		t.Error(err)
	}

	onlyOn(t, alice, vm.UUID, "kvm2")
}

func TestLab_moveOfAStoppedVM(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	f := labFleet(t, l, t.Name(), nil)
	d := mover(t, l, "noagent")
	d.Metadata.RunStrategy = "Manual"
	vm := create(t, f, l, d)

	l.Virsh(t, "kvm1", "autostart", vm.UUID)

	now, state, err := f.Move(t.Context(), vm.UUID, lastOf(vm), "kvm2", migration.Options{})
	if err != nil || now.Host != "kvm2" || now.State != libvirt.Shutoff || !now.Autostart ||
		state.Method != migration.MethodCold || state.Phase != migration.PhaseSucceeded {
		t.Errorf("%+v, %+v, %v", now, state, err)
	}

	onlyOn(t, f, vm.UUID, "kvm2")

	if spec := now.PersistentSpec; len(spec.Disks) != 1 || now.Metadata.Labels["app"] != "web" {
		t.Errorf("definition on kvm2: %+v", spec)
	}

	l.Virsh(t, "kvm2", "start", vm.UUID)
	l.Virsh(t, "kvm2", "managedsave", vm.UUID)

	problems, err := f.CheckMove(t.Context(), move.Order{UUID: vm.UUID, Last: lastOf(now), Target: "kvm1"}, nil)
	if err != nil || len(problems) != 1 || !strings.Contains(problems[0].Summary, migration.ManagedSaveNotMigratable) {
		t.Errorf("with a saved memory: %+v, %v", problems, err)
	}
}
