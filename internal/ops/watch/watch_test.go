package watch

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/ops/opstest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider"
)

func TestMain(m *testing.M) { opstest.Main(m) }

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.Local)

// listed is a VM that runs on kvm1 and has an open agent channel, changed.
func listed(name string, change func(*fleet.VM)) fleet.Listed {
	vm := &fleet.VM{
		UUID: "uuid-" + name, Name: name, Host: "kvm1", HostUUID: "1", State: libvirt.Running, Reason: "Booted", Active: true,
		Persistent: true, ActiveHosts: map[string]status.Role{"kvm1": status.RoleActive},
	}
	if change != nil {
		change(vm)
	}
	return fleet.Listed{UUID: vm.UUID, Name: name, VM: vm}
}

func paused(vm *fleet.VM) { vm.State, vm.Reason = libvirt.Paused, "User" }

// started is a VM that runs since the start on its host that has this number.
func started(number int) func(*fleet.VM) {
	return func(vm *fleet.VM) {
		vm.Entry = inventory.NewEntry(libvirt.Domain{LiveXML: fmt.Sprintf("<domain type='qemu' id='%d'/>", number)})
	}
}

func off(vm *fleet.VM) {
	vm.State, vm.Reason, vm.Active, vm.ActiveHosts = libvirt.Shutoff, "Shutdown", false, nil
}

func migrating(vm *fleet.VM) {
	vm.Migrating = true
	vm.ActiveHosts = map[string]status.Role{"kvm1": status.RoleSource, "kvm2": status.RoleTarget}
}

func postCopy(vm *fleet.VM) {
	migrating(vm)
	vm.Host, vm.HostUUID, vm.Reason = "kvm2", "2", "Postcopy"
}

// orphaned is a VM in post-copy whose source doesn't answer.
func orphaned(vm *fleet.VM) {
	postCopy(vm)
	vm.Migrating, vm.SilentHosts = false, []string{"kvm1"}
	vm.ActiveHosts = map[string]status.Role{"kvm2": status.RoleActive}
}

func arrivedAt2(vm *fleet.VM) {
	vm.Host, vm.HostUUID, vm.Reason = "kvm2", "2", "Migrated"
	vm.ActiveHosts = map[string]status.Role{"kvm2": status.RoleActive}
}

func job() *libvirt.Job {
	return &libvirt.Job{
		Type: libvirt.JobUnbounded, Operation: libvirt.OperationMigrationOut, Elapsed: 12 * time.Second,
		Data:       libvirt.Transfer{Total: 256 << 20, Processed: 200 << 20, Remaining: 64 << 20},
		MemoryRate: 100 << 20, DirtyRate: 512, PageSize: 4096, Iteration: 3,
	}
}

