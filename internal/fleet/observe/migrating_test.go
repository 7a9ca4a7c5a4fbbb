package observe

import (
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// A migration began when its record says, at every look: what libvirt counts since then comes with a delay of its own.
func TestMigrating_beganWhenItsRecordSays(t *testing.T) {
	t.Parallel()

	began := time.Date(2026, 1, 2, 3, 4, 5, 678e6, time.UTC)
	record := domain.Migration{SourceHost: "kvm1", TargetHost: "kvm2", Start: began}
	ended := record
	ended.End = began.Add(time.Minute)
	elsewhere := record
	elsewhere.TargetHost = "kvm3"

	for name, tt := range map[string]struct {
		records []domain.Migration
		own     bool
	}{
		"own": {[]domain.Migration{ended, record}, true}, "another tool's": {nil, false},
		"another tool's after one":                           {[]domain.Migration{ended}, false},
		"another tool's to another host, after a killed one": {[]domain.Migration{elsewhere}, false},
	} {
		for _, elapsed := range []time.Duration{time.Second, time.Hour} {
			o := &observing{
				vm: &inventory.VM{
					Host: "kvm1", State: libvirt.Running, Active: true, Migrating: true,
					ActiveHosts: map[string]status.Role{"kvm1": status.RoleSource, "kvm2": status.RoleTarget},
					Metadata:    domain.Metadata{Migrations: tt.records},
				},
				job: &libvirt.Job{
					Type: libvirt.JobUnbounded, Operation: libvirt.OperationMigrationOut, Elapsed: elapsed,
				},
			}

			var out Observation
			o.migrating(&out)

			if out.Migration.Start.IsZero() || out.Migration.Start.Equal(began) != tt.own ||
				!out.Facts.MigratingSince.Equal(out.Migration.Start) {
				t.Errorf("%s, for %s: it began %s, it is being moved since %s", name, elapsed, out.Migration.Start,
					out.Facts.MigratingSince)
			}
		}
	}
}
