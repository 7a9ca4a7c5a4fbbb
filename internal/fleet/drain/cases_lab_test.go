package drain_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/admission"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/drain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/evacuation"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/fleettest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/hostrecord"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/lease"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/lifecycle"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/move"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/policy"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

// howStarted is what libvirt says of why a VM runs: "booted" there, or "migrated" to there.
func howStarted(t *testing.T, f *fleet.Fleet, uuid string) string {
	t.Helper()

	vm, err := f.FindNow(t.Context(), uuid, inventory.LastKnown{})
	if err != nil {
		t.Fatal(err)
	}

	return vm.Host + " " + vm.State.String() + " " + vm.Reason
}

// What a drain does with one VM or two, one after the other on the same two hosts. Each leaves them as they were.
func TestLab_drainCases(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	from, to := l.StartHost(t), l.StartHost(t)

	for _, c := range []struct {
		name string
		run  func(t *testing.T, l *lab.Lab, from, to *lab.Host)
	}{
		{"inspected while leaving", inspectedWhileLeaving},
		{"moved cold", movedCold},
		{"moved transient", movedTransient},
		{"being copied", beingCopied},
		{"two that flee to each other", fleeToEachOther},
		{"pinned meanwhile", pinnedMeanwhile},
		{"unmarked", unmarked},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, l, from, to) })
	}
}

// inspectedWhileLeaving has VMs leave while others are inspected. A VM that has left is not to be evicted, and doesn't
// keep the drain from inspecting the others.
func inspectedWhileLeaving(t *testing.T, l *lab.Lab, from, to *lab.Host) {
	t.Helper()

	alone, f := ownFleet(t, "alice", from), ownFleet(t, "alice", from, to)
	create(t, alone, l, light(t, l, "stays", nil))
	moves := create(t, alone, l, light(t, l, "moves", nil))
	off := light(t, l, "goes", nil)
	off.Metadata.RunStrategy = "Manual"
	goes := create(t, alone, l, off)

	names := func() string {
		t.Helper()

		in, onItsWay, err := drain.Input(t.Context(), f.Drainer, from.Name, true)
		if err != nil || onItsWay != nil {
			t.Fatal(err, onItsWay)
		}

		var names []string
		for _, m := range in.VMs {
			names = append(names, strings.SplitN(m.Name, "-", 2)[1])
		}

		slices.Sort(names)

		return strings.Join(names, " ")
	}

	if got := names(); got != "goes moves stays" {
		t.Errorf("at first %s", got)
	}

	// What the host said is known for a minute: it says that all are there.
	l.Virsh(t, from.Name, "undefine", goes.Name)

	if err := from.Migrate(t.Context(), moves.Name, to); err != nil {
		t.Fatal(err)
	}

	if got := names(); got != "stays" {
		t.Errorf("at last %s", got)
	}
}