// TestModel_tellsChanges plays what hosts say one after another, a second apart, and reads what is told of it.
func TestModel_tellsChanges(t *testing.T) {
	t.Parallel()
	refused := errors.New("refused")
	silent := func(name string) fleet.Listed {
		return fleet.Listed{UUID: "uuid-" + name, Name: name, Err: fmt.Errorf("%w: kvm1", fleet.ErrUnreachable)}
	}
	type moment struct {
		down  error // kvm1 doesn't answer
		found []fleet.Listed
		job   *libvirt.Job
		want  []string
	}
	twice := listed("web", func(vm *fleet.VM) { vm.Host = "kvm2" })
	twice.Doubles = []status.Double{{UUID: "other", Host: "kvm1", Disk: "root"}}
	for name, moments := range map[string][]moment{
		"the first look tells nothing": {{found: []fleet.Listed{listed("web", nil)}}},
		"new and gone": {
			{},
			{found: []fleet.Listed{listed("web", nil)}, want: []string{"kvm1 web new: Running (Booted)"}},
			{want: []string{"kvm1 web undefined: no host has it any more, it was Running (Booted), after 1s"}},
		},
		"paused and resumed, the second with its time": {
			{found: []fleet.Listed{listed("web", nil)}},
			{found: []fleet.Listed{listed("web", paused)}, want: []string{
				"kvm1 web Running (Booted) -> Paused (User); Ready=False (PausedByUser); Paused=True (PausedByUser)",
			}},
			{found: []fleet.Listed{listed("web", paused)}},
			{found: []fleet.Listed{listed("web", nil)}, want: []string{
				"kvm1 web Paused (User) -> Running (Booted); Ready=True (GuestRunning); Paused=False (NotPaused), after 2s",
			}},
		},
		"moved": {
			{found: []fleet.Listed{listed("web", nil)}},
			{found: []fleet.Listed{listed("web", migrating)}, want: []string{
				"kvm1 web Running (Booted) -> Migrating (kvm1 -> kvm2, PreCopy)",
			}},
			{found: []fleet.Listed{listed("web", migrating)}, job: job()},
			{found: []fleet.Listed{listed("web", postCopy)}, job: job(), want: []string{
				"kvm2 web Migrating (kvm1 -> kvm2, PreCopy) -> Migrating (kvm1 -> kvm2, PostCopy), after 2s",
			}},
			// Its source, which was asked earlier, still reported a job.
			{found: []fleet.Listed{listed("web", arrivedAt2)}, job: job(), want: []string{
				"kvm2 web Migrating (kvm1 -> kvm2, PostCopy) -> Running (Migrated) on kvm2, after 3s",
			}},
		},
		"post-copy, and the source falls silent: the guest runs, and the move hasn't ended": {
			{found: []fleet.Listed{listed("web", nil)}},
			{found: []fleet.Listed{listed("web", postCopy)}, job: job(), want: []string{
				"kvm2 web Running (Booted) -> Migrating (kvm1 -> kvm2, PostCopy)",
			}},
			{down: refused, found: []fleet.Listed{listed("web", orphaned)}, want: []string{
				"kvm1 - does not answer: refused",
			}},
			{found: []fleet.Listed{listed("web", postCopy)}, job: job(), want: []string{"kvm1 - answers again, after 1s"}},
			{found: []fleet.Listed{listed("web", arrivedAt2)}, want: []string{
				"kvm2 web Migrating (kvm1 -> kvm2, PostCopy) -> Running (Migrated) on kvm2, after 3s",
			}},
		},
		"the host of a second copy answers again": {
			{down: refused, found: []fleet.Listed{listed("web", func(vm *fleet.VM) {
				vm.Host, vm.SilentHosts = "kvm2", []string{"kvm1"}
			})}, want: []string{"kvm1 - does not answer: refused"}},
			{found: []fleet.Listed{twice}, want: []string{
				"kvm1 - answers again, after 1s", "kvm2 web TwoCopies=True (SameNameAndDisk)",
			}},
		},
		"handed over: the guest is paused, then runs on the target while both ends finish": {
			{found: []fleet.Listed{listed("web", nil)}},
			{found: []fleet.Listed{listed("web", func(vm *fleet.VM) {
				migrating(vm)
				vm.State, vm.Reason = libvirt.Paused, "Migration"
			})}, want: []string{"kvm1 web Running (Booted) -> Migrating (kvm1 -> kvm2, Paused)"}},
			{found: []fleet.Listed{listed("web", func(vm *fleet.VM) {
				migrating(vm)
				vm.Host, vm.Reason = "kvm2", "Migrated"
			})}},
			{found: []fleet.Listed{listed("web", arrivedAt2)}, want: []string{
				"kvm2 web Migrating (kvm1 -> kvm2, Paused) -> Running (Migrated) on kvm2, after 2s",
			}},
		},
		"transient: the source is gone while its target still waits": {
			{found: []fleet.Listed{listed("web", migrating)}},
			{found: []fleet.Listed{listed("web", func(vm *fleet.VM) {
				arrivedAt2(vm)
				vm.Migrating, vm.ActiveHosts = true, map[string]status.Role{"kvm2": status.RoleSource}
			})}},
			{found: []fleet.Listed{listed("web", arrivedAt2)}, want: []string{
				"kvm2 web Migrating (kvm1 -> kvm2, PreCopy) -> Running (Migrated) on kvm2",
			}},
		},
		"started": {
			{found: []fleet.Listed{listed("web", off)}},
			{
				found: []fleet.Listed{listed("web", func(vm *fleet.VM) { vm.State, vm.Reason = libvirt.Paused, "StartingUp" })},
				want:  []string{"kvm1 web Stopped (Shutdown) -> Starting (StartingUp)"},
			},
			{found: []fleet.Listed{listed("web", nil)}, want: []string{
				"kvm1 web Starting (StartingUp) -> Running (Booted); Ready=True (GuestRunning), after 1s",
			}},
		},
		"started again, unseen": {
			{found: []fleet.Listed{listed("web", started(6))}},
			{found: []fleet.Listed{listed("web", started(6))}},
			{found: []fleet.Listed{listed("web", started(7))}, want: []string{"kvm1 web the guest was started again"}},
			{down: refused, found: []fleet.Listed{silent("web")}, want: []string{"kvm1 - does not answer: refused"}},
			{found: []fleet.Listed{listed("web", started(1))}, want: []string{
				"kvm1 - answers again, after 1s", "kvm1 web the guest was started again, after 2s",
			}},
		},
		// The definition, which has the number, is read after the state.
		"stopped and started, which the status shows": {
			{found: []fleet.Listed{listed("web", started(6))}},
			{found: []fleet.Listed{listed("web", func(vm *fleet.VM) {
				started(6)(vm)
				off(vm)
			})}, want: []string{"kvm1 web Running (Booted) -> Stopped (Shutdown); Ready=False (GuestNotRunning)"}},
			{found: []fleet.Listed{listed("web", started(6))}, want: []string{
				"kvm1 web Stopped (Shutdown) -> Running (Booted); Ready=True (GuestRunning), after 1s",
			}},
			{found: []fleet.Listed{listed("web", started(7))}},
			{found: []fleet.Listed{listed("web", started(8))}, want: []string{
				"kvm1 web the guest was started again, after 2s",
			}},
		},
		"a move isn't a start": {
			{found: []fleet.Listed{listed("web", started(6))}},
			{found: []fleet.Listed{listed("web", func(vm *fleet.VM) {
				started(3)(vm)
				arrivedAt2(vm)
			})}, want: []string{"kvm2 web Running (Booted) on kvm1 -> Running (Migrated) on kvm2"}},
		},
		// The definition of the first stay is known until the host is read again.
		"moved there and back": {
			{found: []fleet.Listed{listed("web", started(6))}},
			{found: []fleet.Listed{listed("web", func(vm *fleet.VM) {
				started(3)(vm)
				arrivedAt2(vm)
			})}, want: []string{"kvm2 web Running (Booted) on kvm1 -> Running (Migrated) on kvm2"}},
			{found: []fleet.Listed{listed("web", started(6))}, want: []string{
				"kvm1 web Running (Migrated) on kvm2 -> Running (Booted) on kvm1, after 1s",
			}},
			{found: []fleet.Listed{listed("web", started(9))}},
			{found: []fleet.Listed{listed("web", started(10))}, want: []string{
				"kvm1 web the guest was started again, after 2s",
			}},
		},
		"moved while it was off": {
			{found: []fleet.Listed{listed("web", off)}},
			{found: []fleet.Listed{listed("web", func(vm *fleet.VM) {
				off(vm)
				vm.Host = "kvm2"
			})}, want: []string{"kvm2 web Stopped (Shutdown) on kvm1 -> Stopped (Shutdown) on kvm2"}},
		},
		"not moved": {
			{found: []fleet.Listed{listed("web", migrating)}},
			// It has left its target, and its job hasn't ended yet.
			{found: []fleet.Listed{listed("web", nil)}, job: job()},
			{found: []fleet.Listed{listed("web", nil)}, want: []string{
				"kvm1 web Migrating (kvm1 -> kvm2, PreCopy) -> Running (Booted), it was not moved",
			}},
		},
		"moved to a host that isn't watched": {
			{found: []fleet.Listed{listed("web", nil)}},
			{found: []fleet.Listed{listed("web", nil)}, job: job(), want: []string{
				"kvm1 web Running (Booted) -> Migrating (kvm1 -> (elsewhere), PreCopy)",
			}},
		},
		"agent and stale definition": {
			{found: []fleet.Listed{listed("web", nil)}},
			{found: []fleet.Listed{listed("web", func(vm *fleet.VM) { vm.StaleHosts = []string{"kvm2"} })}, want: []string{
				"kvm1 web StaleDefinition=True (StaleDefinition)",
			}},
			{found: []fleet.Listed{listed("web", func(vm *fleet.VM) {
				vm.StaleHosts, vm.Metadata.Host = []string{"kvm2"}, ""
			})}},
		},
		"a silent host says nothing of its VMs, and what happened meanwhile is told once it answers": {
			{found: []fleet.Listed{listed("web", nil)}},
			{down: refused, found: []fleet.Listed{silent("web")}, want: []string{"kvm1 - does not answer: refused"}},
			{down: refused},
			{found: []fleet.Listed{listed("web", paused)}, want: []string{
				"kvm1 - answers again, after 2s",
				"kvm1 web Running (Booted) -> Paused (User); Ready=False (PausedByUser); Paused=True (PausedByUser)",
			}},
		},
		"handed over between two answers": {
			{found: []fleet.Listed{listed("web", migrating)}},
			{found: []fleet.Listed{{UUID: "uuid-web", Name: "web", Err: fleet.ErrTwoCopies, Inconsistent: true}}},
			{found: []fleet.Listed{listed("web", arrivedAt2)}, want: []string{
				"kvm2 web Migrating (kvm1 -> kvm2, PreCopy) -> Running (Migrated) on kvm2",
			}},
		},
		"two copies": {
			{found: []fleet.Listed{listed("web", nil)}},
			{found: []fleet.Listed{{UUID: "uuid-web", Name: "web", Err: fleet.ErrTwoCopies}}, want: []string{
				"- web Running (Booted) on kvm1 -> Unknown (the VM runs on more than one host) on -",
			}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newModel([]string{"kvm1", "kvm2"})
			for i, now := range moments {
				at := noon.Add(time.Duration(i) * time.Second)
				jobs := map[string]*libvirt.Job{}
				if now.job != nil {
					jobs["uuid-web"] = now.job
				}
				changes := append(m.notePoll(fleet.HostPoll{Host: "kvm1", At: at, Err: now.down}),
					m.notePoll(fleet.HostPoll{Host: "kvm2", At: at})...)
				var got []string
				for _, c := range append(changes, m.applyListing(at, now.found, jobs)...) {
					got = append(got, c.host+" "+c.name+" "+c.what)
				}
				if diff := cmp.Diff(now.want, got); diff != "" {
					t.Errorf("moment %d: %s", i, diff)
				}
			}
		})
	}
}

