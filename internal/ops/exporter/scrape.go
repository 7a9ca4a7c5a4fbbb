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
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/observe"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

var (
	hostUp = gauge("virtfleet_host_up", "Whether the host answered this scrape, completely and in time.")
	took   = gauge("virtfleet_host_scrape_duration_seconds", "How long the host took to answer, or was waited for.")
	calls  = counter("virtfleet_libvirt_calls_total", "Calls of libvirt's procedures since the exporter started.")

	droppedSeries   = gauge("virtfleet_exporter_dropped_series", "Series that this scrape left out because of its limit.")
	duplicateSeries = gauge("virtfleet_exporter_duplicate_series", "Series that this scrape left out because it had one "+
		"with the same labels already, such as of two virtual machines of one name.")
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
	// transitions is since when VMs are as they are.
	transitions *transitions

	mu   sync.Mutex
	down map[string]bool // hosts that did not answer last time
}

// labelChoice says which labels of VMs become labels of series.
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

// chosenLabels gives the keys that are chosen, in order.
func (c labelChoice) chosenLabels(have map[string]string) []string {
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
	host    string
	samples observe.HostSamples
	took    time.Duration
	err     error
}

// scrapeHosts asks all hosts until the deadline of ctx and makes metrics of what they said. Hosts have two thirds of
// the time, so that some is left to ask how far migrations are.
func (s *scraper) scrapeHosts(ctx context.Context) *families {
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
		s.logSilence(ctx, a)
	}
	f.addHosts(s.fleet.HostConditions(samplesOf(answers)))
	machines := s.mergeAnswers(ctx, answers)
	homes := make([]observe.Sample, len(machines))
	for i, m := range machines {
		homes[i] = m.Home()
	}
	s.guests.refreshInfo(s.background, homes) //nolint:contextcheck // It outlives the scrape.
	jobs := s.readJobs(ctx, machines)
	f.add(runningMigrations, new(float64(len(jobs))), nil)
	for i, m := range machines {
		s.addVM(f, m, homes[i], jobs[m.UUID], began)
	}
	s.transitions.forgetGone(homes, silent, began)
	for host, procedures := range s.fleet.Calls() {
		for procedure, n := range procedures {
			f.add(calls, new(float64(n)), labels{}.with("node", host, "procedure", procedure))
		}
	}
	f.limit += 2 // They have places of their own.
	f.add(droppedSeries, new(float64(f.dropped)), nil)
	f.add(duplicateSeries, new(float64(f.duplicates)), nil)
	return f
}

// mergeAnswers puts the answers together, in a part of the time that is left.
func (s *scraper) mergeAnswers(ctx context.Context, answers []answer) []observe.SampledVM {
	ctx, cancel := withMargin(ctx)
	defer cancel()
	return s.fleet.JoinSamples(ctx, samplesOf(answers))
}

func samplesOf(answers []answer) []observe.HostSamples {
	samples := make([]observe.HostSamples, len(answers))
	for i, a := range answers {
		samples[i] = a.samples
	}
	return samples
}

// withMargin is two thirds of the time that is left.
func withMargin(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, time.Until(deadline)*2/3)
}

// addVM adds all that is known of a VM. job is that of its migration, nil for none.
func (s *scraper) addVM(
	f *families, m observe.SampledVM, home observe.Sample, job *migrationJob, began time.Time,
) {
	l := s.vmLabels(home.VM)
	facts := m.Facts()
	f.addConditions(facts, l)
	info := s.guests.infoOf(m.UUID)
	printed := strings.ToLower(status.PrintableStatus(facts))
	f.addInfo(home, facts, info, l)
	group, since := s.transitions.noteScrape(home.VM, statusGroup(printed), began)
	f.addTransitions(group, since, l)
	s.addMigrations(f, home.VM, job.jobOrNil())
	f.addStats(&home.Stats, l)
	if home.VM.Active {
		f.addFilesystems(info, l)
	}
	if job != nil {
		addAll(f, migrationMetrics, job.job, labels{}.with("node", job.from, "namespace", s.namespace, "name", m.Name))
	}
	if m.VM != nil {
		return
	}
	// It runs more than once, or it is unknown which definition counts: what each host counts of it is told.
	for _, c := range m.Samples {
		if c.VM.Host != home.VM.Host && c.VM.Active {
			f.addStats(&c.Stats, s.vmLabels(c.VM))
		}
	}
}

func (s *scraper) askAll(ctx context.Context) []answer {
	ctx, cancel := withMargin(ctx)
	defer cancel()
	names := s.fleet.AskedHosts()
	answers := make([]answer, len(names))
	samples := make([]observe.HostSamples, len(names))
	var wg sync.WaitGroup
	for i, name := range names {
		wg.Go(func() {
			began := time.Now()
			var err error
			samples[i], err = s.fleet.HostSample(ctx, name)
			answers[i] = answer{name, samples[i], time.Since(began), err}
		})
	}
	wg.Wait()
	s.fleet.JudgeEvictable(samples) // It judges the VMs that the answers have.
	return answers
}

// logSilence logs that a host stopped answering, or answers again, once.
func (s *scraper) logSilence(ctx context.Context, a answer) {
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

// migrationJob is the job of a migration at its source.
type migrationJob struct {
	from string
	job  *libvirt.Job
}

// jobOrNil is the job, nil for none.
func (m *migrationJob) jobOrNil() *libvirt.Job {
	if m == nil {
		return nil
	}
	return m.job
}

// readJobs asks how far migrations are, by the UUIDs of the VMs. Whoever doesn't answer has no job.
func (s *scraper) readJobs(ctx context.Context, machines []observe.SampledVM) map[string]*migrationJob {
	found := map[string]*migrationJob{}
	var mu sync.Mutex
	var questions errgroup.Group
	questions.SetLimit(migratingAtOnce)
	for _, m := range machines {
		source := m.Source()
		if source == nil {
			continue
		}
		questions.Go(func() error {
			job, err := source.VM.Conn().Job(ctx, m.UUID)
			if err == nil && job != nil && job.Type.Active() && job.Operation == libvirt.OperationMigrationOut {
				mu.Lock()
				defer mu.Unlock()
				found[m.UUID] = &migrationJob{source.VM.Host, job}
			}
			return nil
		})
	}
	_ = questions.Wait() // None of them fails.
	return found
}
