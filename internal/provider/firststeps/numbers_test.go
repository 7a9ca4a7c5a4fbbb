package firststeps_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// numbers are constants that guides state in words: where each is, what the code says, and what a guide says.
var numbers = []struct{ file, name, code, guide string }{
	{"domain/hotplug_ports.go", "usualPorts", `"8"`, "8 free PCI Express ports"},
	{"domain/migration.go", "MaxMigrations", "5", "shows its last five migrations"},
	{"domain/new.go", "balloonPeriod", `"10"`, "virtio, statistics every 10 seconds"},
	{"domain/overhead.go", "overheadQEMU", "30 * overheadMebibyte", "| each VM | 30 MiB, 8 MiB for I/O"},
	{"domain/overhead.go", "overheadIOThread", "8 * overheadMebibyte", "| each VM | 30 MiB, 8 MiB for I/O"},
	{"domain/overhead.go", "overheadPages", "512", "1/512 of the guest's memory for page tables"},
	{"domain/overhead.go", "overheadVCPU", "8 * overheadMebibyte", "| each vCPU | 8 MiB |"},
	{"domain/overhead.go", "overheadVideo", "32 * overheadMebibyte", "| a screen | 32 MiB |"},
	{"domain/overhead.go", "overheadTPM", "53 * overheadMebibyte", "| a TPM | 53 MiB |"},
	{"domain/overhead.go", "overheadFlash", "128 * overheadMebibyte", "| firmware on aarch64 | 128 MiB |"},
	{"domain/overhead.go", "overheadSEV", "256 * overheadMebibyte", "encrypted with SEV | 256 MiB |"},
	{"domain/overhead.go", "overheadVFIO", "1024 * overheadMebibyte", "(passthrough) | 1 GiB per VM |"},
	{"firstboot/nocloud.go", "MaxBytes", "16 << 20", "a medium of more than 16 MiB"},
	{"fleet/admission/limits.go", "DefaultPerFleet", "5", "`per_fleet` (default 5)"},
	{"fleet/admission/limits.go", "DefaultOutboundPerHost", "2", "`outbound_per_host` (default 2)"},
	{"fleet/admission/limits.go", "DefaultInboundPerHost", "2", "`inbound_per_host` (default 2)"},
	{"fleet/admission/retry.go", "retryAfter", "20 * time.Second", "is tried again after 20 seconds"},
	{"fleet/admission/retry.go", "retryLimit", "320 * time.Second", "pauses that double up to 320 seconds"},
	{"fleet/drain/try_step.go", "externalPoll", "2 * time.Second", "The drain looks every 2 seconds"},
	{"fleet/drain/resumable.go", "abandonedMemory", "24 * time.Hour", "For one day, the host keeps a record"},
	{"fleet/inventory/events.go", "followMost", "10 * time.Second", "retries at least every 10 seconds"},
	{"fleet/inventory/host.go", "viewAge", "time.Minute", "use the same data for up to a minute"},
	{"fleet/inventory/memory.go", "DefaultMemoryReserve", "512 << 20", "(default 512 MiB, as in OpenStack)"},
	{"fleet/inventory/shutdown.go", "DefaultGracePeriod", "180 * time.Second", "(default `180s`)"},
	{"fleet/lease/lease.go", "renewInterval", "3 * time.Second", "`virtfleet:lock:<uuid>`, renewed every 3 seconds"},
	{"fleet/lease/lease.go", "Validity", "10 * time.Second", "after about 27 seconds"},
	{"fleet/lease/lease.go", "unchangedPolls", "12", "after about 27 seconds"},
	{"fleet/lease/lease.go", "settleTime", "Validity + 5 * time.Second", "after about 27 seconds"},
	{"fleet/lifecycle/power.go", "shutdownResend", "5 * time.Second", "isn't off after 5 seconds"},
	{"fleet/migration/options.go", "DefaultCompletionTimeoutPerGiB", "150 * time.Second", "`0s`: no limit. | `150s` |"},
	{"fleet/migration/options.go", "DefaultProgressTimeout", "150 * time.Second", "`0s`: no limit. | `150s` |"},
	{"fleet/migration/outcome.go", "outcomeTimeout", "time.Minute", "If a host is silent, it gives up after a minute"},
	{"fleet/migration/postcopy_recovery.go", "DefaultRecoveryTimeout", "5 * time.Minute", "(default 5 minutes)"},
	{"fleet/migration/postcopy_recovery.go", "postCopyStuckAfter", "30 * time.Second", "If none arrives for 30 seconds"},
	{"fleet/migration/run.go", "pollInterval", "400 * time.Millisecond", "reads the progress every 0.4 seconds"},
	{"fleet/migration/stall.go", "stallProgressTimeout", "40 * time.Second", "began more than 40 seconds ago"},
	{"fleet/migration/stall.go", "stallMargin", "0.04", "isn't at least 4 % lower"},
	{
		"fleet/migration/stall.go", "patienceDecay", "0.5",
		"It waits 20 seconds for one like that; then 10 seconds, in which one like the second best will do too; then 5",
	},
	{"fleet/migration/stall.go", "precopyPossibleFactor", "1.5", "takes at most one and a half times that"},
	{"fleet/migration/stall.go", "switchoverTimeout", "time.Minute", "QEMU has one minute to pause the guest"},
	{"fleet/migration/stall.go", "completionTimeoutFactor", "2", "within twice the completion timeout"},
	{"fleet/migration/stall.go", "stallMaxDowntime", "900 * time.Millisecond", "(`900ms` if you don't set it)"},
	{"fleet/migration/stall.go", "qemuDowntime", "300 * time.Millisecond", "QEMU starts with at most `300ms`"},
	{"libvirt/call.go", "agentTimeout", "15 * time.Second", "15 seconds for a question to a guest agent"},
	{"libvirt/call.go", "readTimeout", "30 * time.Second", "30 seconds for a read of one VM"},
	{"libvirt/conn.go", "keepaliveInterval", "5", "the command notices this after 30 seconds"},
	{"libvirt/conn.go", "keepaliveCount", "5", "the command notices this after 30 seconds"},
	{"libvirt/device.go", "trayTimeout", "time.Minute", "If it hasn't after a minute, the apply fails"},
	{"libvirt/migrate.go", "handoverPatience", "5 * time.Minute", "waits up to 5 minutes while memory arrives"},
	{"libvirt/volume_copy.go", "readBackLimit", "16 << 20", "the content of those up to 16 MiB"},
	{"ops/exporter/command.go", "defaultAddress", `":9850"`, "| `:9850` |"},
	{"ops/exporter/command.go", "defaultTimeout", "10 * time.Second", "at most two thirds of it. | `10s` |"},
	{"ops/exporter/command.go", "defaultGuests", "time.Minute", "`0`: never | `1m` |"},
	{"ops/exporter/command.go", "defaultSeries", "200_000", "series in one scrape | `200000` |"},
	{"ops/exporter/families.go", "maxLabelValue", "256", "Text from a guest is cut at 256 bytes"},
	{"ops/exporter/info.go", "maxLabels", "32", "`*`: all, up to 32 of each VM"},
	{"ops/watch/command.go", "defaultInterval", "time.Second", "per `--interval` (default `1s`)"},
	{"ops/watch/watcher.go", "patience", "10 * time.Second", "is shown after 10 seconds"},
	{"provider/hostmaintenance/resource.go", "defaultTimeout", "time.Hour", "an hour by default"},
}

// TestDocumentation_numbersAreThoseOfTheCode: who changes a constant that a guide states is told to change the guide,
// and the other way round.
func TestDocumentation_numbersAreThoseOfTheCode(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob(filepath.Join(root, "templates/guides/*.md"))
	if err != nil || len(pages) == 0 {
		t.Fatal(err)
	}
	var said strings.Builder
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		said.WriteString(strings.Join(strings.Fields(string(text)), " ") + "\n")
	}
	for _, n := range numbers {
		if is := constant(t, filepath.Join(root, "internal", n.file), n.name); is != n.code {
			t.Errorf("%s: %s is %q, and the guide that says %q means %q", n.file, n.name, is, n.guide, n.code)
		}
		if !strings.Contains(said.String(), n.guide) {
			t.Errorf("no guide says %q, where %s is %s", n.guide, n.name, n.code)
		}
	}
}

// constant is the expression of a constant in a file, "" if the file has none of this name.
func constant(t *testing.T, path, name string) (is string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok && spec.Names[0].Name == name && len(spec.Values) == 1 {
			is = types.ExprString(spec.Values[0])
		}
		return true
	})
	return is
}