// TestSettle proves that answers that don't fit together are believed once every host was asked again.
func TestSettle(t *testing.T) {
	t.Parallel()
	w := newWatcher(nil, []string{"kvm1", "kvm2"}, time.Second)
	w.polledAt["kvm1"], w.polledAt["kvm2"] = noon, noon
	settle := func(want bool) {
		t.Helper()
		found := []fleet.Listed{
			{UUID: "uuid-web", Name: "web", Err: fleet.ErrTwoCopies, Inconsistent: true}, listed("mail", nil),
		}
		w.resolveInconsistent(found)
		if found[0].Inconsistent != want || found[1].Inconsistent {
			t.Errorf("inconsistent: %v and %v, want %v and false", found[0].Inconsistent, found[1].Inconsistent, want)
		}
	}
	settle(true)
	for _, host := range w.hosts {
		select {
		case <-w.ask[host]:
		default:
			t.Errorf("%s is not asked again", host)
		}
	}
	w.polledAt["kvm1"] = time.Now().Add(time.Minute)
	settle(true)
	w.polledAt["kvm2"] = time.Now().Add(time.Minute)
	settle(false)
	w.resolveInconsistent([]fleet.Listed{listed("web", nil)})
	w.polledAt["kvm1"] = noon
	settle(true)
}

