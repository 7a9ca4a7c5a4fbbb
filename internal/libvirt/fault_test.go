package libvirt

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

// openLinked opens a shared host of the lab through a link of the test's own.
func openLinked(t testing.TB, cfg Config) (*Host, *link, *lab.Lab) {
	t.Helper()
	l := lab.Open(t)
	way := linkTo(l.Hosts[0])
	cfg.Name, cfg.URI, cfg.Dial = l.Hosts[0].Name, l.Hosts[0].URI(), way.Dial
	return open(t, cfg), way, l
}

func (l *link) streams() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.open)
}

// awaitLoss waits until the host's connections are known to be broken. Whoever cut them knows it before.
func awaitLoss(t testing.TB, h *Host) {
	t.Helper()
	eventually(t, "the loss to be noticed", func() bool {
		h.pool.mu.Lock()
		defer h.pool.mu.Unlock()
		for _, slots := range h.pool.slots {
			for _, s := range slots {
				if _, _, usable := s.busyness(); usable {
					return false
				}
			}
		}
		return true
	})
}

func TestCall_returnsWhenItsContextEnds(t *testing.T) {
	t.Parallel()
	h, way, _ := openLinked(t, Config{})
	_, err := h.Domains(t.Context())
	must(t, err)
	resume := way.stall()
	short, expire := expires(t)
	before := h.Calls()["virConnectListAllDomains"]
	result := make(chan error)
	go func() {
		_, err := h.Domains(short)
		result <- err
	}()
	eventually(t, "the call", func() bool { return h.Calls()["virConnectListAllDomains"] > before })
	expire()
	err = <-result
	want(t, err, context.DeadlineExceeded)
	want(t, err, ErrUnreachable)

	// The connection was given up: its stream is closed though the call on it never got an answer.
	eventually(t, "the stream to be cut", func() bool { return way.streams() == 0 })
	resume()
	_, err = h.Domains(t.Context())
	must(t, err)
	if n := h.Calls()["virConnectOpen"]; n != 2 {
		t.Errorf("opened %d connections, want 2", n)
	}
}

func TestCall_leavesOtherCallsAlone(t *testing.T) {
	t.Parallel()
	h, way, _ := openLinked(t, Config{})
	_, err := h.freeMemory(t.Context())
	must(t, err)
	resume := way.stall()
	patient := make(chan error)
	go func() {
		_, err := h.freeMemory(t.Context())
		patient <- err
	}()
	eventually(t, "the patient call", func() bool { return h.Calls()["virNodeGetFreeMemory"] == 2 })
	short, expire := expires(t)
	hasty := make(chan error)
	go func() {
		_, err := h.freeMemory(short)
		hasty <- err
	}()
	eventually(t, "the hasty call", func() bool { return h.Calls()["virNodeGetFreeMemory"] == 3 })
	expire()
	want(t, <-hasty, context.DeadlineExceeded)
	resume()
	must(t, <-patient)
	eventually(t, "the given-up connection to be closed", func() bool { return way.streams() == 0 })
}

func TestCall_isRepeatedWhenTheConnectionBreaks(t *testing.T) {
	t.Parallel()
	h, way, _ := openLinked(t, Config{})
	_, err := h.freeMemory(t.Context())
	must(t, err)
	for range 3 {
		resume := way.stall()
		result := make(chan error)
		before := h.Calls()["virNodeGetFreeMemory"]
		go func() {
			_, err := h.freeMemory(t.Context())
			result <- err
		}()
		eventually(t, "the call", func() bool { return h.Calls()["virNodeGetFreeMemory"] > before })
		way.cut()
		resume()
		must(t, <-result)
	}
	// A change is never repeated: it is unknown whether it was made.
	resume := way.stall()
	result := make(chan error)
	go func() { result <- h.SetAutostart(t.Context(), uuidOf(1), true) }()
	eventually(t, "the call", func() bool { return h.Calls()["virDomainLookupByUUIDString"] > 0 })
	way.cut()
	resume()
	want(t, <-result, ErrUnreachable)
	// But a connection that is found broken before is replaced before anything is sent.
	way.cut()
	awaitLoss(t, h)
	want(t, h.SetAutostart(t.Context(), uuidOf(1), true), ErrNotFound)
}

