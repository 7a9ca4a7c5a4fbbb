package migrationoptions

import (
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
)

// A data source says what the resource says, and the phase; whether one is to be aborted is unknown until it is over.
func TestFromRecord(t *testing.T) {
	t.Parallel()
	if block := FromRecordWithPhase(nil); !block.IsNull() {
		t.Errorf("no migration is %s", block)
	}
	record := domain.Migration{SourceHost: "kvm1", Phase: "Running", Statistics: domain.MigrationStatistics{
		Total: 4711, Elapsed: 1500,
	}}
	of := FromRecord(record).Attributes()
	with := FromRecordWithPhase(&record).Attributes()
	for name, v := range of {
		if !v.Equal(with[name]) {
			t.Errorf("%s is %s, with the phase %s", name, v, with[name])
		}
	}
	if !with["phase"].Equal(types.StringValue("Running")) || len(with) != len(of)+1 {
		t.Errorf("phase is %s, and %d of %d attributes are there", with["phase"], len(with), len(of)+1)
	}
	statistics, _ := of["statistics"].(types.Object)
	for name, want := range map[string]attr.Value{
		"data_total_bytes": types.Int64Value(4711), "elapsed_seconds": types.Float64Value(1.5),
		"downtime_seconds": types.Float64Null(), "disk_remaining_bytes": types.Int64Null(),
	} {
		if got := statistics.Attributes()[name]; !want.Equal(got) {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
	if !of["abort_requested"].IsNull() {
		t.Error("whether it is to be aborted is known before it is over")
	}
	record.End = time.Now()
	if !FromRecord(record).Attributes()["abort_requested"].Equal(types.BoolValue(false)) {
		t.Error("it isn't known that it wasn't aborted")
	}
}
