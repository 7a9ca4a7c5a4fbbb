package provider

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/terraform-plugin-log/tflogtest"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/ssh"
)

func TestLogHandler_writesToTerraformsLog(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	base := tflogtest.RootLogger(context.Background(), &out)
	log := slog.New(&logHandler{base: base, level: slog.LevelInfo}).With("host", "kvm1").WithGroup("call")

	log.Debug("not asked for")
	log.Info("reading", "procedure", "list", "error", errors.New("broken"), slog.Group("took", "ms", 3))
	// Background work has a context without Terraform's logger.
	log.WarnContext(t.Context(), "retrying", "settings", ssh.Config{Host: "h", Password: "hunter2"})

	got, err := tflogtest.MultilineJSONDecode(&out)
	if err != nil {
		t.Fatal(err)
	}
	want := []map[string]any{
		{
			"@level": "info", "@message": "reading", "@module": "provider", "host": "kvm1", "call.procedure": "list",
			"call.error": "broken", "call.took.ms": "3",
		},
		{
			"@level": "warn", "@message": "retrying", "@module": "provider", "host": "kvm1",
			"call.settings": "ssh.Config{h}",
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestLogLevel_mostSpecificVariableDecides(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		env  map[string]string
		want slog.Level
		on   bool
	}{
		"nothing":       {nil, 0, false},
		"all":           {map[string]string{"TF_LOG": "debug"}, slog.LevelDebug, true},
		"trace":         {map[string]string{"TF_LOG": "TRACE"}, slog.LevelDebug - 4, true},
		"providers":     {map[string]string{"TF_LOG": "DEBUG", "TF_LOG_PROVIDER": "WARN"}, slog.LevelWarn, true},
		"ours only off": {map[string]string{"TF_LOG": "DEBUG", "TF_LOG_PROVIDER_VIRTFLEET": "off"}, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			level, on := logLevel(func(k string) string { return tt.env[k] })
			if level != tt.want || on != tt.on {
				t.Errorf("got %v, %t; want %v, %t", level, on, tt.want, tt.on)
			}
		})
	}
}

// TestQuietSDK_leavesWhatWasAskedFor changes the environment, so it isn't parallel.
func TestQuietSDK_leavesWhatWasAskedFor(t *testing.T) {
	for name, tc := range map[string]struct {
		env  map[string]string
		want string
	}{
		"nothing":           {nil, "OFF OFF OFF"},
		"off":               {map[string]string{"TF_LOG": "off"}, "OFF OFF OFF"},
		"a log":             {map[string]string{"TF_LOG": "TRACE"}, "  "},
		"this provider's":   {map[string]string{"TF_LOG_PROVIDER_VIRTFLEET": "INFO", "TF_LOG": "OFF"}, "  "},
		"the framework's":   {map[string]string{"TF_LOG_SDK_FRAMEWORK": "WARN"}, "OFF OFF WARN"},
		"one of everything": {map[string]string{"TF_LOG": "TRACE", "TF_LOG_SDK": "ERROR"}, "ERROR  "},
	} {
		t.Run(name, func(t *testing.T) {
			for _, env := range slices.Concat(logEnv, sdkLogEnv) {
				t.Setenv(env, tc.env[env])
			}
			if err := QuietSDK(); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, env := range sdkLogEnv {
				got = append(got, os.Getenv(env))
			}
			if joined := strings.Join(got, " "); joined != tc.want {
				t.Errorf("%s is %q, want %q", strings.Join(sdkLogEnv, " "), joined, tc.want)
			}
		})
	}
}
