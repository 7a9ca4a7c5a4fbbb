package exporter

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

var (
	hostUp = gauge("virtfleet_host_up", "Whether the host answered this scrape, completely and in time.")
	took   = gauge("virtfleet_host_scrape_duration_seconds", "How long the host took to answer, or was waited for.")
	calls  = counter("virtfleet_libvirt_calls_total", "Calls of libvirt's procedures since the exporter started.")

	droppedSeries = gauge("virtfleet_exporter_dropped_series", "Series that this scrape left out because of its limit.")
)

// migratingAtOnce bounds the questions about migrations that are under way at the same time.
const migratingAtOnce = 8

// scraper makes the metrics of a fleet.
type scraper struct {
	fleet     *fleet.Fleet
	namespace string
	labels    labelChoice
	// limit is how many series a scrape gives at most.
	limit int
	log   *slog.Logger
	// guests is what the agents say; background bounds asking them.
	guests     *guests
	background context.Context //nolint:containedctx // Guests are asked between scrapes.
	// transitions is since when machines are as they are.
	transitions *transitions

	mu   sync.Mutex
	down map[string]bool // hosts that did not answer last time
}

// labelChoice says which labels of machines become labels of series.
type labelChoice struct {
	all  bool
	keys []string
}

// newLabelChoice reads "*", or keys with commas between them.
func newLabelChoice(s string) labelChoice {
	if s == "*" {
		return labelChoice{all: true}
	}
	return labelChoice{keys: strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ' ' })}
}

// of gives the keys that are chosen, in order.
func (c labelChoice) of(have map[string]string) []string {
	if c.all {
		return slices.Sorted(maps.Keys(have))
	}
	var keys []string
	for _, key := range c.keys {
		if _, ok := have[key]; ok {
			keys = append(keys, key)
		}
	}
	return keys
}

// answer is what one host said.
type answer struct {
	host     string
	machines []fleet.Sample
	took     time.Duration
	err      error
}

// scrape asks all hosts until the deadline of ctx and makes metrics of what they said. Hosts have two thirds of the
// time, so that some is left to ask how far migrations are.
func (s *scraper) scrape(ctx context.Context) *families {
	began := time.Now()
	answers := s.askAll(ctx)
	f := newFamilies(s.limit)
	silent := map[string]bool{}
	for _, a := range answers {
		node := labels{}.with("node", a.host)
		up := 1.0
		if a.err != nil {
			up, silent[a.host] = 0, true
		}
		f.add(hostUp, &up, node)
		f.add(took, new(a.took.Seconds()), node)
		s.note(ctx, a)
	}
	homes, migrating := homes(answers)
	s.guests.refresh(s.background, homes) //nolint:contextcheck // It outlives the scrape.
	jobs := s.jobs(ctx, migrating)
	f.add(runningMigrations, new(float64(len(jobs))), nil)
	leaving := map[string]*libvirt.Job{}
	for vm, job := range jobs {
		leaving[vm.UUID] = job
	}
	for _, m := range homes {
		l := s.machineLabels(m.VM)
		info := s.guests.of(m.VM.UUID)
		f.addInfo(m, info, l)
		group, since := s.transitions.saw(m.VM, statusGroup(strings.ToLower(m.VM.Status())), began)
		f.addTransitions(group, since, l)
		s.addMigrations(f, m.VM, leaving[m.VM.UUID])
		f.addStats(&m.Stats, l)
		if m.VM.Active {
			f.addFilesystems(info, l)
		}
	}
	for _, m := range migrating {
		if job := jobs[m.VM]; job != nil {
			addAll(f, migrationMetrics, job, labels{}.with("node", m.VM.Host, "namespace", s.namespace, "name", m.VM.Name))
		}
	}
	s.transitions.forget(homes, silent, began)
	for host, procedures := range s.fleet.Calls() {
		for procedure, n := range procedures {
			f.add(calls, new(float64(n)), labels{}.with("node", host, "procedure", procedure))
		}
	}
	f.limit++ // It has a place of its own.
	f.add(droppedSeries, new(float64(f.dropped)), nil)
	return f
}

func (s *scraper) askAll(ctx context.Context) []answer {
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(deadline)*2/3)
		defer cancel()
	}
	names := s.fleet.HostNames()
	answers := make([]answer, len(names))
	samples := make([]fleet.HostSamples, len(names))
	var wg sync.WaitGroup
	for i, name := range names {
		wg.Go(func() {
			began := time.Now()
			var err error
			samples[i], err = s.fleet.HostSample(ctx, name)
			answers[i] = answer{name, samples[i].Machines, time.Since(began), err}
		})
	}
	wg.Wait()
	s.fleet.JudgeEvictable(samples)
	return answers
}

// note logs that a host stopped answering, or answers again, once.
func (s *scraper) note(ctx context.Context, a answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch down := a.err != nil; {
	case down && !s.down[a.host]:
		s.log.WarnContext(ctx, "host does not answer", "host", a.host, "error", a.err.Error())
	case !down && s.down[a.host]:
		s.log.InfoContext(ctx, "host answers again", "host", a.host)
	}
	s.down[a.host] = a.err != nil
}

// homes gives each machine once: where it runs, else where it is defined. What is, or seems to be, the source of a
// migration is given besides: a machine that two hosts have active, or that stands still for a migration.
func homes(answers []answer) (homes, migrating []fleet.Sample) {
	copies := map[string][]fleet.Sample{}
	var order []string
	for _, a := range answers {
		for _, m := range a.machines {
			if copies[m.VM.UUID] == nil {
				order = append(order, m.VM.UUID)
			}
			copies[m.VM.UUID] = append(copies[m.VM.UUID], m)
		}
	}
	for _, uuid := range order {
		all := copies[uuid]
		home := slices.MaxFunc(all, func(a, b fleet.Sample) int { return rank(a) - rank(b) })
		active := 0
		for _, m := range all {
			if m.VM.Active {
				active++
			}
		}
		for _, m := range all {
			if m.VM.Active && (active > 1 && !m.Stats.Busy || active == 1 && inMigration(m)) {
				migrating = append(migrating, m)
			}
		}
		home.VM.Migrating = active > 1 || inMigration(home)
		homes = append(homes, home)
	}
	return homes, migrating
}

// rank orders the copies of a machine by how much they are the machine.
func rank(m fleet.Sample) int {
	switch {
	case !m.VM.Active:
		return 0
	case m.Stats.Busy:
		return 1
	case inMigration(m):
		return 2
	default:
		return 3
	}
}

// inMigration says that the machine stands still because of a migration.
func inMigration(m fleet.Sample) bool {
	return m.VM.State == libvirt.Paused &&
		slices.Contains([]string{libvirt.ReasonMigration, libvirt.ReasonPostcopy, libvirt.ReasonPostcopyFailed}, m.VM.Reason)
}

// jobs asks how far migrations are. Whoever doesn't answer has no job.
func (s *scraper) jobs(ctx context.Context, migrating []fleet.Sample) map[*fleet.VM]*libvirt.Job {
	found := map[*fleet.VM]*libvirt.Job{}
	var mu sync.Mutex
	var questions errgroup.Group
	questions.SetLimit(migratingAtOnce)
	for _, m := range migrating {
		questions.Go(func() error {
			job, err := m.VM.Conn().Job(ctx, m.VM.UUID)
			if err == nil && job != nil && job.Type.Active() && job.Operation == libvirt.OperationMigrationOut {
				mu.Lock()
				defer mu.Unlock()
				found[m.VM] = job
			}
			return nil
		})
	}
	_ = questions.Wait() // None of them fails.
	return found
}
