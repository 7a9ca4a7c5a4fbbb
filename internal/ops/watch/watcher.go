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
	// patience is how long a host may take to answer before it counts as unreachable.
	patience = 10 * time.Second
	// batchDelay is how long the first event waits for others, so that several events cause only one poll.
	batchDelay = 50 * time.Millisecond
	// jobsAtOnce limits the parallel queries for jobs on one host.
	jobsAtOnce = 8
)

// watcher polls each host independently and keeps the last replies.
type watcher struct {
	fleet    *fleet.Fleet
	hosts    []string
	interval time.Duration
	// news signals that there is something to show.
	news signal
	// ask signals, by host, that the host is to be polled now.
	ask map[string]signal

	mu    sync.Mutex
	polls map[string]fleet.HostPoll
	// polledAt is when each host was last polled.
	polledAt map[string]time.Time
	// inconsistent is since when the hosts' replies about a VM have contradicted each other, by its UUID.
	inconsistent map[string]time.Time
	// changed are the UUIDs of VMs whose definitions may have changed, by host.
	changed map[string]map[string]bool
	// leaving are VMs whose memory is being copied, as an event reported: they are migrating, perhaps to a host that isn't
	// watched. departing are all VMs whose jobs are to be queried, and jobs the replies.
	leaving   map[string]bool
	departing map[string]*fleet.VM
	jobs      map[string]*libvirt.Job
	// arrivals are VMs whose migration has just ended, by their new host.
	arrivals map[string][]arrival
	changes  []change // since the last refresh
}

// arrival is a VM that has arrived at its host, with what was last seen of its migration.
type arrival struct {
	vm   *fleet.VM
	move *vmState
	at   time.Time
}

// signal wakes one goroutine once, however often it is sent before.
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
		polls: map[string]fleet.HostPoll{}, polledAt: map[string]time.Time{}, inconsistent: map[string]time.Time{},
		changed: map[string]map[string]bool{}, leaving: map[string]bool{}, departing: map[string]*fleet.VM{},
		jobs: map[string]*libvirt.Job{}, arrivals: map[string][]arrival{},
	}
	for _, h := range hosts {
		w.ask[h] = make(signal, 1)
	}
	return w
}

// pollAllHosts polls all hosts until ctx ends.
func (w *watcher) pollAllHosts(ctx context.Context) {
	var work sync.WaitGroup
	for _, host := range w.hosts {
		work.Go(func() { w.pollHostUntilDone(ctx, host) })
		// A host whose driver has no events is still polled at every tick.
		work.Go(func() { _ = w.fleet.Follow(ctx, host, w.onEvent) })
	}
	work.Wait()
}

// pollHostUntilDone polls one host at every tick, and when it reports an event.
func (w *watcher) pollHostUntilDone(ctx context.Context, host string) {
	tick := time.NewTicker(w.interval)
	defer tick.Stop()
	for {
		w.pollHost(ctx, host)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-w.ask[host]:
			if !sleep(ctx, batchDelay) {
				return
			}
		}
	}
}

