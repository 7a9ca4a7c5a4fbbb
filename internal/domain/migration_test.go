package domain

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var migrationStart = time.Date(2024, 2, 29, 12, 0, 0, 250_000_000, time.UTC)

func failedMigration() Migration {
	return Migration{
		ID: "4711", Owner: "me@here", SourceHost: "kvm1", TargetHost: "kvm2", SourceUUID: "s", TargetUUID: "t",
		Start: migrationStart, End: migrationStart.Add(3 * time.Second),
		Phase: "Failed", Mode: "PreCopy", Method: "LiveMigration", Transport: "tls",
		FailureReason: "it took\n <too> long & was aborted", FailurePlane: "data",
		AbortRequested: true, AbortStatus: "Succeeded", Failed: true, Recovered: true, Autostart: true,
		Policy: "bulk & more", Options: `{"Transport":"auto"}`,
		Statistics: MigrationStatistics{
			Elapsed: 3000, Downtime: 12, Setup: 3, Total: 1 << 40, Processed: 4, Remaining: 5, Rate: 6, DirtyRate: 7,
			Iterations: 8, Throttle: 9, PostCopyRequests: 10, DiskTotal: 11, DiskProcessed: 12, DiskRemaining: 13,
		},
	}
}

// What a host says of a failure may hold what XML can't.
func TestMigration_reasonIsMadePrintable(t *testing.T) {
	t.Parallel()
	d := sample(t, "virt-install-q35")
	m := failedMigration()
	m.FailureReason = " \x1b[31mlost\x00 \xff\n"
	if err := d.SetMetadata(Metadata{Migrations: []Migration{m}}); err != nil {
		t.Fatal(err)
	}
	m.FailureReason = "[31mlost"
	if diff := cmp.Diff([]Migration{m}, parse(t, output(t, d)).Metadata().Migrations); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestMetadata_keepsTheNewestMigrations(t *testing.T) {
	t.Parallel()
	var m Metadata
	for i := range MaxMigrations + 2 {
		start := migrationStart.Add(time.Duration(i) * time.Minute)
		record := Migration{ID: strings.Repeat("a", i%2), Owner: "x", Start: start}
		m = m.WithMigration(record)
		// The same one again, with how it went.
		record.End, record.Phase = record.Start.Add(time.Second), "Succeeded"
		m = m.WithMigration(record)
	}
	if len(m.Migrations) != MaxMigrations {
		t.Errorf("%d records, want %d", len(m.Migrations), MaxMigrations)
	}
	for _, record := range m.Migrations {
		if !record.Completed() {
			t.Errorf("kept together with its end: %+v", record)
		}
	}
	if newest := m.Migration(""); newest == nil || !newest.Start.Equal(migrationStart.Add(6*time.Minute)) {
		t.Errorf("newest is %+v", newest)
	}
	if m.Migration("b") != nil {
		t.Error("found one that was never there")
	}
}