func modelOf(found []fleet.Listed, jobs map[string]*libvirt.Job) *model {
	m := newModel([]string{"kvm1", "kvm2"})
	for _, h := range []string{"kvm1", "kvm2"} {
		m.notePoll(fleet.HostPoll{Host: h, At: noon})
	}
	m.applyListing(noon, found, jobs)
	return m
}

func TestLiveLines(t *testing.T) {
	t.Parallel()
	throttled := job()
	throttled.AutoConvergeThrottle, throttled.DiskRate = 20, 1<<30
	m := modelOf([]fleet.Listed{
		listed("web", migrating), listed("database", postCopy), listed("cache", nil), listed("new", migrating),
	}, map[string]*libvirt.Job{"uuid-web": job(), "uuid-database": throttled})
	want := []string{
		"database  kvm1 -> kvm2  PostCopy  12s  iteration 3  dirty 2.0 MiB/s  throttled 20%",
		"  [===========>   ]  75%  200.0 MiB sent, 64.0 MiB of 256.0 MiB left, 1.1 GiB/s",
		"new       kvm1 -> kvm2  PreCopy",
		"  [                                                ]  being set up",
		"web       kvm1 -> kvm2  PreCopy  12s  iteration 3  dirty 2.0 MiB/s",
		"  [=========>   ]  75%  200.0 MiB sent, 64.0 MiB of 256.0 MiB left, 100.0 MiB/s",
		"4 VMs on 2 hosts: 3 Migrating, 1 Running",
	}
	if diff := cmp.Diff(want, m.liveLines(79, 24)); diff != "" {
		t.Error(diff)
	}
	// As many as there is place for, and the others are counted.
	for height := 1; height < 10; height++ {
		lines := m.liveLines(79, height)
		if len(lines) > max(height, 2) || !slices.Contains(lines, want[6]) {
			t.Errorf("%d rows: %q", height, lines)
		}
	}
	if lines := m.liveLines(79, 4); lines[2] != "and 2 more" {
		t.Errorf("got %q", lines)
	}
	quiet := modelOf([]fleet.Listed{listed("web", nil)}, nil)
	quiet.notePoll(fleet.HostPoll{Host: "kvm2", At: noon, Err: errors.New("refused")})
	want = []string{"1 VM on 2 hosts: 1 Running; no migrations", "no answer from kvm2: shown as seen last"}
	if diff := cmp.Diff(want, quiet.liveLines(79, 24)); diff != "" {
		t.Error(diff)
	}
}