// movedCold: one that can only be moved while it is off is shut down, moved and started again, with its autostart, and
// comes back in the same way. One that is off goes and comes only when that is wanted, with its disk, and stays off.
func movedCold(t *testing.T, l *lab.Lab, from, to *lab.Host) {
	t.Helper()

	alone, f := ownFleet(t, "alice", from), ownFleet(t, "alice", from, to)
	d := light(t, l, "nat", nil)
	d.Spec.Interfaces["nat"] = domain.Interface{Network: "default"} // Each host's own, so it can't be moved live.
	unlisted := imageInNoPool(t, l, from, to)
	d.Spec.Disks["unlisted"] = domain.Disk{Source: domain.DiskSource{File: unlisted}, Format: "raw"}
	vm := create(t, alone, l, d)
	d = light(t, l, "off", nil)
	d.Metadata.RunStrategy = "Manual"
	image := l.Image(t, from.Name, d.Spec.Name+".raw", "raw", 1<<20)
	d.Spec.Disks["data"] = domain.Disk{Source: domain.DiskSource{File: image}, Format: "raw"}
	off := create(t, alone, l, d)
	rule := evacuation.Policy{
		Identity: policy.Identity{ID: "1", Name: "all"}, Strategy: evacuation.LiveMigrate, Fallback: evacuation.ColdMigrate,
	}

	if _, err := f.EvictionPolicies().Put(t.Context(), rule); err != nil {
		t.Fatal(err)
	}

	notShutDownInVain(t, l, f, vm, from, to.Path(unlisted))
	shutDownInVainOnce(t, l, f, vm, from, to.Path(unlisted))

	steps, err := drainNow(t, f, drain.Drain{Host: from.Name, ID: "m", Why: "a test", MoveStopped: true})
	if got := resultsOf(steps); err != nil || got != "nat=ColdMoved off=ColdMoved" {
		t.Fatalf("%s, %v, %+v", got, err, steps)
	}

	for _, s := range steps {
		if s.Ran != (s.UUID == vm.UUID) {
			t.Errorf("%s ran before: %v", s.Name, s.Ran)
		}

		if forced := s.ForcedOff != nil && s.ForcedOff.Host == from.Name; forced != s.Ran ||
			strings.Contains(s.Reason, "forced off") != s.Ran {
			t.Errorf("%s was forced off: %+v, %q; want that the one that ran was", s.Name, s.ForcedOff, s.Reason)
		}
	}

	record, err := f.Record(t.Context(), from.Name)
	if err != nil || !slices.ContainsFunc(record.Evacuation.Steps, func(s hostrecord.RecordedStep) bool {
		return s.UUID == vm.UUID && strings.Contains(s.Reason, "forced off") && s.ForcedOff == nil
	}) {
		t.Errorf("the record doesn't tell that it was forced off, or a later run would warn again: %+v, %v", record, err)
	}

	onlyOn(t, f, vm.UUID, to.Name)
	onlyOn(t, f, off.UUID, to.Name)

	// What it has by now is what comes back.
	if err := os.WriteFile(to.Path(image), bytes.Repeat([]byte("new"), 1<<10), 0o600); err != nil {
		t.Fatal(err)
	}

	now, err := f.FindNow(t.Context(), vm.UUID, inventory.LastKnown{})
	if err != nil || !now.Active || !now.Autostart || now.Metadata.Eviction != nil {
		t.Errorf("after the move: %+v, %v", now, err)
	}

	if got := howStarted(t, f, vm.UUID); !strings.HasSuffix(got, "Running Booted") {
		t.Errorf("it is %s, want that it was started again", got)
	}

	released, err := f.Release(t.Context(), from.Name, "m", drain.Restore{Wanted: true})
	if err != nil || len(released.ForcedOff) != 1 || released.ForcedOff[0].Name != vm.Name ||
		released.ForcedOff[0].Host != to.Name {
		t.Fatalf("%+v, %v; want that it tells which guest was forced off", released, err)
	}

	onlyOn(t, f, vm.UUID, from.Name)
	onlyOn(t, f, off.UUID, from.Name)

	if now, err := f.FindNow(t.Context(), vm.UUID, inventory.LastKnown{}); err != nil || !now.Active || !now.Autostart {
		t.Errorf("brought back: %+v, %v", now, err)
	}

	if now, err := f.FindNow(t.Context(), off.UUID, inventory.LastKnown{}); err != nil || now.Active || now.Autostart {
		t.Errorf("it was off: %+v, %v", now, err)
	}

	if got, err := os.ReadFile(from.Path(image)); err != nil || !bytes.HasPrefix(got, []byte("newnew")) {
		t.Errorf("its disk came back as %.9q, %v", got, err)
	}

	if _, err := os.Stat(to.Path(image)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a copy of its disk is left: %v", err)
	}

	if _, err := f.EvictionPolicies().Remove(t.Context(), rule.ID); err != nil {
		t.Fatal(err)
	}
}

