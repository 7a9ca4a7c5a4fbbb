package exporter

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// TestAddMigrations has what records and a job become, each series once.
func TestAddMigrations(t *testing.T) {
	t.Parallel()
	at := func(second int) time.Time { return time.Unix(1000, 0).Add(time.Duration(second) * time.Second) }
	record := func(id string, start, end int, failed bool) domain.Migration {
		m := domain.Migration{ID: id, SourceHost: "a", TargetHost: "b", Start: at(start), Failed: failed}
		if end > 0 {
			m.End = at(end)
		}
		return m
	}
	const (
		where = `{migration_name="`
		rest  = `",name="web",namespace="lab",node="a"`
	)
	for name, test := range map[string]struct {
		records []domain.Migration
		job     *libvirt.Job
		want    scraped
	}{
		"never moved": {nil, nil, scraped{}},
		"moved": {[]domain.Migration{record("", 1, 5, false)}, nil, scraped{
			"kubevirt_vmi_migration_start_time_seconds" + where + "a-to-b-1001000" + rest + "}":                  1001,
			"kubevirt_vmi_migration_end_time_seconds" + where + "a-to-b-1001000" + rest + `,status="succeeded"}`: 1005,
			`kubevirt_vmi_migration_succeeded{namespace="lab",vmi="web",vmim="a-to-b-1001000"}`:                  1,
		}},
		"tried three times under one name": {
			[]domain.Migration{record("x", 1, 5, true), record("x", 6, 7, true), record("y", 8, 9, true)}, nil, scraped{
				"kubevirt_vmi_migration_start_time_seconds" + where + "y" + rest + "}":               1008,
				"kubevirt_vmi_migration_end_time_seconds" + where + "y" + rest + `,status="failed"}`: 1009,
				`kubevirt_vmi_migration_failed{namespace="lab",vmi="web",vmim="x"}`:                  1,
				`kubevirt_vmi_migration_failed{namespace="lab",vmi="web",vmim="y"}`:                  1,
			},
		},
		"moving": {[]domain.Migration{record("x", 1, 0, false)}, &libvirt.Job{}, scraped{
			"kubevirt_vmi_migration_start_time_seconds" + where + "x" + rest + "}": 1001,
		}},
		"its mover was killed": {[]domain.Migration{record("x", 1, 0, false)}, nil, scraped{}},
	} {
		vm := &fleet.VM{Name: "web", Host: "a"}
		vm.Metadata.Migrations = test.records
		f := newFamilies(100)
		(&scraper{namespace: "lab"}).addMigrations(f, vm, test.job)
		if diff := cmp.Diff(test.want, flat(f.all)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		for _, family := range f.all {
			if family.GetType() != dto.MetricType_GAUGE {
				t.Errorf("%s is no gauge", family.GetName())
			}
		}
	}
}
