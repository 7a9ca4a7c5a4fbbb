package migrationoptions

import (
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	resource "github.com/hashicorp/terraform-plugin-framework/resource/schema"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
)

// The block that only tells has every option as well.
func TestInForce_hasEveryOption(t *testing.T) {
	t.Parallel()
	if diff := cmp.Diff(typesOf(Attributes), typesOf(computed)); diff != "" {
		t.Errorf("-options +in force:\n%s", diff)
	}
}

// The provider's page describes every option, and so does the guide that the other pages link to: these have every
// option as well, with the checks of its value.
func TestOptions_areDescribedOnce(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile("../../../templates/guides/migration-options.md")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(typesOf(Attributes), typesOf(linked)); diff != "" {
		t.Errorf("-described +linked:\n%s", diff)
	}
	for name, described := range Attributes {
		if !strings.Contains(string(guide), "\n| `"+name+"` | ") {
			t.Errorf("%s has no row in the guide", name)
		}
		link := linked[name]
		if link == nil {
			continue
		}
		if text := link.GetMarkdownDescription(); !strings.Contains(text, "/migration-options.md)") || len(text) > 80 {
			t.Errorf("%s: %q: want a link to the guide", name, text)
		}
		if a, is := described.(resource.StringAttribute); is {
			if b, same := link.(resource.StringAttribute); !same || !reflect.DeepEqual(a.Validators, b.Validators) {
				t.Errorf("%s isn't checked everywhere in the same way", name)
			}
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
