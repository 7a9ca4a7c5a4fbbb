package config_test

import (
	"bytes"
	"errors"
	"flag"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/ops/config"
)

// TestFlags: a wrong command line is told once, by the error, with the command that lists the options. -help lists
// them, and says which host there is without -config.
func TestFlags(t *testing.T) {
	t.Parallel()
	for _, wrong := range []string{"-once", "web"} {
		var messages bytes.Buffer
		err := config.NewFlags("watch").Parse([]string{wrong}, &messages)
		if err == nil || !strings.Contains(err.Error(), `"virtfleet watch -help" lists the options`) || messages.Len() > 0 {
			t.Errorf("%s: %v, and %q", wrong, err, messages.String())
		}
	}
	var messages bytes.Buffer
	err := config.NewFlags("watch").Parse([]string{"-help"}, &messages)
	if said := messages.String(); !errors.Is(err, flag.ErrHelp) || !strings.Contains(said, "Usage: virtfleet watch") ||
		!strings.Contains(said, "VIRTFLEET_URI") {
		t.Errorf("%v, and %q", err, said)
	}
	f := config.NewFlags("watch")
	if err := f.Parse([]string{"-config", "fleet.yaml"}, &messages); err != nil || f.Config != "fleet.yaml" {
		t.Errorf("%q: %v", f.Config, err)
	}
}