// imageInNoPool makes an image on a host, in a directory that no storage pool of the hosts shows.
func imageInNoPool(t *testing.T, l *lab.Lab, from, to *lab.Host) string {
	t.Helper()

	dir := "/var/lib/libvirt/" + lab.Name(t)
	for _, h := range []*lab.Host{from, to} {
		if err := os.Mkdir(h.Path(dir), 0o711); err != nil { //nolint:gosec // As libvirt's own.
			t.Fatal(err)
		}

		t.Cleanup(func() {
			if err := os.RemoveAll(h.Path(dir)); err != nil {
				t.Error(err)
			}
		})
	}

	l.Run(t, from.Name, "qemu-img", "create", "-q", "-f", "raw", dir+"/unlisted.raw", "1M")

	return dir + "/unlisted.raw"
}

// strangerAt makes a file that belongs to another VM.
func strangerAt(t *testing.T, path string) {
	t.Helper()

	if err := os.WriteFile(path, []byte("another VM's"), 0o600); err != nil {
		t.Error(err)
	}
}

// notShutDownInVain: a guest isn't shut down for a move that another VM's file there blocks, which no plan saw.
func notShutDownInVain(t *testing.T, l *lab.Lab, f *fleet.Fleet, vm *inventory.VM, from *lab.Host, stranger string) {
	t.Helper()

	strangerAt(t, stranger)

	run := l.Virsh(t, from.Name, "domid", vm.UUID)
	ctx, cancel := context.WithCancel(t.Context())
	listen(f, &onLog{Message: "eviction failed, will be tried again", Do: cancel})

	steps, err := f.Drain(ctx, drain.Drain{Host: from.Name, ID: "m", Why: "a test"})
	if got := resultsOf(steps); got != "nat=Failed off=Left" || err == nil ||
		!strings.Contains(err.Error(), migration.DiskPathTaken) ||
		!strings.Contains(err.Error(), "/unlisted.raw") {
		t.Errorf("%s, %v; want the file named that blocks the move", got, err)
	}

	for _, s := range steps {
		if s.Ran {
			t.Errorf("%s is recorded as shut down", s.Name)
		}
	}

	if now := l.Virsh(t, from.Name, "domid", vm.UUID); now != run {
		t.Errorf("it was run %s and is %s now, want that it wasn't shut down", run, now)
	}

	if got, err := os.ReadFile(stranger); err != nil || string(got) != "another VM's" {
		t.Errorf("the other VM's file: %q, %v", got, err)
	}

	if err := os.Remove(stranger); err != nil {
		t.Fatal(err)
	}
}

// shutDownInVainOnce: a guest that was shut down before its move turned out to be impossible runs again, and isn't shut
// down again by the same drain.
func shutDownInVainOnce(t *testing.T, l *lab.Lab, f *fleet.Fleet, vm *inventory.VM, from *lab.Host, stranger string) {
	t.Helper()

	run, err := strconv.Atoi(strings.TrimSpace(l.Virsh(t, from.Name, "domid", vm.UUID)))
	if err != nil {
		t.Fatal(err)
	}

	listen(f, &onLog{Message: "turning off VM", Do: func() { strangerAt(t, stranger) }})

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()

	steps, err := f.Drain(ctx, drain.Drain{Host: from.Name, ID: "m", Why: "a test"})
	if got := resultsOf(steps); got != "nat=Failed off=Left" || err == nil || ctx.Err() != nil ||
		!strings.Contains(err.Error(), "/unlisted.raw") || !strings.Contains(err.Error(), "shut down for this move") {
		t.Errorf("%s, %v, %v; want that it ends by itself, and says why", got, err, ctx.Err())
	}

	if now := strings.TrimSpace(l.Virsh(t, from.Name, "domid", vm.UUID)); now != strconv.Itoa(run+1) {
		t.Errorf("it was run %d and is %s now, want that it was shut down once and started again", run, now)
	}

	if err := os.Remove(stranger); err != nil {
		t.Fatal(err)
	}
}

