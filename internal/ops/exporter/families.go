package exporter

import (
	"maps"
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"
)

// metric is a family of metrics.
type metric struct {
	name, help string
	kind       dto.MetricType
}

func gauge(name, help string) metric   { return metric{name, help, dto.MetricType_GAUGE} }
func counter(name, help string) metric { return metric{name, help, dto.MetricType_COUNTER} }

// labels are the labels of one series.
type labels []*dto.LabelPair

// with adds labels, given as names and values in turns. What is added to stays as it is.
func (l labels) with(pairs ...string) labels {
	all := slices.Clone(l)
	for i := 0; i+1 < len(pairs); i += 2 {
		all = append(all, &dto.LabelPair{Name: &pairs[i], Value: &pairs[i+1]})
	}
	slices.SortFunc(all, func(a, b *dto.LabelPair) int { return strings.Compare(a.GetName(), b.GetName()) })
	return all
}

// families is what one scrape gives. It takes no more series than its limit, so that neither a fleet nor a host that
// went mad fills anybody's memory.
type families struct {
	all            map[string]*dto.MetricFamily
	limit, dropped int
}

func newFamilies(limit int) *families {
	return &families{all: map[string]*dto.MetricFamily{}, limit: limit}
}

// add adds a series. Without a value there is none.
func (f *families) add(m metric, value *float64, l labels) {
	if value == nil {
		return
	}
	if f.limit <= 0 {
		f.dropped++
		return
	}
	f.limit--
	family := f.all[m.name]
	if family == nil {
		family = &dto.MetricFamily{Name: &m.name, Help: &m.help, Type: &m.kind}
		f.all[m.name] = family
	}
	series := &dto.Metric{Label: l}
	if m.kind == dto.MetricType_COUNTER {
		series.Counter = &dto.Counter{Value: value}
	} else {
		series.Gauge = &dto.Gauge{Value: value}
	}
	family.Metric = append(family.Metric, series)
}

// Gather gives the families in the order of their names, as prometheus.Gatherer wants it.
func (f *families) Gather() ([]*dto.MetricFamily, error) {
	sorted := make([]*dto.MetricFamily, 0, len(f.all))
	for _, name := range slices.Sorted(maps.Keys(f.all)) {
		sorted = append(sorted, f.all[name])
	}
	return sorted, nil
}
