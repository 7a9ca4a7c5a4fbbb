package watch

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

const (
	// patience is how long a host may take to answer before it counts as silent.
	patience = 10 * time.Second
	// together is how long the first news waits for others: what several events tell is asked for once.
	together = 50 * time.Millisecond
	// jobsAtOnce bounds the questions for jobs to a host at a time.
	jobsAtOnce = 8
)

// watcher asks hosts, each by itself, and keeps what they said last.
type watcher struct {
	fleet    *fleet.Fleet
	hosts    []string
	interval time.Duration
	// news says that there is something to show.
	news signal
	// ask says, by host, that it is to be asked now.
	ask map[string]signal

	mu      sync.Mutex
	glances map[string]fleet.Glance
	// asked says when the hosts' answers were asked for, by host.
	asked map[string]time.Time
	// skewed says since when hosts' answers don't fit together, by the UUID of the machine that they don't of.
	skewed map[string]time.Time
	// stirred are machines whose definitions may have changed, by host.
	stirred map[string]map[string]bool
	// leaving are machines that begin to be copied again and again, as only those do that are moved, also to where nobody
	// watches. departing are those of them and of others whose jobs are to be asked for, and jobs what was said.
	leaving   map[string]bool
	departing map[string]*fleet.VM
	jobs      map[string]*libvirt.Job
	// arrivals are machines that have just been moved, by the host that has them now.
	arrivals map[string][]*fleet.VM
	changes  []change // what was learnt between two pictures
}

// signal wakes one goroutine, once for however many calls.
type signal chan struct{}

func (s signal) send() {
	select {
	case s <- struct{}{}:
	default:
	}
}

func newWatcher(f *fleet.Fleet, hosts []string, interval time.Duration) *watcher {
	w := &watcher{
		fleet: f, hosts: hosts, interval: interval, news: make(signal, 1), ask: map[string]signal{},
		glances: map[string]fleet.Glance{}, asked: map[string]time.Time{}, skewed: map[string]time.Time{},
		stirred: map[string]map[string]bool{}, leaving: map[string]bool{}, departing: map[string]*fleet.VM{},
		jobs: map[string]*libvirt.Job{}, arrivals: map[string][]*fleet.VM{},
	}
	for _, h := range hosts {
		w.ask[h] = make(signal, 1)
	}
	return w
}

// run asks all hosts until ctx ends.
func (w *watcher) run(ctx context.Context) {
	var work sync.WaitGroup
	for _, host := range w.hosts {
		work.Go(func() { w.watch(ctx, host) })
		// A host whose driver has no events is asked at every tick all the same.
		work.Go(func() { _ = w.fleet.Follow(ctx, host, w.happened) })
	}
	work.Wait()
}

// watch asks one host at every tick, and when something happened to it.
func (w *watcher) watch(ctx context.Context, host string) {
	tick := time.NewTicker(w.interval)
	defer tick.Stop()
	for {
		w.look(ctx, host)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-w.ask[host]:
			if !pause(ctx, together) {
				return
			}
		}
	}
}

