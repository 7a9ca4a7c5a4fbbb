package migrationoptions

import (
	"os"
	"reflect"
	"strings"
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

// The guide explains every option and has its default. The schemas say what each is for, and their block links to the
// guide.
func TestOptions_areExplainedOnce(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile("../../../templates/guides/migration-options.md")
	if err != nil {
		t.Fatal(err)
	}
	for name, a := range Attributes {
		if !strings.Contains(string(guide), "\n| `"+name+"` | ") {
			t.Errorf("%s has no row in the guide", name)
		}
		if text := a.GetMarkdownDescription(); text == "" || len(text) > 110 || strings.Contains(text, "Default") {
			t.Errorf("%s: %q: want a short description without the default", name, text)
		}
	}
	const link = "/migration-options.md)"
	for what, text := range map[string]string{
		"resource": OfResource("").GetMarkdownDescription(), "provider": OfProvider("").GetMarkdownDescription(),
		"data source": OfDataSource("").GetMarkdownDescription(),
	} {
		if !strings.Contains(text, link) {
			t.Errorf("%s: %q has no link to the guide", what, text)
		}
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
