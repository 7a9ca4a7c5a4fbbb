package exporter

import (
	"hash/maphash"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

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

// with returns the labels with more labels, given as alternating names and values. l itself doesn't change.
func (l labels) with(pairs ...string) labels {
	all := slices.Clone(l)
	for i := 0; i+1 < len(pairs); i += 2 {
		all = append(all, &dto.LabelPair{Name: &pairs[i], Value: new(labelValue(pairs[i+1]))})
	}
	slices.SortFunc(all, func(a, b *dto.LabelPair) int { return strings.Compare(a.GetName(), b.GetName()) })
	return all
}

// maxLabelValue limits a label's value, in bytes: guests and users of hosts choose names freely.
const maxLabelValue = 256

// labelValue returns a value that Prometheus accepts: valid UTF-8, and not longer than maxLabelValue.
func labelValue(value string) string {
	if len(value) <= maxLabelValue && utf8.ValidString(value) {
		return value
	}
	value = strings.ToValidUTF8(value, "\uFFFD")
	if len(value) <= maxLabelValue {
		return value
	}
	end := maxLabelValue - len("\u2026")
	for !utf8.RuneStart(value[end]) {
		end--
	}
	return value[:end] + "\u2026"
}

// seriesHash returns the hash of a metric's name and labels. It is used to find duplicate series.
func seriesHash(m metric, l labels) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	for _, pair := range l {
		for _, s := range [...]string{pair.GetName(), pair.GetValue()} {
			_, _ = h.WriteString(s) // it never fails
			_ = h.WriteByte(0xff)   // never part of valid UTF-8
		}
	}
	_, _ = h.WriteString(m.name)
	return h.Sum64()
}

var seed = maphash.MakeSeed()

// families is the result of one scrape. It contains no more series than its limit, so that neither a huge fleet nor a
// host that malfunctions fills Prometheus's memory.
type families struct {
	all            map[string]*dto.MetricFamily
	limit, dropped int
	// Prometheus rejects a whole response if it has a series twice. So the second one is left out and counted.
	seen       map[uint64]bool
	duplicates int
}

func newFamilies(limit int) *families {
	return &families{all: map[string]*dto.MetricFamily{}, seen: map[uint64]bool{}, limit: limit}
}

// add adds a series. A nil value adds none.
func (f *families) add(m metric, value *float64, l labels) {
	if value == nil {
		return
	}
	if f.limit <= 0 {
		f.dropped++
		return
	}
	id := seriesHash(m, l)
	if f.seen[id] {
		f.duplicates++
		return
	}
	f.seen[id] = true
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

// Gather returns the families sorted by name, as prometheus.Gatherer requires.
func (f *families) Gather() ([]*dto.MetricFamily, error) {
	sorted := make([]*dto.MetricFamily, 0, len(f.all))
	for _, name := range slices.Sorted(maps.Keys(f.all)) {
		sorted = append(sorted, f.all[name])
	}
	return sorted, nil
}
