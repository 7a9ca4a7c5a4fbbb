package provider

import (
	"context"
	"log/slog"
	"os"
	"strings"

	"github.com/hashicorp/terraform-plugin-log/tflog"
)

// logEnv are the environment variables that set how much Terraform logs of this provider, the most specific first.
var logEnv = []string{"TF_LOG_PROVIDER_VIRTFLEET", "TF_LOG_PROVIDER", "TF_LOG"}

// newLogger returns a logger that writes to Terraform's log, for the packages that don't know Terraform. ctx is the
// provider's context: records from background work, outside of any request, are written with it.
func newLogger(ctx context.Context) *slog.Logger {
	level, on := logLevel(os.Getenv)
	if !on {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(&logHandler{base: context.WithoutCancel(ctx), level: level})
}

// logLevel returns the level that Terraform was asked to log. Without it the plugin would format and send every record,
// only for Terraform to drop it.
func logLevel(getenv func(string) string) (level slog.Level, on bool) {
	for _, env := range logEnv {
		switch strings.ToUpper(getenv(env)) {
		case "":
			continue
		case "OFF":
			return 0, false
		case "DEBUG":
			return slog.LevelDebug, true
		case "INFO":
			return slog.LevelInfo, true
		case "WARN":
			return slog.LevelWarn, true
		case "ERROR":
			return slog.LevelError, true
		}
		return slog.LevelDebug - 4, true // TRACE, JSON, and levels that Terraform doesn't know.
	}
	return 0, false
}

// sdkLogEnv are the environment variables that set how much the plugin SDK logs: all of it, its server, and the
// framework.
var sdkLogEnv = []string{"TF_LOG_SDK", "TF_LOG_SDK_PROTO", "TF_LOG_SDK_FRAMEWORK"}

// QuietSDK turns the plugin SDK's log off, unless Terraform was asked for a log. Otherwise the SDK formats records for
// every attribute of every request, which Terraform parses and drops: a sixth of a plan's CPU time. Call it before the
// provider is served.
func QuietSDK() error {
	for _, env := range logEnv {
		if v := os.Getenv(env); v != "" && !strings.EqualFold(v, "off") {
			return nil
		}
	}
	for _, env := range sdkLogEnv {
		if os.Getenv(env) != "" {
			continue
		}
		if err := os.Setenv(env, "OFF"); err != nil {
			return err
		}
	}
	return nil
}

// logHandler writes records to tflog.
type logHandler struct {
	base   context.Context //nolint:containedctx // This context carries Terraform's logger.
	level  slog.Level
	fields []slog.Attr
	prefix string
}

// Enabled reports whether Terraform was asked for records of that level.
func (h *logHandler) Enabled(_ context.Context, level slog.Level) bool { return level >= h.level }

// Handle writes one record.
func (h *logHandler) Handle(ctx context.Context, r slog.Record) error {
	fields := make(map[string]any, len(h.fields)+r.NumAttrs())
	for _, a := range h.fields {
		addField(fields, "", a)
	}
	r.Attrs(func(a slog.Attr) bool {
		addField(fields, h.prefix, a)
		return true
	})
	write := tflog.Trace
	switch {
	case r.Level >= slog.LevelError:
		write = tflog.Error
	case r.Level >= slog.LevelWarn:
		write = tflog.Warn
	case r.Level >= slog.LevelInfo:
		write = tflog.Info
	case r.Level >= slog.LevelDebug:
		write = tflog.Debug
	}
	// If the context lacks Terraform's logger, NewSubsystem returns it unchanged, and writing with it would lose the
	// record.
	if tflog.NewSubsystem(ctx, "probe") == ctx {
		write(h.base, r.Message, fields) //nolint:contextcheck // The record has no context to inherit from.
	} else {
		write(ctx, r.Message, fields)
	}
	return nil
}

// WithAttrs returns a handler that adds fields to every record.
func (h *logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	next := *h
	next.fields = append([]slog.Attr(nil), h.fields...)
	for _, a := range attrs {
		a.Key = h.prefix + a.Key
		next.fields = append(next.fields, a)
	}
	return &next
}

// WithGroup returns a handler that puts the group's name before each further field.
func (h *logHandler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	next := *h
	next.prefix = h.prefix + name + "."
	return &next
}

// addField resolves a field, so that values can hide their secrets, and flattens groups.
func addField(fields map[string]any, prefix string, a slog.Attr) {
	v := a.Value.Resolve()
	if v.Kind() == slog.KindGroup {
		for _, member := range v.Group() {
			addField(fields, prefix+a.Key+".", member)
		}
		return
	}
	if err, ok := v.Any().(error); ok {
		fields[prefix+a.Key] = err.Error()
		return
	}
	fields[prefix+a.Key] = v.String()
}
