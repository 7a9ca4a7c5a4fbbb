package domain

import (
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/beevik/etree"
)

// MaxMigrations is how many records of migrations a VM keeps: KubeVirt keeps as many.
const MaxMigrations = 5

// Migration is the record of one migration, as it travels with the VM. What was not reported is the zero value.
type Migration struct {
	// ID is how the run that ordered it knows it again; "" is a move that no run asks for later.
	ID string
	// Owner says who moved the VM.
	Owner string
	// SourceHost and TargetHost are the names that the owner has for the hosts.
	SourceHost, TargetHost string
	// Start and End are kept in milliseconds. End is zero until it is known how it ended.
	Start, End time.Time
	// Phase, Mode, Method, FailureReason, FailurePlane and AbortStatus have the values that the migration gave them.
	Phase, Mode, Method string
	// Transport is the one that was used; before it is known how the migration ended, the one that was asked for. "" is
	// none, or that it was not recorded.
	Transport                   string
	FailureReason, FailurePlane string
	AbortRequested              bool
	AbortStatus                 string
	// Failed says that it ended without moving the VM.
	Failed bool
	// Recovered says that it broke on the way and was brought to its end all the same.
	Recovered bool
	// Autostart is what the VM had at the source before: no migration takes it along.
	Autostart bool
	// Policy is the name of the policy that tuned it, "" for none. Options is the text of all options that it was begun
	// with, in the form that whoever wrote it reads.
	Policy, Options string
	Statistics      MigrationStatistics
}

// Completed says that the migration has ended, well or not.
func (m Migration) Completed() bool { return !m.End.IsZero() }

// MigrationStatistics are the last numbers of a migration. Times are in milliseconds, rates in bytes per second.
type MigrationStatistics struct {
	Elapsed, Downtime, Setup uint64
	// Total, Processed and Remaining are of memory and disks together; the others are the disks' part of it.
	Total, Processed, Remaining             uint64
	DiskTotal, DiskProcessed, DiskRemaining uint64
	Rate, DirtyRate                         uint64
	Iterations                              uint64
	// Throttle is by how many percent auto-converge slowed the guest down.
	Throttle         uint64
	PostCopyRequests uint64
}

// fields are the statistics by the names of their attributes, in the order in which they are written.
func (s *MigrationStatistics) fields() []struct {
	name  string
	value *uint64
} {
	return []struct {
		name  string
		value *uint64
	}{
		{"elapsed", &s.Elapsed},
		{"downtime", &s.Downtime},
		{"setup", &s.Setup},
		{"total", &s.Total},
		{"processed", &s.Processed},
		{"remaining", &s.Remaining},
		{"disk-total", &s.DiskTotal},
		{"disk-processed", &s.DiskProcessed},
		{"disk-remaining", &s.DiskRemaining},
		{"rate", &s.Rate},
		{"dirty-rate", &s.DirtyRate},
		{"iterations", &s.Iterations},
		{"throttle", &s.Throttle},
		{"post-copy-requests", &s.PostCopyRequests},
	}
}

// Migration returns the newest record with that id, nil if there is none.
func (m Metadata) Migration(id string) *Migration {
	for _, record := range slices.Backward(m.Migrations) {
		if record.ID == id {
			return &record
		}
	}
	return nil
}

// WithMigration returns the metadata with one more record, without the oldest where there are too many. It replaces
// the last one if that is about the same migration.
func (m Metadata) WithMigration(record Migration) Metadata {
	all := slices.Clone(m.Migrations)
	if last := len(all) - 1; last >= 0 && all[last].ID == record.ID && sameTime(all[last].Start, record.Start) {
		all = all[:last]
	}
	all = append(all, record)
	m.Migrations = all[max(0, len(all)-MaxMigrations):]
	return m
}

// timeLayout is RFC 3339 in milliseconds.
const timeLayout = "2006-01-02T15:04:05.000Z07:00"

func sameTime(a, b time.Time) bool {
	return a.Truncate(time.Millisecond).Equal(b.Truncate(time.Millisecond))
}

