package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/ops/config"
)

// TestOpen_quotesNothing: an error about the file doesn't repeat what is in it, which may be a password.
func TestOpen_quotesNothing(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"ssh:\n  password: *hunter2\n":                    "unknown anchor",
		"ssh:\n  password: hunter2: more\n":               "line 2: it isn't valid YAML: mapping values",
		"hunter2\n":                                       "is not a map of attributes",
		"# hunter2\n":                                     "is empty",
		"hosts:\n  hunter2: {}\n  b: {}\n  hunter2: {}\n": "line 4: line 2 has this key already",
	} {
		file := filepath.Join(t.TempDir(), "fleet.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := config.Open(t.Context(), file, nil, nil)
		if err == nil || strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
