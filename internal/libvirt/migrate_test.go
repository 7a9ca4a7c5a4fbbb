package libvirt

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

// slowly is a bandwidth at which a guest doesn't arrive in the time of a test.
const slowly = 1 << 20

// side is one of two hosts that a test moves a guest between.
type side struct {
	*Host
	link    *link
	machine *lab.Host
}

// uri is where the host's QEMU listens.
func (s side) uri() string { return "tcp://" + s.machine.Address }

// sides opens two of the lab's shared hosts that can move guests to each other.
func sides(t testing.TB) (l *lab.Lab, a, b side) {
	t.Helper()
	l = lab.Open(t)
	both := [2]side{}
	for i, machine := range l.Hosts[:2] {
		way := linkTo(machine)
		both[i] = side{open(t, Config{Name: machine.Name, URI: machine.URI(), Dial: way.Dial}), way, machine}
	}
	return l, both[0], both[1]
}

// sharedDisk is a disk that both hosts reach.
func sharedDisk(t testing.TB, l *lab.Lab) string {
	t.Helper()
	export := l.NBD(t, lab.Name(t), 16<<20)
	return fmt.Sprintf(`<disk type='network' device='disk'><driver name='qemu' type='raw' cache='none'/>
      <source protocol='nbd' name='%s'><host name='%s' port='%d'/></source><target dev='vda' bus='virtio'/></disk>`,
		export.Name, export.Host, export.Port)
}

// writing has a guest keep writing to 32 MiB of its memory.
const writing = "dirty=32"

// writingGuest starts a guest and waits until it keeps writing to its memory: one that still boots has next to nothing
// to be copied, and would be gone before a test has done anything to its migration.
func writingGuest(t testing.TB, l *lab.Lab, at side) (uuid string) {
	t.Helper()
	return guestThat(t, l, at, writing)
}

// guestThat starts a guest with these words on its kernel command line, and waits until it keeps writing to its memory.
func guestThat(t testing.TB, l *lab.Lab, at side, writes string) (uuid string) {
	t.Helper()
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	uuid, err := at.DefineDomain(t.Context(), guestXML(l, name, writes, sharedDisk(t, l)))
	must(t, err)
	must(t, at.StartDomain(t.Context(), uuid))
	l.AwaitConsole(t, at.machine.Name, name, lab.GuestWrites)
	return uuid
}

// begin migrates in the background.
func begin(ctx context.Context, uuid string, from, to side, m Migration) <-chan error {
	m.URI = to.uri()
	result := make(chan error, 1)
	go func() { result <- from.Migrate(ctx, uuid, to.Host, m) }()
	return result
}

// awaitJob waits for a migration's statistics to satisfy the test.
func awaitJob(t testing.TB, at side, uuid, what string, match func(*Job) bool) *Job {
	t.Helper()
	var last *Job
	eventually(t, what, func() bool {
		job, err := at.Job(t.Context(), uuid)
		if err != nil {
			t.Fatal(err)
		}
		last = job
		return job != nil && match(job)
	})
	return last
}

// copying is true once memory is on its way.
func copying(j *Job) bool { return j.Memory.Processed > 0 }

// runsOnlyAt fails the test unless the domain runs here, with a definition, and isn't known there.
func runsOnlyAt(t testing.TB, uuid string, here, there side) *Domain {
	t.Helper()
	d, err := here.Domain(t.Context(), uuid)
	must(t, err)
	if d.State != Running || !d.Persistent {
		t.Errorf("on %s: %s (%s), persistent %t", here.Name(), d.State, d.Reason, d.Persistent)
	}
	_, err = there.Domain(t.Context(), uuid)
	want(t, err, ErrNotFound)
	return d
}

func TestMigrate_movesThereAndBack(t *testing.T) {
	t.Parallel()
	l, a, b := sides(t)
	ctx := t.Context()
	uuid, name := startGuest(t, a.Host, l, sharedDisk(t, l))
	must(t, a.SetMetadata(ctx, uuid, "virtfleet", "urn:virtfleet:1", "<vm/>", AffectLive|AffectConfig))
	before, err := a.Domain(ctx, uuid)
	must(t, err)
	_, err = b.Domain(ctx, uuid)
	want(t, err, ErrNotFound)
	streams := [2]int{a.link.streams(), b.link.streams()}

	start := time.Now()
	must(t, <-begin(ctx, uuid, a, b, Migration{}))
	t.Logf("moved in %v", time.Since(start).Round(time.Millisecond))
	there := runsOnlyAt(t, uuid, b, a)
	if there.Name != name || there.Reason != "Migrated" || there.PersistentXML != before.PersistentXML {
		t.Errorf("arrived as %s (%s) with %s", there.Name, there.Reason, there.PersistentXML)
	}
	job, err := b.CompletedJob(ctx, uuid)
	must(t, err)
	again, err := b.CompletedJob(ctx, uuid)
	must(t, err)
	if job.Type != JobCompleted || job.Downtime == 0 || job.Memory.Processed == 0 || *again != *job {
		t.Errorf("got the statistics %+v, then %+v", job, again)
	}
	if running, err := b.Job(ctx, uuid); err != nil || running != nil {
		t.Errorf("a job continues: %+v, %v", running, err)
	}

	// Back over connections that were opened ahead, of which those that aren't needed are closed.
	ConnectAhead(ctx, b.Host, a.Host).Close()
	ahead := ConnectAhead(ctx, b.Host, a.Host)
	for _, o := range ahead.conns {
		<-o.opened
	}
	opens := func() int { return a.Calls()["virConnectOpen"] + b.Calls()["virConnectOpen"] }
	opened := opens()
	must(t, <-begin(ctx, uuid, b, a, Migration{ParallelConnections: 2, Ahead: ahead}))
	if n := opens() - opened; n > 0 {
		t.Errorf("the migration opened %d more connections", n)
	}
	ahead.Close()
	runsOnlyAt(t, uuid, a, b)
	l.AwaitAgent(t, a.machine.Name, name) // Its host hasn't heard from it yet, and gives it no more than five seconds.
	_, err = a.AgentCommand(ctx, uuid, `{"execute":"guest-ping"}`)
	must(t, err)
	setsTheClock(t, a, uuid)
	eventually(t, "the migrations' connections to be closed", func() bool {
		return a.link.streams() <= streams[0]+1 && b.link.streams() <= streams[1]+2
	})
}