// movedTransient: a VM that was only ever started, and never defined, leaves while it runs and is nowhere given a
// definition, neither there nor when it is brought back.
func movedTransient(t *testing.T, l *lab.Lab, from, to *lab.Host) {
	t.Helper()

	alone, f := ownFleet(t, "alice", from), ownFleet(t, "alice", from, to)
	d := evacuee(t, l, "passing", nil)
	d.Metadata.RunStrategy = "Manual"
	vm := create(t, alone, l, d)
	file := t.TempDir() + "/domain.xml"

	if err := os.WriteFile(file, []byte(l.Virsh(t, from.Name, "dumpxml", vm.UUID)), 0o600); err != nil {
		t.Fatal(err)
	}

	l.Virsh(t, from.Name, "undefine", vm.UUID)
	l.Virsh(t, from.Name, "create", file)

	f.ForgetAll()

	is := func(host, how string) {
		t.Helper()

		now, err := f.FindNow(t.Context(), vm.UUID, inventory.LastKnown{})
		if err != nil || now.Persistent || now.Metadata.Eviction != nil || howStarted(t, f, vm.UUID) != host+" Running "+how {
			t.Errorf("%+v, %v; want it on %s, transient and %s", now, err, host, how)
		}

		onlyOn(t, f, vm.UUID, host)

		if out := l.Virsh(t, host, "list", "--all", "--persistent", "--name"); strings.TrimSpace(out) != "" {
			t.Errorf("defined on %s: %s", host, out)
		}
	}
	is(from.Name, "Booted")

	steps, err := drainNow(t, f, drain.Drain{Host: from.Name, ID: "m", Why: "a test"})
	if got := resultsOf(steps); err != nil || got != "passing=Moved" {
		t.Fatalf("%s, %v", got, err)
	}

	is(to.Name, "Migrated")

	if _, err := f.Release(t.Context(), from.Name, "m", drain.Restore{Wanted: true}); err != nil {
		t.Fatal(err)
	}

	is(from.Name, "Migrated")
}

// beingCopied: a VM whose disk is being copied, as by a backup, isn't shut down for that, whatever its fallback. A
// drain isn't begun meanwhile and says why. One that has begun waits, and moves the VM when the copy has ended.
func beingCopied(t *testing.T, l *lab.Lab, from, to *lab.Host) {
	t.Helper()

	f := ownFleet(t, "alice", from, to)
	vm := create(t, ownFleet(t, "alice", from), l, light(t, l, "copied", nil))
	rule := evacuation.Policy{
		Identity: policy.Identity{ID: "1", Name: "all"}, Strategy: evacuation.LiveMigrate, Fallback: evacuation.Shutdown,
	}

	if _, err := f.EvictionPolicies().Put(t.Context(), rule); err != nil {
		t.Fatal(err)
	}

	image := l.Image(t, from.Name, vm.Name+"-copy", "raw", 16<<20)
	l.Virsh(t, from.Name, "blockcopy", vm.UUID, "vda", image, "--reuse-external", "--format", "raw", "--transient-job")

	_, err := drainNow(t, f, drain.Drain{Host: from.Name, ID: "m", Why: "a test"})
	blocked(t, err, migration.BlockJobsNotLiveMigratable, "vda")

	d := drain.Begun(f.Drainer, drain.Drain{Host: from.Name, ID: "m"}, hostrecord.RecordedStep{Step: evacuation.Step{
		UUID: vm.UUID, Name: vm.Name, Strategy: evacuation.LiveMigrate, Method: evacuation.MethodLive, Target: to.Name,
	}})

	_, err = d.Try(t.Context(), 0, d.Rule(0))
	blocked(t, err, migration.BlockJobsNotLiveMigratable, "vda")

	if drain.IsPermanent(err) || d.Stuck(t.Context(), 0, err) {
		t.Errorf("it isn't tried again: %v", err)
	}

	d.Retarget(t.Context(), 0)

	if s := d.Step(0); s.Method != evacuation.MethodLive || s.Target != to.Name {
		t.Errorf("while it is being copied its step is %+v", *s)
	}

	if got := howStarted(t, f, vm.UUID); got != from.Name+" Running Booted" {
		t.Errorf("while it is being copied it is %s", got)
	}

	l.Virsh(t, from.Name, "blockjob", vm.UUID, "vda", "--abort")

	if result, err := d.Try(t.Context(), 0, d.Rule(0)); err != nil || result != hostrecord.ResultMoved {
		t.Errorf("when the copy has ended: %s, %v", result, err)
	}

	onlyOn(t, f, vm.UUID, to.Name)

	if _, err := f.EvictionPolicies().Remove(t.Context(), rule.ID); err != nil {
		t.Fatal(err)
	}
}