// pause waits, and says whether ctx goes on.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// look asks a host once: for its machines, and for the jobs of those that leave it.
func (w *watcher) look(ctx context.Context, host string) {
	asking, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	began := time.Now()
	stirred, departing, arrivals := w.due(host)
	if len(stirred) > 0 {
		w.fleet.Reread(asking, host, stirred)
	}
	glance := w.fleet.Glance(asking, host)
	if ctx.Err() != nil {
		return
	}
	jobs := make([]*libvirt.Job, len(departing))
	if glance.Err == nil {
		var questions errgroup.Group
		questions.SetLimit(jobsAtOnce)
		for i, vm := range departing {
			questions.Go(func() error {
				jobs[i], _ = w.fleet.Job(asking, vm) // One that isn't known has no statistics.
				return nil
			})
		}
		_ = questions.Wait() // None of them fails.
	}
	var changes []change
	for _, vm := range arrivals {
		if job := vm.MovedBy(asking); job != nil {
			changes = append(changes, change{time.Now(), host, vm.Name, arrived(job)})
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.glances[host], w.asked[host] = glance, began
	w.changes = append(w.changes, changes...)
	for i, vm := range departing {
		if w.jobs[vm.UUID] = jobs[i]; jobs[i] == nil || jobs[i].Operation != libvirt.OperationMigrationOut {
			delete(w.leaving, vm.UUID)
		}
	}
	w.news.send()
}

// due takes what there is to ask of a host besides its machines.
func (w *watcher) due(host string) (stirred []string, departing, arrivals []*fleet.VM) {
	w.mu.Lock()
	defer w.mu.Unlock()
	stirred = slices.Collect(maps.Keys(w.stirred[host]))
	delete(w.stirred, host)
	for _, vm := range w.departing {
		if vm.LeavesFrom() == host {
			departing = append(departing, vm)
		}
	}
	arrivals = w.arrivals[host]
	delete(w.arrivals, host)
	return stirred, departing, arrivals
}

// happened takes what a host tells. It never waits.
func (w *watcher) happened(e fleet.Event) {
	w.mu.Lock()
	switch e.Kind {
	case libvirt.EventMigrationIteration:
		w.leaving[e.UUID] = true
	case libvirt.EventLost:
		// A question would be asked again for as long as there is patience.
		if e.Detail == libvirt.LostConnection {
			w.glances[e.Host] = fleet.Glance{Host: e.Host, At: e.At, Err: lost(e.Reason)}
			w.news.send()
		}
	case libvirt.EventLifecycle, libvirt.EventAgent, libvirt.EventMetadata, libvirt.EventDeviceAdded,
		libvirt.EventDeviceRemoved, libvirt.EventJobCompleted:
		if w.stirred[e.Host] == nil {
			w.stirred[e.Host] = map[string]bool{}
		}
		w.stirred[e.Host][e.UUID] = true
	default:
	}
	w.mu.Unlock()
	w.ask[e.Host].send()
}

// lost says why a connection isn't there, if anybody knows.
func lost(why string) error {
	if why == "" {
		why = "the connection is lost"
	}
	return errors.New(why)
}

// show puts together what hosts said last, brings the model up to date, and gives what has changed. It also says who is
// to be asked for jobs next.
func (w *watcher) show(m *model) []change {
	w.mu.Lock()
	defer w.mu.Unlock()
	changes := w.changes
	w.changes = nil
	var glances []fleet.Glance
	var now time.Time
	for _, host := range w.hosts {
		g, asked := w.glances[host]
		if !asked {
			continue
		}
		glances = append(glances, g)
		if g.At.After(now) {
			now = g.At
		}
		changes = append(changes, m.glanced(g)...)
	}
	before := m.sources()
	found := w.fleet.Together(glances, m.last())
	w.settle(found)
	changes = append(m.update(now, found, w.jobs), changes...)
	slices.SortStableFunc(changes, func(a, b change) int { return a.at.Compare(b.at) })
	departing := map[string]*fleet.VM{}
	for _, l := range found {
		if l.VM == nil || l.Skewed {
			continue
		}
		if l.VM.Migrating || w.leaving[l.UUID] && l.VM.Active {
			departing[l.UUID] = l.VM
			if w.departing[l.UUID] == nil {
				w.ask[l.VM.LeavesFrom()].send()
			}
			continue
		}
		if source, moved := before[l.UUID]; moved && source != l.VM.Host {
			w.arrivals[l.VM.Host] = append(w.arrivals[l.VM.Host], l.VM)
			w.ask[l.VM.Host].send()
		}
	}
	maps.DeleteFunc(w.jobs, func(uuid string, _ *libvirt.Job) bool { return departing[uuid] == nil })
	w.departing = departing
	return changes
}

// settle lets only those machines stay skewed whose hosts are still to be asked again: two answers that were asked for
// after the first doubt, and still don't fit, are the truth.
func (w *watcher) settle(found []fleet.Listed) {
	doubts := map[string]time.Time{}
	for i := range found {
		l := &found[i]
		if !l.Skewed {
			continue
		}
		since, known := w.skewed[l.UUID]
		if !known {
			since = time.Now()
			for _, ask := range w.ask {
				ask.send()
			}
		}
		doubts[l.UUID], l.Skewed = since, false
		for _, at := range w.asked {
			l.Skewed = l.Skewed || !at.After(since)
		}
	}
	w.skewed = doubts
}