func TestCall_waitsForAHostThatComesBack(t *testing.T) {
	t.Parallel()
	h, way, _ := openLinked(t, Config{})
	_, err := h.freeMemory(t.Context())
	must(t, err)
	way.refuse(errors.New("refused"))
	way.cut()
	time.AfterFunc(300*time.Millisecond, func() { way.refuse(nil) })
	_, err = h.freeMemory(t.Context())
	must(t, err)

	way.refuse(errors.New("refused"))
	way.cut()
	awaitLoss(t, h)
	way.mu.Lock()
	before := way.dials
	way.mu.Unlock()
	short, expire := expires(t)
	result := make(chan error)
	go func() {
		_, err := h.freeMemory(short)
		result <- err
	}()
	eventually(t, "it to be tried again", func() bool {
		way.mu.Lock()
		defer way.mu.Unlock()
		return way.dials > before+2
	})
	expire()
	err = <-result
	want(t, err, ErrUnreachable)
	if !strings.Contains(err.Error(), "refused") {
		t.Errorf("%v doesn't say why", err)
	}
}

func TestPool_keepsSlowCallsOutOfTheWay(t *testing.T) {
	t.Parallel()
	h, way, l := openLinked(t, Config{MaxConnections: 4})
	ctx := t.Context()
	uuid, name := startGuest(t, h, l, "")
	// A stopped agent keeps libvirt waiting for seconds.
	l.HangAgent(t, h.Name(), name)
	before := h.Calls()["virDomainQemuAgentCommand"]
	waiting, release := context.WithCancel(ctx)
	var slowCalls sync.WaitGroup
	for range 8 {
		slowCalls.Go(func() {
			_, err := h.AgentCommand(waiting, uuid, `{"execute":"guest-ping"}`)
			if !errors.Is(err, context.Canceled) && !errors.Is(err, ErrAgentUnavailable) && !errors.Is(err, ErrBusy) {
				t.Errorf("got %v", err)
			}
		})
	}
	eventually(t, "the slow calls", func() bool { return h.Calls()["virDomainQemuAgentCommand"] == before+8 })
	_, err := h.Domains(ctx)
	must(t, err)
	if n := way.streams(); n > 4+1 {
		t.Errorf("%d connections, but 4 and one for events are allowed", n)
	}
	release()
	slowCalls.Wait()
}

// Agents that don't answer, however many, don't hold up other calls: they have connections of their own,
// and few enough that the daemon has workers left.
func TestPool_keepsAgentsToThemselves(t *testing.T) {
	t.Parallel()
	h, _, _ := openLinked(t, Config{})
	release, taken := make(chan struct{}), make(chan *conn)
	const silent = 50
	question := agentCall("asking an agent that is silent")
	question.timeout = time.Hour
	var questions sync.WaitGroup
	for range silent {
		questions.Go(func() {
			_, _ = call(t.Context(), h, question, func(c *conn) (struct{}, error) {
				taken <- c
				<-release
				return struct{}{}, nil
			})
		})
	}
	waiting := map[*conn]bool{}
	for range silent {
		waiting[<-taken] = true
	}
	if len(waiting) != 2 {
		t.Errorf("%d connections wait for agents", len(waiting))
	}
	for _, other := range []callSpec{
		readCall("reading"), defineCall("defining"), monitorCall("monitoring"), changeCall("changing"),
	} {
		c, err := call(t.Context(), h, other, func(c *conn) (*conn, error) { return c, nil })
		must(t, err)
		if waiting[c] {
			t.Errorf("%s takes a connection that waits for agents", other.operation)
		}
	}
	close(release)
	questions.Wait()
}