// A policy's timeout ends the eviction of its VM, not the drain: the others go, also those of a lower priority that had
// to wait for it, and the outcome says why that one stayed.
func TestLab_drainPolicyTimeout(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	from, to := l.StartHost(t), l.StartHost(t)
	cfg := ownConfig("alice", from, to)
	cfg.MigrationLimits.OutboundPerHost = 1
	alone, f := ownFleet(t, "alice", from), openFleet(t, cfg)
	waiting := create(t, alone, l, light(t, l, "waiting", map[string]string{"kind": "waiting"}))
	quick := create(t, alone, l, light(t, l, "quick", nil))
	wish := evacuee(t, l, "endless", map[string]string{"kind": "endless"})
	wish.Spec.Kernel.Cmdline += " dirty=16"
	endless := booted(t, l, create(t, alone, l, wish))

	wish = light(t, l, "deaf", map[string]string{"kind": "deaf"})
	wish.Metadata.TerminationGracePeriod = new(time.Hour)
	deaf := create(t, alone, l, wish)

	rules := map[string]evacuation.Policy{
		"waiting": {Strategy: evacuation.External},
		"endless": {Strategy: evacuation.LiveMigrate, Options: crawling()},
		"deaf":    {Strategy: evacuation.None},
	}
	for kind, rule := range rules {
		rule.Identity = policy.Identity{
			ID: kind, Name: kind, Selector: policy.Selector{Labels: map[string]string{"kind": kind}},
		}
		rule.Priority, rule.Timeout = 50, new(15*time.Second) // Time enough to begin with it.
		rules[kind] = rule

		if _, err := f.EvictionPolicies().Put(t.Context(), rule); err != nil {
			t.Fatal(err)
		}
	}

	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()

	steps, err := f.Drain(ctx, drain.Drain{Host: from.Name, ID: "m", Why: "a test"})
	if !errors.Is(err, move.ErrNotMoved) || ctx.Err() != nil {
		t.Fatalf("%v, %v", err, ctx.Err())
	}

	for _, want := range []string{
		`"` + waiting.Name + `" (External)`, "it was not moved away", `policy "waiting" gives it`,
		`"` + endless.Name + `" (LiveMigration)`, `policy "endless" gives it`,
		`"` + deaf.Name + `" (Shutdown)`, `policy "deaf" gives it`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in: %v", want, err)
		}
	}

	if got := resultsOf(steps); got != "deaf=Failed endless=Failed quick=Moved waiting=Failed" ||
		strings.Contains(err.Error(), "interrupted") {
		t.Errorf("%s, %v", got, err)
	}

	for _, late := range []*inventory.VM{waiting, endless, deaf} {
		if vm, err := f.FindNow(t.Context(), late.UUID, inventory.LastKnown{}); err != nil || vm.Host != from.Name ||
			!vm.Running() ||
			vm.Migrating || vm.Metadata.Eviction != nil {
			t.Errorf("%s: %+v, %v; want it where it was, without the mark", late.Name, vm, err)
		}
	}

	if got := howStarted(t, f, quick.UUID); got != to.Name+" Running Migrated" {
		t.Errorf("the other: %s", got)
	}

	if _, err := f.Release(t.Context(), from.Name, "m", drain.Restore{}); err != nil {
		t.Error(err)
	}

	if vm, err := f.FindNow(t.Context(), deaf.UUID, inventory.LastKnown{}); err != nil || !vm.Running() || !vm.Autostart {
		t.Errorf("who didn't shut down: %+v, %v; want its autostart back", vm, err)
	}

	outOfTime(t, f, rules, from.Name, endless, waiting)
	l.Virsh(t, from.Name, "destroy", deaf.UUID) // That is how its guest shuts down after all.
	f.Host(from.Name).Forget()

	vm, err := f.FindNow(t.Context(), deaf.UUID, inventory.LastKnown{})
	if err != nil || vm.Active {
		t.Fatalf("%+v, %v", vm, err)
	}

	if why, err := f.Evicted(t.Context(), vm); err != nil || why == "" {
		t.Errorf("who shut down late isn't said to be off for the maintenance: %q, %v", why, err)
	}
}

