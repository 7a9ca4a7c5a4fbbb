package migration

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	fleetmigration "github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

func of(machine, target string, triggers map[string]string) *model {
	return &model{
		VirtualMachineID: types.StringValue(machine), TargetHost: value.NewStringOrNull(target),
		Triggers: value.NewStringMap(triggers),
	}
}

// The id follows from VM, target and triggers, from nothing else, and is known when they are.
func TestModel_identity(t *testing.T) {
	t.Parallel()
	seen := map[string]int{}
	for i, m := range []*model{
		of("a", "", nil), of("b", "", nil), of("a", "kvm1", nil), of("a", "", map[string]string{"x": "1"}),
		of("a", "", map[string]string{"x": "2"}), of("a", "", map[string]string{"y": "1"}),
		of("a", "", map[string]string{"x": "1", "y": "1"}),
	} {
		id := m.plannedID().ValueString()
		if other, taken := seen[id]; taken || len(id) != 32 {
			t.Errorf("migrations %d and %d have the id %q", i, other, id)
		}
		seen[id] = i
	}
	options := of("a", "", map[string]string{})
	options.Phase = types.StringValue("Failed")
	if seen[options.plannedID().ValueString()] != 0 {
		t.Error("an empty map of triggers, or how it went, changes the id")
	}
	unknown := of("a", "", nil)
	unknown.Triggers = types.MapValueMust(types.StringType, map[string]attr.Value{"x": types.StringUnknown()})
	if !unknown.plannedID().IsUnknown() {
		t.Error("the id is known before the triggers are")
	}
}

// What wasn't reported is null, and an older try doesn't hide a later one.
func TestModel_fromRecord(t *testing.T) {
	t.Parallel()
	began := time.Date(2024, 2, 29, 12, 0, 0, 250_000_000, time.UTC)
	record := domain.Migration{SourceHost: "kvm1", Start: began, Phase: "Failed", Failed: true}
	var m model
	m.fromRecord(record)
	state := m.MigrationState.Attributes()
	for _, name := range []string{
		"target_host", "end_time", "mode", "statistics", "failure_reason", "abort_status", "migration_policy_name",
		"migration_configuration",
	} {
		if !state[name].IsNull() {
			t.Errorf("%s is %s, want null", name, state[name])
		}
	}
	if got := state["start_time"]; !got.Equal(types.StringValue("2024-02-29T12:00:00.25Z")) {
		t.Errorf("start_time is %s", got)
	}
	if m.isNewer(record) {
		t.Error("a record is older than itself")
	}
	record.Start = began.Add(-time.Second)
	if !m.isNewer(record) || (&model{}).isNewer(record) {
		t.Error("an older try counts as the newest, or one that never was counts")
	}
}

// A migration that was imported is the configured one if the id follows from the configuration, whatever the state
// lacks.
func TestModel_differs(t *testing.T) {
	t.Parallel()
	ordered := of("a", "kvm1", map[string]string{"x": "1"})
	imported := of("a", "", nil)
	imported.ID = ordered.plannedID()
	if at := ordered.changedPaths(imported); at != nil {
		t.Errorf("what was imported differs in %v", at)
	}
	if at := of("a", "kvm1", map[string]string{"x": "2"}).changedPaths(imported); len(at) == 0 {
		t.Error("other triggers are no other migration")
	}
	for target, want := range map[string]string{"kvm1": "kvm1", "": ""} {
		id := of("a", target, nil).plannedID().ValueString()
		if got := of("a", "", nil).orderedHost(id, "kvm1"); got.ValueString() != want {
			t.Errorf("it was ordered to %s, want %q", got, want)
		}
	}
	if got := of("a", "", nil).orderedHost(imported.ID.ValueString(), "kvm1"); !got.IsNull() {
		t.Errorf("with triggers it was ordered to %s", got)
	}
}

// What failed, and what is unknown, isn't imported; the error says what could be.
func TestImportable(t *testing.T) {
	t.Parallel()
	vm := &fleet.VM{Name: "web", Host: "kvm1"}
	vm.Metadata.Migrations = []domain.Migration{
		{ID: "4711", SourceHost: "kvm1", TargetHost: "kvm2", Phase: fleetmigration.PhaseSucceeded},
		{ID: "4714", SourceHost: "kvm1", TargetHost: "kvm2", Phase: fleetmigration.PhaseRunning},
		{ID: "4712", Failed: true, FailureReason: "the link broke"},
		{SourceHost: "kvm2"},
	}
	for id, want := range map[string]string{
		"4711": "", "4712": "the link broke", "4713": "no record", "": "no record", "4714": "has not ended",
	} {
		err := whyNotImportable(vm, id, vm.Metadata.Migration(id))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", id, err, want)
		}
	}
	if text := knownMigrations(vm.Metadata.Migrations); !strings.Contains(text, "4711") || strings.Contains(text, "4712") {
		t.Errorf("known are: %s", text)
	}
}

// The apply names the disks that stay on the source, and why, also if the migration failed.
func TestWarnings_nameKeptDisks(t *testing.T) {
	t.Parallel()
	vm := &fleet.VM{Name: "web", Host: "kvm2"}
	if got := append(warnings(vm, domain.Migration{}, nil), warnings(nil, domain.Migration{}, nil)...); len(got) > 0 {
		t.Error(got)
	}
	vm.KeptDisks = []string{`/vms/a on host "kvm1", which an earlier run left: VM "b" uses it`}
	for _, err := range []error{nil, errors.New("it failed")} {
		got := warnings(vm, domain.Migration{}, err)
		if len(got) != 1 || got.HasError() || !strings.Contains(got[0].Detail(), vm.KeptDisks[0]) {
			t.Error(got)
		}
	}
}