func TestProgress(t *testing.T) {
	t.Parallel()
	m := modelOf([]fleet.Listed{listed("web", migrating)}, map[string]*libvirt.Job{"uuid-web": job()})
	m.notePoll(fleet.HostPoll{Host: "kvm1", At: noon, Err: errors.New("refused")})
	says := func(want string) {
		t.Helper()
		if got := m.progressLine(m.migratingVMs()[0]); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	says("kvm1 -> kvm2  PreCopy  12s  iteration 3  kvm1 does not answer  75%  200.0 MiB sent, 64.0 MiB of 256.0 MiB left")
	// QEMU reports its last rate although nothing is sent any more.
	m.notePoll(fleet.HostPoll{Host: "kvm1", At: noon})
	later := job()
	later.Elapsed += time.Second
	m.applyListing(noon.Add(time.Second), []fleet.Listed{listed("web", migrating)},
		map[string]*libvirt.Job{"uuid-web": later})
	says("kvm1 -> kvm2  PreCopy  13s  iteration 3  dirty 2.0 MiB/s  " +
		"75%  200.0 MiB sent, 64.0 MiB of 256.0 MiB left, 100.0 MiB/s")
	stuck := job()
	stuck.Elapsed += 5 * time.Second
	m.applyListing(noon.Add(5*time.Second), []fleet.Listed{listed("web", migrating)},
		map[string]*libvirt.Job{"uuid-web": stuck})
	says("kvm1 -> kvm2  PreCopy  17s  iteration 3  dirty 2.0 MiB/s  " +
		"75%  200.0 MiB sent, 64.0 MiB of 256.0 MiB left, nothing sent for 5s")
	going := job()
	going.Elapsed, going.Data.Processed = going.Elapsed+6*time.Second, going.Data.Processed+1<<20
	m.applyListing(noon.Add(6*time.Second), []fleet.Listed{listed("web", migrating)},
		map[string]*libvirt.Job{"uuid-web": going})
	says("kvm1 -> kvm2  PreCopy  18s  iteration 3  dirty 2.0 MiB/s  " +
		"75%  201.0 MiB sent, 64.0 MiB of 256.0 MiB left, 100.0 MiB/s")
	moved := arrival{move: &vmState{migration: m.migratingVMs()[0].migration, since: noon}, at: noon.Add(20 * time.Second)}
	moved.move.migration.Mode = migration.PostCopy
	if got, want := moved.text(nil), "moved in 20s, in the end by post-copy: at least 201.0 MiB sent"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	done := job()
	done.Downtime, done.Iteration = 34*time.Millisecond, 1
	if got, want := completedText(done), "moved in 12s: 200.0 MiB sent in 1 iteration, downtime 34 ms"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	// The target's clock is an hour ahead.
	done.Downtime, done.Elapsed = done.Downtime+time.Hour, done.Elapsed+time.Hour
	if got, want := moved.text(done), "moved in 20s: 200.0 MiB sent in 1 iteration"; got != want {
		t.Errorf("with clocks that differ: got %s, want %s", got, want)
	}
}

// TestBar proves that a bar has its width, is never full while something runs, and takes what makes no sense.
func TestBar(t *testing.T) {
	t.Parallel()
	for _, d := range []libvirt.Transfer{{}, {Total: 100}, {Total: 100, Remaining: 100}, {Total: 100, Remaining: 900}} {
		for _, width := range []int{1, 10, 50} {
			s := modelOf([]fleet.Listed{listed("web", migrating)}, map[string]*libvirt.Job{"uuid-web": {
				Type: libvirt.JobUnbounded, Operation: libvirt.OperationMigrationOut, Data: d,
			}}).migratingVMs()[0].migration
			got := progressBar(s, width)
			if len(got) != max(width, 3) || sentPercent(s) > 99 {
				t.Errorf("%v in %d: %s, %d%%", d, width, got, sentPercent(s))
			}
		}
	}
}

func TestDurationText(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0: "0s", 1234 * time.Millisecond: "1.2s", 75 * time.Second: "1m15s", 90 * time.Minute: "1h30m",
	} {
		if got := durationText(d); got != want {
			t.Errorf("%v: got %s, want %s", d, got, want)
		}
	}
}

