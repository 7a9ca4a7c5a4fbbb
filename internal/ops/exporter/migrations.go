package exporter

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// migrationMetrics are the metrics of a running migration, read at its source.
var migrationMetrics = []metricOf[*libvirt.Job]{
	{
		counter("kubevirt_vmi_migration_data_bytes_total", "The total Guest OS data to be migrated to the new VM."),
		countValue(func(j *libvirt.Job) *uint64 { return &j.Data.Total }),
	},
	{
		gauge("kubevirt_vmi_migration_data_remaining_bytes", "The remaining guest OS data to be migrated to the new VM."),
		countValue(func(j *libvirt.Job) *uint64 { return &j.Data.Remaining }),
	},
	{gauge("kubevirt_vmi_migration_data_processed_bytes", "The total Guest OS data processed and migrated to the new "+
		"VM."), countValue(func(j *libvirt.Job) *uint64 { return &j.Data.Processed })},
	{
		gauge("kubevirt_vmi_migration_dirty_memory_rate_bytes", "The rate of memory being dirty in the Guest OS."),
		countValue(func(j *libvirt.Job) *uint64 { return new(j.DirtyRate * j.PageSize) }),
	},
	{
		gauge("kubevirt_vmi_migration_memory_transfer_rate_bytes", "The rate at which the memory is being transferred."),
		countValue(func(j *libvirt.Job) *uint64 { return &j.MemoryRate }),
	},
}

var (
	runningMigrations = gauge("kubevirt_vmi_migrations_in_running_phase", "Number of current running migrations.")

	migrationStart = gauge("kubevirt_vmi_migration_start_time_seconds", "The time at which the migration started.")
	migrationEnd   = gauge("kubevirt_vmi_migration_end_time_seconds", "The time at which the migration ended.")

	migrationSucceeded = gauge("kubevirt_vmi_migration_succeeded", "Indicates if the VMI migration succeeded.")
	migrationFailed    = gauge("kubevirt_vmi_migration_failed", "Indicates if the VMI migration failed.")
)

// addMigrations adds the metrics of a VM's migrations: of the running one, with job's statistics, and of those that are
// recorded in its metadata. job is nil if no migration is running.
func (s *scraper) addMigrations(f *families, vm *fleet.VM, job *libvirt.Job) {
	records := vm.Migrations()
	of := labels{}.with("namespace", s.namespace, "name", vm.Name, "node", vm.Host)
	var last domain.Migration
	if len(records) > 0 {
		last = records[len(records)-1]
	}
	switch {
	case job != nil && last.Completed(), job != nil && last.Start.IsZero():
		// Another tool is migrating the VM, or the record isn't read yet.
		f.add(migrationStart, seconds1970(time.Now().Add(-job.Elapsed)), of.with("migration_name", ""))
	case job != nil:
		f.add(migrationStart, seconds1970(last.Start), of.with("migration_name", migrationName(last)))
	case last.Completed() || last.Failed:
		of = of.with("migration_name", migrationName(last))
		f.add(migrationStart, seconds1970(last.Start), of)
		result := "succeeded"
		if last.Failed {
			result = "failed"
		}
		if last.Completed() { // otherwise no run saw its end
			f.add(migrationEnd, seconds1970(last.End), of.with("status", result))
		}
	}

	// A failed migration may have been requested again, with the same id.
	named := map[string]bool{}
	for _, record := range slices.Backward(records) {
		name := migrationName(record)
		if !record.Completed() && !record.Failed || named[name] {
			continue
		}
		named[name] = true
		result := migrationSucceeded
		if record.Failed {
			result = migrationFailed
		}
		f.add(result, new(1.0), labels{}.with("namespace", s.namespace, "vmi", vm.Name, "vmim", name))
	}
}

// migrationName returns the name of a recorded migration: the migration's id, else its hosts and start time.
func migrationName(m domain.Migration) string {
	return cmp.Or(m.ID, fmt.Sprintf("%s-to-%s-%d", m.SourceHost, m.TargetHost, m.Start.UnixMilli()))
}

// seconds1970 returns a time as Prometheus represents it, in whole seconds like KubeVirt.
func seconds1970(t time.Time) *float64 { return new(float64(t.Unix())) }