func TestSubscribe_tellsWhenEventsWereMissed(t *testing.T) {
	t.Parallel()
	h, way, l := openLinked(t, Config{})
	ctx := t.Context()
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	events, err := h.Subscribe(ctx, "")
	must(t, err)
	way.refuse(errors.New("refused"))
	way.cut()
	lost := func(detail string) func(Event) bool {
		return func(e Event) bool { return e.Kind == EventLost && e.Detail == detail }
	}
	awaitEvent(t, events, lost(LostConnection))
	time.AfterFunc(200*time.Millisecond, func() { way.refuse(nil) })
	awaitEvent(t, events, lost(LostUntilNow))
	_, err = h.DefineDomain(ctx, guestXML(l, name, "", ""))
	must(t, err)
	awaitEvent(t, events, func(e Event) bool { return e.Name == name && e.Detail == "Defined" && e.Reason == "Added" })
}

func TestHost_survivesItsDaemonsRestart(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	machine := l.StartHost(t)
	h := open(t, Config{Name: machine.Name, URI: machine.URI(), Dial: linkTo(machine).Dial})
	ctx := t.Context()
	uuid, err := h.DefineDomain(ctx, guestXML(l, "web", "", ""))
	must(t, err)
	before, err := h.Info(ctx)
	must(t, err)
	restart := l.KillLibvirtd(t, machine)
	awaitLoss(t, h)
	short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	_, err = h.Domain(short, uuid)
	want(t, err, ErrUnreachable)
	if errors.Is(err, ErrNotFound) {
		t.Errorf("%v says that the domain is gone", err)
	}
	restart()
	must(t, h.SetAutostart(ctx, uuid, true))
	d, err := h.Domain(ctx, uuid)
	must(t, err)
	if d.State != Shutoff || !d.Autostart {
		t.Errorf("got %s (%s), autostart %t", d.State, d.Reason, d.Autostart)
	}
	after, err := h.Info(ctx)
	must(t, err)
	if after == before {
		t.Error("the restarted daemon wasn't asked again")
	}
}

// BenchmarkDomains reads 200 domains that don't run, at no and at 50 ms round trip. It reports what the first reading
// costs, connecting included, and every further one.
func BenchmarkDomains(b *testing.B) {
	l := lab.Open(b)
	machine := l.StartHost(b)
	const count = 200
	var documents []string
	for i := range count {
		documents = append(documents, guestXML(l, fmt.Sprintf("bench-%03d", i), "", ""))
	}
	l.Define(b, machine.Name, documents...)
	for _, roundTrip := range []time.Duration{0, 50 * time.Millisecond} {
		b.Run(fmt.Sprintf("rtt=%v", roundTrip), func(b *testing.B) {
			way := linkTo(machine)
			way.delay = roundTrip / 2
			h := open(b, Config{Name: machine.Name, URI: machine.URI(), Dial: way.Dial})
			start := time.Now()
			domains, err := h.Domains(b.Context())
			must(b, err)
			first := time.Since(start)
			calls := 0
			for procedure, n := range h.Calls() {
				if procedure != "virConnectOpen" {
					calls += n
				}
			}
			if len(domains) != count {
				b.Fatalf("got %d domains", len(domains))
			}
			before := processorTime(b)
			for b.Loop() {
				if _, err := h.Domains(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
			used := processorTime(b) - before
			b.ReportMetric(float64(used.Microseconds())/float64(b.N)/count, "cpu-us/domain")
			b.ReportMetric(float64(first.Milliseconds()), "ms/first")
			b.ReportMetric(float64(calls)/count, "calls/domain")
		})
	}
}

// processorTime is what this process has used up.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var usage unix.Rusage
	must(b, unix.Getrusage(unix.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// A host that falls silent is noticed also where libvirt makes the connection itself, and nothing is asked.
func TestKeepalive_noticesSilence(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	own := l.StartHost(t)
	l.Listen(t, own, nil)
	h := open(t, Config{Name: own.Name, URI: "qemu+tcp://" + own.Address + "/system"})
	_, err := h.Domains(t.Context())
	must(t, err)
	restore := l.Cut(t, own)
	awaitLoss(t, h)
	restore()
	_, err = h.Domains(t.Context())
	must(t, err)
}