func TestRun_onTheTestDriver(t *testing.T) {
	t.Parallel()
	r := opstest.Start(t, Run, "uri: test:///default\n")
	r.Out.Line(t, "1 VM on 1 host: 1 Running; no migrations")
	h, err := libvirt.Open(libvirt.Config{Name: "same", URI: "test:///default"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	}()
	test, err := h.DomainByName(t.Context(), "test")
	if err != nil {
		t.Fatal(err)
	}
	if err := h.SuspendDomain(t.Context(), test.UUID); err != nil {
		t.Fatal(err)
	}
	r.Out.Line(t, "default", "test", "-> Paused (User)", "Paused=True (PausedByUser)")
	if err := h.ResumeDomain(t.Context(), test.UUID); err != nil {
		t.Fatal(err)
	}
	r.Out.Line(t, "default", "test", "Paused (User) -> Running (Unpaused)", "after ")
	if err := r.Stop(); err != nil {
		t.Error(err)
	}
	if text := r.Messages.String(); text != "" {
		t.Errorf("it also said: %s", text)
	}
}

func TestRun_refuses(t *testing.T) {
	t.Parallel()
	fenced := opstest.File(t, "hosts:\n  a: {uri: 'qemu+tcp://127.0.0.1:9/system', fenced: true}\n")
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"--config", fenced + "x"}, "no such file"},
		{[]string{"--config", fenced}, "all hosts are fenced"},
		{[]string{"--interval", "1ms"}, "-interval must be at least 100ms"},
		{[]string{"now"}, `unexpected argument "now"`},
	} {
		err := Run(t.Context(), test.args, provider.Open, io.Discard, io.Discard)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v: got %v, want %s", test.args, err, test.want)
		}
	}
}