// sleep waits for d. It returns false if ctx ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// pollHost polls the VMs of a host once, and the jobs of the VMs that migrate from it.
func (w *watcher) pollHost(ctx context.Context, host string) {
	asking, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	began := time.Now()
	stirred, departing, arrivals := w.takeQuestions(host)
	if len(stirred) > 0 {
		w.fleet.RefreshVMs(asking, host, stirred)
	}
	poll := w.fleet.PollHost(asking, host)
	if ctx.Err() != nil {
		return
	}
	jobs := make([]*libvirt.Job, len(departing))
	if poll.Err == nil {
		var questions errgroup.Group
		questions.SetLimit(jobsAtOnce)
		for i, vm := range departing {
			questions.Go(func() error {
				jobs[i], _ = w.fleet.Job(asking, vm) // if the job isn't known, there are no statistics
				return nil
			})
		}
		_ = questions.Wait() // none of the functions returns an error
	}
	var changes []change
	for _, a := range arrivals {
		if text := a.text(a.vm.MovedBy(asking)); text != "" {
			changes = append(changes, change{time.Now(), host, a.vm.Name, text})
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.polls[host], w.polledAt[host] = poll, began
	w.changes = append(w.changes, changes...)
	for i, vm := range departing {
		if w.jobs[vm.UUID] = jobs[i]; jobs[i] == nil || jobs[i].Operation != libvirt.OperationMigrationOut {
			delete(w.leaving, vm.UUID)
		}
	}
	w.news.send()
}

// takeQuestions returns what is to be queried from a host in addition to its VMs, and clears it.
func (w *watcher) takeQuestions(host string) (stirred []string, departing []*fleet.VM, arrivals []arrival) {
	w.mu.Lock()
	defer w.mu.Unlock()
	stirred = slices.Collect(maps.Keys(w.changed[host]))
	delete(w.changed, host)
	for _, vm := range w.departing {
		if vm.JobHost() == host {
			departing = append(departing, vm)
		}
	}
	arrivals = w.arrivals[host]
	delete(w.arrivals, host)
	return stirred, departing, arrivals
}

// onEvent handles an event of a host. It never blocks.
func (w *watcher) onEvent(e fleet.Event) {
	w.mu.Lock()
	switch e.Kind {
	case libvirt.EventMigrationIteration:
		w.leaving[e.UUID] = true
	case libvirt.EventLost:
		// A poll would retry until patience is over.
		if e.Detail == libvirt.LostConnection {
			w.polls[e.Host] = fleet.HostPoll{Host: e.Host, At: e.At, Err: connectionLost(e.Reason)}
			w.news.send()
		}
	case libvirt.EventLifecycle, libvirt.EventAgent, libvirt.EventMetadata, libvirt.EventDeviceAdded,
		libvirt.EventDeviceRemoved, libvirt.EventJobCompleted:
		if w.changed[e.Host] == nil {
			w.changed[e.Host] = map[string]bool{}
		}
		w.changed[e.Host][e.UUID] = true
	default:
	}
	w.mu.Unlock()
	w.ask[e.Host].send()
}

// connectionLost returns the error of a host whose connection is lost, with the reason if it is known.
func connectionLost(why string) error {
	if why == "" {
		why = "the connection is lost"
	}
	return errors.New(why)
}

// mergePolls merges the hosts' last replies, updates the model, and returns what has changed. It also records which
// jobs are to be queried next.
func (w *watcher) mergePolls(m *model) []change {
	w.mu.Lock()
	defer w.mu.Unlock()
	changes := w.changes
	w.changes = nil
	var polls []fleet.HostPoll
	var now time.Time
	for _, host := range w.hosts {
		g, asked := w.polls[host]
		if !asked {
			continue
		}
		polls = append(polls, g)
		if g.At.After(now) {
			now = g.At
		}
		changes = append(changes, m.notePoll(g)...)
	}
	before := m.moves()
	found := w.fleet.MergePolls(polls, m.lastKnown())
	w.resolveInconsistent(found)
	changes = append(m.applyListing(now, found, w.jobs), changes...)
	slices.SortStableFunc(changes, func(a, b change) int { return a.at.Compare(b.at) })
	departing := map[string]*fleet.VM{}
	for _, l := range found {
		if l.VM == nil || l.Inconsistent {
			continue
		}
		if awaitsMemory(l.VM) && !l.VM.Migrating {
			continue // Its source doesn't answer.
		}
		if l.VM.Migrating || w.leaving[l.UUID] && l.VM.Active {
			departing[l.UUID] = l.VM
			if w.departing[l.UUID] == nil {
				w.ask[l.VM.JobHost()].send()
			}
			continue
		}
		if move := before[l.UUID]; move != nil && move.migration.SourceHost != l.VM.Host {
			w.arrivals[l.VM.Host] = append(w.arrivals[l.VM.Host], arrival{l.VM, move, now})
			w.ask[l.VM.Host].send()
		}
	}
	maps.DeleteFunc(w.jobs, func(uuid string, _ *libvirt.Job) bool { return departing[uuid] == nil })
	w.departing = departing
	return changes
}

// resolveInconsistent accepts replies about a VM that still contradict each other after all hosts were polled again.
func (w *watcher) resolveInconsistent(found []fleet.Listed) {
	doubts := map[string]time.Time{}
	for i := range found {
		l := &found[i]
		if !l.Inconsistent {
			continue
		}
		since, known := w.inconsistent[l.UUID]
		if !known {
			since = time.Now()
			for _, ask := range w.ask {
				ask.send()
			}
		}
		doubts[l.UUID], l.Inconsistent = since, false
		for _, at := range w.polledAt {
			l.Inconsistent = l.Inconsistent || !at.After(since)
		}
	}
	w.inconsistent = doubts
}