// setsTheClock gives the guest the tool that its agent needs first: the agent looks for it only once.
func setsTheClock(t *testing.T, at side, uuid string) {
	t.Helper()
	off := func() time.Duration {
		answer, err := at.AgentCommand(t.Context(), uuid, `{"execute":"guest-get-time"}`)
		must(t, err)
		now, err := strconv.ParseInt(between(answer, `"return":`, "}"), 10, 64)
		must(t, err)
		return time.Since(time.Unix(0, now)).Abs()
	}
	_, err := at.AgentCommand(t.Context(), uuid, `{"execute":"guest-exec","arguments":{"path":"/bin/sh",`+
		`"arg":["-c","ln -s /bin/busybox /sbin/hwclock; date -s 2001-01-01"]}}`)
	must(t, err)
	eventually(t, "the guest's clock to be wrong", func() bool { return off() > time.Hour })
	must(t, at.SetGuestTime(t.Context(), uuid))
	if off := off(); off > time.Minute {
		t.Errorf("the guest's clock is off by %v", off)
	}
}

func TestMigrate_isSteered(t *testing.T) {
	t.Parallel()
	l, a, b := sides(t)
	ctx := t.Context()
	// It writes more to its memory than can be copied in a millisecond, and so fast that it is slowed down.
	uuid := guestThat(t, l, a, writing+"@64")
	must(t, a.SetMaxDowntime(ctx, uuid, time.Millisecond))
	result := begin(ctx, uuid, a, b, Migration{Bandwidth: 16 << 20, AutoConverge: true})
	first := awaitJob(t, a, uuid, "memory to be copied", copying)
	if first.Type != JobUnbounded || first.Operation != OperationMigrationOut || first.Memory.Total < 128<<20 {
		t.Errorf("got %+v", first)
	}
	_, err := b.Job(ctx, uuid)
	want(t, err, ErrUnsupported)
	otherCallsContinue(t, uuid, a, b)
	throttled := awaitJob(t, a, uuid, "the guest to be slowed down", func(j *Job) bool {
		return j.AutoConvergeThrottle > 0
	})
	if throttled.Iteration < 2 || throttled.DirtyRate == 0 || throttled.PageSize != 4096 || throttled.MemoryRate == 0 ||
		throttled.Memory.Processed <= first.Memory.Processed || throttled.Elapsed <= first.Elapsed {
		t.Errorf("got %+v", throttled)
	}
	must(t, a.SetMaxDowntime(ctx, uuid, 10*time.Second))
	must(t, a.SetMigrationBandwidth(ctx, uuid, 1<<40, false))
	must(t, <-result)
	runsOnlyAt(t, uuid, b, a)
}

// otherCallsContinue makes other calls while a domain is moved. A call that libvirt blocks during a migration fails
// after 30 s.
func otherCallsContinue(t *testing.T, uuid string, sides ...side) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for _, s := range sides {
		for what, do := range map[string]func() error{
			"all domains": func() error { _, err := s.Domains(ctx); return err },
			"its XML": func() error {
				d, err := s.Domain(ctx, uuid)
				if err == nil {
					t.Logf("on %s it is %s (%s), persistent %t", s.Name(), d.State, d.Reason, d.Persistent)
				}
				return err
			},
			"networks":  func() error { _, err := s.Networks(ctx); return err },
			"snapshots": func() error { _, err := s.Snapshots(ctx, uuid); return err },
		} {
			start := time.Now()
			must(t, do())
			t.Logf("%s on %s: %v", what, s.Name(), time.Since(start).Round(time.Millisecond))
		}
	}
}

func TestMigrate_switchesToPostCopy(t *testing.T) {
	t.Parallel()
	l, a, b := sides(t)
	uuid := writingGuest(t, l, a)
	want(t, <-begin(t.Context(), uuid, a, b, Migration{PostCopy: true, ParallelConnections: 2}), ErrUnsupported)
	want(t, a.StartPostCopy(t.Context(), uuid), ErrOperationInvalid)

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	result := begin(ctx, uuid, a, b, Migration{Bandwidth: slowly, PostCopy: true})
	awaitJob(t, a, uuid, "memory to be copied", copying)
	must(t, a.SetMigrationBandwidth(t.Context(), uuid, slowly, true))
	must(t, a.StartPostCopy(t.Context(), uuid))
	eventually(t, "the guest to run on the target", func() bool {
		d, err := b.Domain(t.Context(), uuid)
		return err == nil && d.State == Running
	})
	// There is no way back, and breaking it off would do harm.
	want(t, a.AbortJob(t.Context(), uuid), ErrOperationInvalid)
	cancel()
	must(t, a.SetMigrationBandwidth(t.Context(), uuid, 32<<20, true))
	must(t, <-result)
	runsOnlyAt(t, uuid, b, a)
}