// outOfTime drains once more, with policies that give no time. A drain that runs out of time says whose time that was,
// and of each VM that stayed what was waited for and what was seen last.
func outOfTime(
	t *testing.T, f *fleet.Fleet, rules map[string]evacuation.Policy, from string, endless, external *inventory.VM,
) {
	t.Helper()

	for _, rule := range rules {
		rule.Timeout = nil
		if _, err := f.EvictionPolicies().Put(t.Context(), rule); err != nil {
			t.Fatal(err)
		}
	}

	limit := fmt.Errorf("%w: the user gave no more", context.DeadlineExceeded)

	// A busy computer needs a while until the endless one is being copied.
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, limit)
	defer cancel()

	deadline, _ := ctx.Deadline()
	steps, err := f.Drain(ctx, drain.Drain{Host: from, ID: "m", Why: "a test"})
	t.Logf("it ended %s after its deadline", time.Since(deadline).Round(time.Millisecond))

	if !errors.Is(err, move.ErrNotMoved) || resultsOf(steps) != "deaf=Failed endless=Failed quick=Moved waiting=Failed" {
		t.Fatalf("%s, %v", resultsOf(steps), err)
	}

	for _, want := range []string{
		"the user gave no more; host \"" + from + "\" is cordoned and not drained",
		fmt.Sprintf("%q (LiveMigration): it was not moved", endless.Name), "its timeout is over", "last seen after",
		fmt.Sprintf("%q (External): its strategy is External, and it was not moved away", external.Name),
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in: %v", want, err)
		}
	}

	if strings.Contains(err.Error(), "interrupted") {
		t.Errorf("it was not interrupted: %v", err)
	}

	if vm, err := f.FindNow(t.Context(), endless.UUID, inventory.LastKnown{}); err != nil || vm.Host != from ||
		!vm.Running() || vm.Migrating || vm.Metadata.Eviction != nil {
		t.Errorf("%+v, %v; want it where it was, without the mark", vm, err)
	}
}

