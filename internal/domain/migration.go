package domain

import (
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/beevik/etree"
)

// MaxMigrations is how many records of migrations a VM keeps, as many as in KubeVirt.
const MaxMigrations = 5

// Migration is the record of one migration. It is part of the VM's metadata. A value that was not reported is zero.
type Migration struct {
	// ID identifies the migration to the run that ordered it; "" if no run will ask for it later.
	ID string
	// Owner is the run that moved the VM.
	Owner string
	// SourceHost and TargetHost are the hosts' names in the owner's configuration. SourceUUID and TargetUUID are the
	// UUIDs of these hosts in libvirt, "" if not recorded: earlier versions recorded only names.
	SourceHost, TargetHost, SourceUUID, TargetUUID string
	// Start and End are kept in milliseconds. End is zero while the outcome is unknown.
	Start, End time.Time
	// Phase, Mode, Method, FailureReason, FailurePlane and AbortStatus have the values that the migration set.
	Phase, Mode, Method string
	// Transport is the transport that was used. While the outcome is unknown, it is the requested one. "" means that
	// there is none, or that it was not recorded.
	Transport                   string
	FailureReason, FailurePlane string
	AbortRequested              bool
	AbortStatus                 string
	// Failed says that the migration ended without moving the VM.
	Failed bool
	// Recovered says that the migration broke on the way, was resumed and completed.
	Recovered bool
	// Autostart is the VM's autostart setting on the source before the migration. libvirt doesn't migrate it.
	Autostart bool
	// Policy is the name of the policy that tuned the migration, "" for none. Options is the text of all options that
	// the migration was started with, in the writer's format.
	Policy, Options string
	Statistics      MigrationStatistics
}

// WithHosts returns the record with the hosts of other, the record of the same migration.
func (m Migration) WithHosts(other Migration) Migration {
	m.SourceHost, m.TargetHost, m.SourceUUID, m.TargetUUID = other.SourceHost, other.TargetHost, other.SourceUUID,
		other.TargetUUID
	return m
}

// Completed reports whether the migration has ended, successfully or not.
func (m Migration) Completed() bool { return !m.End.IsZero() }

// MigrationStatistics are the last statistics of a migration. Times are in milliseconds, rates in bytes per second.
type MigrationStatistics struct {
	Elapsed, Downtime, Setup uint64
	// Total, Processed and Remaining are for memory and disks together. DiskTotal, DiskProcessed and DiskRemaining are
	// the disks' part.
	Total, Processed, Remaining             uint64
	DiskTotal, DiskProcessed, DiskRemaining uint64
	Rate, DirtyRate                         uint64
	Iterations                              uint64
	// Throttle is the percentage by which auto-converge slowed the guest down.
	Throttle         uint64
	PostCopyRequests uint64
}

// fields returns the statistics with the names of their attributes, in the order in which they are written.
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

// Migration returns the newest record with that id, and nil if there is none.
func (m Metadata) Migration(id string) *Migration {
	for _, record := range slices.Backward(m.Migrations) {
		if record.ID == id {
			return &record
		}
	}
	return nil
}

// WithMigration returns the metadata with one more record, and without the oldest records if there are too many. The
// record replaces the last one if both are about the same migration.
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

// readMigrations reads the records, oldest first.
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
		SourceUUID: attr(e, "source-uuid"), TargetUUID: attr(e, "target-uuid"),
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

// readTime reads a time. A text that isn't a time becomes the zero time.
func readTime(s string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return time.Time{}
	}
	return t.UTC()
}

// writeMigrations writes the records that readMigrations reads.
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
	set("source-uuid", m.SourceUUID)
	set("target-uuid", m.TargetUUID)
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

// printable removes characters that XML can't hold, and the space that reading trims.
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

// writeFlag returns "" for false, so that the attribute is omitted.
func writeFlag(b bool) string {
	if b {
		return "true"
	}
	return ""
}