func sameMigrations(a, b []Migration) bool {
	return slices.EqualFunc(a, b, func(a, b Migration) bool {
		same := sameTime(a.Start, b.Start) && sameTime(a.End, b.End)
		a.Start, a.End, b.Start, b.End = time.Time{}, time.Time{}, time.Time{}, time.Time{}
		return same && a == b
	})
}

// readMigrations reads the records, the oldest first.
func readMigrations(vm *etree.Element) []Migration {
	list := ownChild(vm, "migrations")
	if list == nil {
		return nil
	}
	var all []Migration
	for _, e := range list.ChildElements() {
		if e.Tag == "migration" && e.NamespaceURI() == MetadataNamespace {
			all = append(all, readMigration(e))
		}
	}
	return all
}

func readMigration(e *etree.Element) Migration {
	m := Migration{
		ID: attr(e, "id"), Owner: attr(e, "owner"), SourceHost: attr(e, "source"), TargetHost: attr(e, "target"),
		Start: readTime(attr(e, "start")), End: readTime(attr(e, "end")),
		Phase: attr(e, "phase"), Mode: attr(e, "mode"), Method: attr(e, "method"), Transport: attr(e, "transport"),
		AbortRequested: attr(e, "abort-requested") == "true", AbortStatus: attr(e, "abort-status"),
		Recovered: attr(e, "recovered") == "true", Autostart: attr(e, "autostart") == "true",
	}
	if failure := ownChild(e, "failure"); failure != nil {
		m.Failed, m.FailurePlane, m.FailureReason = true, attr(failure, "plane"), text(failure)
	}
	if options := ownChild(e, "options"); options != nil {
		m.Policy, m.Options = attr(options, "policy"), text(options)
	}
	if statistics := ownChild(e, "statistics"); statistics != nil {
		for _, f := range m.Statistics.fields() {
			*f.value, _ = strconv.ParseUint(attr(statistics, f.name), 10, 64)
		}
	}
	return m
}

// readTime reads a time; what can't be read is the zero time.
func readTime(s string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return time.Time{}
	}
	return t.UTC()
}

// writeMigrations writes what readMigrations reads.
func writeMigrations(vm *etree.Element, all []Migration) {
	if sameMigrations(readMigrations(vm), all) {
		return
	}
	drop(ownChild(vm, "migrations"))
	if len(all) == 0 {
		return
	}
	list := addOwn(vm, "migrations")
	for _, m := range all {
		m.write(addOwn(list, "migration"))
	}
}

func (m Migration) write(e *etree.Element) {
	set := func(name, value string) {
		if value != "" {
			e.CreateAttr(name, value)
		}
	}
	set("id", m.ID)
	set("owner", m.Owner)
	set("source", m.SourceHost)
	set("target", m.TargetHost)
	set("start", writeTime(m.Start))
	set("end", writeTime(m.End))
	set("phase", m.Phase)
	set("mode", m.Mode)
	set("method", m.Method)
	set("transport", m.Transport)
	set("abort-requested", writeFlag(m.AbortRequested))
	set("abort-status", m.AbortStatus)
	set("recovered", writeFlag(m.Recovered))
	set("autostart", writeFlag(m.Autostart))
	if m.Failed {
		failure := addOwn(e, "failure")
		failure.CreateAttr("plane", m.FailurePlane)
		failure.SetText(printable(m.FailureReason))
	}
	if m.Policy != "" || m.Options != "" {
		options := addOwn(e, "options")
		if m.Policy != "" {
			options.CreateAttr("policy", m.Policy)
		}
		options.SetText(printable(m.Options))
	}
	if m.Statistics == (MigrationStatistics{}) {
		return
	}
	statistics := addOwn(e, "statistics")
	for _, f := range m.Statistics.fields() {
		if *f.value > 0 {
			statistics.CreateAttr(f.name, strconv.FormatUint(*f.value, 10))
		}
	}
}

// printable leaves out what XML can't hold, and what reading trims.
func printable(s string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "")))
}

func writeTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(timeLayout)
}

// writeFlag leaves out what is false.
func writeFlag(b bool) string {
	if b {
		return "true"
	}
	return ""
}