// fleeToEachOther: two hosts that are drained at once, each of which would flee to the other: no VM is moved onto a
// host that is being drained, none is moved in circles or lost, and whoever can't go anywhere is told.
func fleeToEachOther(t *testing.T, l *lab.Lab, from, to *lab.Host) {
	t.Helper()

	hosts := []*lab.Host{from, to}
	fleets := []*fleet.Fleet{ownFleet(t, "alice", hosts...), ownFleet(t, "bob", hosts...)}
	made := make([]*inventory.VM, len(hosts))

	for i, h := range hosts {
		made[i] = create(t, ownFleet(t, "carol", h), l, light(t, l, h.Name, nil))
	}

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()

	ends := make([]chan error, len(hosts))

	for i, h := range hosts {
		ends[i] = make(chan error, 1)

		go func() {
			_, err := fleets[i].Drain(ctx, drain.Drain{Host: h.Name, ID: h.Name, Why: "a test"})
			ends[i] <- err
		}()
	}

	// Both might try for as long as they are let. From when both are cordoned, they have time enough to do wrong.
	awaitBegunOrOver(t, ownFleet(t, "carol", hosts...), hosts, ends)
	time.AfterFunc(20*time.Second, cancel)

	failed := 0

	for i := range hosts {
		err := fleettest.Await(t, ends[i])
		if err == nil {
			continue
		}

		failed++

		if !errors.Is(err, migration.ErrBlocked) && !errors.Is(err, move.ErrNotMoved) {
			t.Errorf("host %s: %v", hosts[i].Name, err)
		}

		if s := err.Error(); !strings.Contains(s, "ordoned") || !strings.Contains(s, made[i].Name) {
			t.Errorf("host %s: %v; want that the other one is cordoned", hosts[i].Name, err)
		}
	}

	if failed == 0 {
		t.Error("both hosts are said to be empty")
	}

	for i, vm := range made {
		now, err := fleets[0].FindNow(t.Context(), vm.UUID, inventory.LastKnown{})
		if err != nil || !now.Active || now.Migrating || now.Metadata.Eviction != nil {
			t.Errorf("the VM of %s: %+v, %v", hosts[i].Name, now, err)

			continue
		}

		onlyOn(t, fleets[0], vm.UUID, now.Host)

		if n := len(now.Metadata.Migrations); n > 1 {
			t.Errorf("%s was moved %d times", vm.Name, n)
		}
	}

	for i, h := range hosts {
		if _, err := fleets[i].Release(t.Context(), h.Name, h.Name, drain.Restore{}); err != nil {
			t.Error(err)
		}
	}
}

