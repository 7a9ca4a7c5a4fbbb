package migrationoptions

import (
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

// FromOptions returns the block for the options, null if no option is set.
func FromOptions(o migration.Options) types.Object {
	all := map[string]attr.Value{
		"transport":                  value.NewStringOrNull(o.Transport),
		"copy_storage":               value.NewStringOrNull(o.CopyStorage),
		"shared_filesystems":         value.NewStringSet(o.SharedFilesystems),
		"keep_source_disks":          types.BoolPointerValue(o.KeepSourceDisks),
		"completion_timeout_per_gib": value.NewDurationPointer(o.CompletionTimeoutPerGiB),
		"progress_timeout":           value.NewDurationPointer(o.ProgressTimeout),
		"recovery_timeout":           value.NewDurationPointer(o.RecoveryTimeout),
		"on_irrecoverable":           value.NewStringOrNull(o.OnIrrecoverable),
		"max_downtime":               value.NewDurationPointer(o.MaxDowntime),
		"allow_auto_converge":        types.BoolPointerValue(o.AllowAutoConverge),
		"allow_post_copy":            types.BoolPointerValue(o.AllowPostCopy),
		"allow_workload_disruption":  types.BoolPointerValue(o.AllowWorkloadDisruption),
		"allow_network_change":       types.BoolPointerValue(o.AllowNetworkChange),
		"bandwidth":                  value.NewQuantityPointer(o.Bandwidth),
		"parallel_connections":       value.NewInt(o.ParallelConnections),
		"compression":                value.NewStringOrNull(o.Compression),
		"peer_to_peer":               types.BoolPointerValue(o.PeerToPeer),
		"stall_detector":             types.BoolPointerValue(o.StallDetector),
	}
	for _, v := range all {
		if !v.IsNull() {
			return types.ObjectValueMust(Type.AttrTypes, all)
		}
	}
	return types.ObjectNull(Type.AttrTypes)
}
