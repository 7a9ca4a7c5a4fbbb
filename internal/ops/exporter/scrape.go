package exporter

import (
	"context"
	"log/slog"
	"maps"
	"regexp"
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

// migratingAtOnce limits the parallel queries about migrations.
const migratingAtOnce = 8

// scraper collects the metrics of a fleet.
type scraper struct {
	fleet     *fleet.Fleet
	namespace string
	labels    labelChoice
	// limit is the largest number of series of a scrape.
	limit int
	log   *slog.Logger
	// guests is what the guest agents reported; background limits the queries to them.
	guests     *guests
	background context.Context //nolint:containedctx // guests are queried between scrapes
	// transitions is since when VMs have had their status.
	transitions *transitions
	// marks are the VMs that a scrape reads again.
	marks marks

	mu   sync.Mutex
	down map[string]string // hosts that did not answer at the last scrape, and why, without numbers
}

// labelChoice is the choice of VM labels that become labels of series.
type labelChoice struct {
	all  bool
	keys []string
}

// newLabelChoice parses "*", or keys separated by commas.
func newLabelChoice(s string) labelChoice {
	if s == "*" {
		return labelChoice{all: true}
	}
	return labelChoice{keys: strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ' ' })}
}

// chosenLabels returns the chosen keys that the VM has, in order.
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

// answer is one host's reply.
type answer struct {
	host    string
	samples observe.HostSamples
	took    time.Duration
	err     error
}

// scrapeHosts queries all hosts until the deadline of ctx and returns the metrics. The hosts have two thirds of the
// time; the rest is for the progress of migrations.
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
	s.guests.refreshInfo(s.background, homes, silent) //nolint:contextcheck // It outlives the scrape.
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
	f.limit += 2 // these two don't count against the limit
	f.add(droppedSeries, new(float64(f.dropped)), nil)
	f.add(duplicateSeries, new(float64(f.duplicates)), nil)
	return f
}

// mergeAnswers merges the hosts' replies, in a part of the time that is left.
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

// withMargin returns a context with two thirds of the time that is left.
func withMargin(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, time.Until(deadline)*2/3)
}

// addVM adds all metrics of a VM. job is the job of its migration, nil for none.
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
	// The VM runs on several hosts, or it is unknown which definition counts: the statistics of each host are added.
	for _, c := range m.Samples {
		if c.VM.Host != home.VM.Host && c.VM.Active {
			f.addStats(&c.Stats, s.vmLabels(c.VM))
		}
	}
}

// noteEvent records an event of a host. It never blocks.
func (s *scraper) noteEvent(e fleet.Event) {
	s.transitions.noteEvent(e)
	s.marks.noteEvent(e)
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
			if marked := s.marks.take(name); len(marked) > 0 {
				s.fleet.RefreshMarks(ctx, name, marked)
			}
			samples[i], err = s.fleet.HostSample(ctx, name)
			answers[i] = answer{name, samples[i], time.Since(began), err}
		})
	}
	wg.Wait()
	s.fleet.JudgeEvictable(samples) // it judges the VMs in the replies
	return answers
}

// number is what may differ between two errors of one cause: a time with its unit, a port.
var number = regexp.MustCompile(`[0-9.]+[a-zµ]*`)

// logSilence logs once that a host stopped answering and why, that it now is for another reason, or that it answers
// again.
func (s *scraper) logSilence(ctx context.Context, a answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, was := s.down[a.host]
	if a.err == nil {
		if delete(s.down, a.host); was {
			s.log.InfoContext(ctx, "host answers again", "host", a.host)
		}
		return
	}
	text := a.err.Error()
	why := number.ReplaceAllString(text, "")
	if s.down[a.host] = why; !was || why != before {
		s.log.WarnContext(ctx, "host does not answer", "host", a.host, "error", text)
	}
}

// migrationJob is the job of a migration at its source.
type migrationJob struct {
	from string
	job  *libvirt.Job
}

// jobOrNil returns the job, nil for none.
func (m *migrationJob) jobOrNil() *libvirt.Job {
	if m == nil {
		return nil
	}
	return m.job
}

// readJobs reads the jobs of migrations, by the UUIDs of the VMs. If a host doesn't answer, its VMs have no job.
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
	_ = questions.Wait() // none of the functions returns an error
	return found
}
