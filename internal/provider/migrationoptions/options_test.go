package migrationoptions

import (
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
)

// The block that only tells has every option as well.
func TestInForce_hasEveryOption(t *testing.T) {
	t.Parallel()
	if diff := cmp.Diff(typesOf(Attributes), typesOf(computed)); diff != "" {
		t.Errorf("-options +in force:\n%s", diff)
	}
}

// Every option goes into the block and comes back, also one that will be added.
func TestOptions_comeBack(t *testing.T) {
	t.Parallel()
	options := migration.Options{
		Transport: migration.TransportTLS, CopyStorage: migration.CopyFull, KeepSourceDisks: new(false),
		SharedFilesystems:       []string{"/srv/a", "/srv/b"},
		CompletionTimeoutPerGiB: new(time.Minute), ProgressTimeout: new(2 * time.Second), MaxDowntime: new(time.Second),
		AllowAutoConverge: new(true), AllowPostCopy: new(false), AllowWorkloadDisruption: new(true),
		AllowNetworkChange: new(true), RecoveryTimeout: new(time.Hour), Bandwidth: new(uint64(1 << 20)),
		ParallelConnections: new(2), OnIrrecoverable: migration.IrrecoverableDestroy,
		Compression: migration.CompressionZstd, StallDetector: new(true), PeerToPeer: new(true),
	}
	for field, v := range reflect.ValueOf(options).Fields() {
		if v.IsZero() && field.Name != "SharedDisks" { // The disks themselves say it.
			t.Errorf("%s isn't tried", field.Name)
		}
	}
	if diff := cmp.Diff(options, Options(FromOptions(options))); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if block := FromOptions(migration.Options{}); !block.IsNull() {
		t.Errorf("no options are %s", block)
	}
}