// awaitBegunOrOver waits until every host is cordoned and its steps are recorded, or its drain has ended.
func awaitBegunOrOver(t *testing.T, f *fleet.Fleet, hosts []*lab.Host, ends []chan error) {
	t.Helper()

	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()

	for i, h := range hosts {
		for len(ends[i]) == 0 {
			record, _, err := inventory.ReadRecord(ctx, f.Host(h.Name))
			if err != nil {
				t.Fatal(err)
			}

			if record.Cordon != nil && record.Evacuation != nil {
				break
			}

			if err := admission.Pause(ctx, 100*time.Millisecond); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// What fails with one target is tried with another one.
func TestLab_drainChoosesAnotherTarget(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	from, bad, good := l.StartHost(t), l.StartHost(t), l.StartHost(t)
	alone, f := ownFleet(t, "alice", from), ownFleet(t, "alice", from, bad, good)
	vm := create(t, alone, l, light(t, l, "web", nil))

	// That this address leads the other host to itself is only seen there.
	f.Host(bad.Name).Config.MigrationAddress = "127.0.0.1"
	f.Host(bad.Name).Config.MemoryLimit = 1 << 50 // The emptiest, so it is tried first.

	plan, err := f.PlanEvacuation(t.Context(), from.Name, drain.EvacuationQuery{})
	if err != nil || plan.Steps[0].Target != bad.Name {
		t.Fatalf("%+v, %v", plan.Steps, err)
	}

	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()

	steps, err := f.Drain(ctx, drain.Drain{Host: from.Name, ID: "m", Why: "a test"})
	if err != nil || steps[0].Result != hostrecord.ResultMoved || steps[0].Target != good.Name {
		t.Fatalf("%+v, %v", steps, err)
	}

	onlyOn(t, f, vm.UUID, good.Name)

	now, err := f.FindNow(t.Context(), vm.UUID, inventory.LastKnown{})
	if err != nil || now.Metadata.Eviction != nil || howStarted(t, f, vm.UUID) != good.Name+" Running Migrated" {
		t.Errorf("%+v, %v", now, err)
	}

	if n := len(now.Metadata.Migrations); n != 2 || now.Metadata.Migrations[0].TargetHost != bad.Name ||
		now.Metadata.Migrations[0].Phase != migration.PhaseFailed {
		t.Errorf("%+v; want the failed one, and the one that moved it", now.Metadata.Migrations)
	}

	if _, err := f.Release(t.Context(), from.Name, "m", drain.Restore{Wanted: true}); err != nil {
		t.Fatal(err)
	}

	onlyOn(t, f, vm.UUID, from.Name)
}

// pinnedMeanwhile: a VM that its configuration pins to the host after the drain was prepared is neither moved nor shut
// down to be moved.
func pinnedMeanwhile(t *testing.T, l *lab.Lab, from, to *lab.Host) {
	t.Helper()

	f := ownFleet(t, "alice", from, to)
	made := light(t, l, "late", nil)
	made.Metadata.Host = from.Name
	vm := create(t, ownFleet(t, "alice", from), l, made)

	for _, method := range []string{evacuation.MethodLive, evacuation.MethodCold} {
		d := drain.Begun(f.Drainer, drain.Drain{Host: from.Name}, hostrecord.RecordedStep{
			Step: evacuation.Step{UUID: vm.UUID, Name: vm.Name, Method: method, Target: to.Name},
		})

		if _, err := d.Try(t.Context(), 0, evacuation.Rule{}); !errors.Is(err, move.ErrStays) {
			t.Errorf("%s: %v", method, err)
		}

		now, err := f.FindNow(t.Context(), vm.UUID, inventory.LastKnown{})
		if err != nil || len(now.Metadata.Migrations) > 0 {
			t.Errorf("%s: %+v, %v", method, now, err)
		}

		if got := howStarted(t, f, vm.UUID); got != from.Name+" Running Booted" {
			t.Errorf("%s: it is %s", method, got)
		}
	}
}

// unmarked: a VM that can't be given the request is not evicted without it: whoever is in charge of an external one
// would never know.
func unmarked(t *testing.T, l *lab.Lab, from, to *lab.Host) {
	t.Helper()

	f := ownFleet(t, "alice", from, to)
	vm := create(t, ownFleet(t, "alice", from), l, light(t, l, "external", nil))
	d := drain.Begun(f.Drainer, drain.Drain{Host: from.Name}, hostrecord.RecordedStep{
		Step: evacuation.Step{UUID: vm.UUID, Name: vm.Name, Method: evacuation.MethodExternal},
	})
	metadata := func(more ...string) {
		t.Helper()
		l.Virsh(t, from.Name,
			append([]string{"metadata", vm.UUID, domain.MetadataNamespace, "--live", "--config"}, more...)...)
	}

	metadata("--key", domain.MetadataKey, "--set", `<vm version="99"/>`) // Only a newer version writes to that.
	d.MarkAll(t.Context())

	if _, err := d.Try(t.Context(), 0, evacuation.Rule{}); !errors.Is(err, domain.ErrNewerMetadata) {
		t.Errorf("while it can't be marked: %v", err)
	}

	metadata("--remove")

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()

	over := make(chan error, 1)

	go func() {
		_, err := d.Try(ctx, 0, evacuation.Rule{})
		over <- err
	}()

	for awaited := false; !awaited; { // It is marked, and who marked it has let go of it.
		now, err := f.FindNow(t.Context(), vm.UUID, inventory.LastKnown{})
		if err != nil || admission.Pause(t.Context(), 100*time.Millisecond) != nil {
			t.Fatal(err)
		}

		_, lock := f.Host(from.Name).Conn.OwnSecret(t.Context(), lease.UsagePrefix+vm.UUID)
		awaited = now.Metadata.Eviction != nil && inventory.IsNotFound(lock)
	}

	cancel()

	if err := fleettest.Await(t, over); !errors.Is(err, lifecycle.ErrNotReady) {
		t.Errorf("awaited in vain: %v", err)
	}
}
