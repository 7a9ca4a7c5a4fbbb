package tfdiag_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/network"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/tfdiag"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/ssh"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/storage"
)

var update = flag.Bool("update", false, "write the golden files")

// call is an error as a call to a host returns it.
func call(kind error, text string) error {
	return &libvirt.Error{Host: "kvm1", Operation: "starting domain", Kind: kind, Err: errors.New(text)}
}

func failures() map[string]tfdiag.Failure {
	return map[string]tfdiag.Failure{
		"everything": {
			Verb: "start", Noun: "virtual machine", Happened: "the domain was defined, but it does not start",
			VirtualMachine: "web", Host: "kvm2", Operation: "starting", Elapsed: 12_345 * time.Millisecond,
			Err: call(libvirt.ErrBusy, "cannot acquire state change lock"), Remedy: "try it by hand",
		},
		"facts_from_the_call": {
			Verb: "start", Noun: "virtual machine", VirtualMachine: "web", Elapsed: 83 * time.Millisecond,
			Err: fmt.Errorf("reading back: %w", call(nil, "internal error")),
		},
		"cancelled": {
			Verb: "create", Noun: "image", Err: fmt.Errorf("uploading volume vms/base: %w", context.Canceled),
		},
		"facts_from_the_fleet": {
			Verb: "update", Noun: "virtual machine", Elapsed: 200 * time.Second,
			Err: &fleet.Error{
				VM: "web", Host: "kvm1", Kind: fleet.ErrLocked, Detail: "alice@desk (pid 7) is changing it since 12:00",
				Remedy: "ask alice",
			},
		},
		"fleet_error_with_a_cause": {
			Verb: "read", Noun: "virtual machine", Err: &fleet.Error{
				VM: "web", Host: "kvm1", Kind: fleet.ErrUnreachable, Detail: "the host that had it last does not answer",
				Err: call(libvirt.ErrUnreachable, "connection refused"),
			},
		},
		"fleet_error_wrapped": {
			Verb: "read", Noun: "virtual machine", Err: fmt.Errorf("after the move: %w", &fleet.Error{
				VM: "web", Kind: fleet.ErrTwoCopies, Detail: `it runs on "kvm1" and "kvm2"`,
			}),
		},
		"qemus_words": {
			Verb: "create", Noun: "virtual machine", Err: &fleet.Error{
				VM: "web", Host: "kvm1", Detail: "it does not start", Err: call(nil, "qemu unexpectedly closed the monitor"),
				Remedy: "correct what is wrong",
				Words:  "The end of QEMU's log on host \"kvm1\":\n  qemu-system-x86_64: Failed to connect: Connection refused",
			},
		},
		"no_pool":  {Verb: "update", Noun: "virtual machine", Err: fmt.Errorf("%w: default", libvirt.ErrNoPool)},
		"no_error": {Verb: "configure", Noun: "provider", Happened: "both uri and hosts are set"},
	}
}

func TestFailure_text(t *testing.T) {
	t.Parallel()
	for name, failure := range failures() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := failure.Error()
			compareGolden(t, name, d.Summary()+"\n\n"+d.Detail()+"\n")
		})
	}
}

// TestFailure_remedyOfEachKind compares the remedies of all kinds in one file, so that they are read together.
func TestFailure_remedyOfEachKind(t *testing.T) {
	t.Parallel()
	kinds := map[string]error{
		"host key": ssh.ErrHostKey, "auth": ssh.ErrAuth, "denied": libvirt.ErrDenied,
		"read-only":    libvirt.ErrReadOnly,
		"unconfigured": fleet.ErrUnconfigured, "moved away": fleet.ErrMovedAway, "two copies": fleet.ErrTwoCopies,
		"ambiguous":      fleet.ErrAmbiguous,
		"duplicate host": fleet.ErrDuplicateHost, "locked": fleet.ErrLocked,
		"lease lost": fleet.ErrLeaseLost, "lease unconfirmed": fleet.ErrLeaseUnconfirmed, "restart": fleet.ErrRestartRequired,
		"no daemon": libvirt.ErrNoDaemon, "silent storage": &libvirt.SilentStorage{Pool: "nfs", Host: "kvm1"},
		"not ready": fleet.ErrNotReady, "no host": fleet.ErrNoHost, "agent": libvirt.ErrAgentUnavailable,
		"unsupported": fleet.ErrUnsupported, "busy": fleet.ErrBusy, "unreachable": fleet.ErrUnreachable,
		"not now":  libvirt.ErrNotNow,
		"deadline": context.DeadlineExceeded, "canceled": context.Canceled,
		"exists": fleet.ErrExists, "not found": fleet.ErrNotFound, "invalid": fleet.ErrInvalid,
		"volume in use": storage.ErrInUse, "network in use": network.ErrInUse,
		"other pool": storage.ErrOtherPool, "creates no volumes": storage.ErrCreatesNone,
		"copies no volumes": storage.ErrCopiesNone, "pool with a secret": storage.ErrNotStartedWithSecret,
	}
	var all strings.Builder
	for _, name := range value.Keys(kinds) {
		_, remedy, _ := strings.Cut(tfdiag.Failure{Verb: "x", Noun: "x", Err: kinds[name]}.Error().Detail(), "\n\n")
		fmt.Fprintf(&all, "%s: %s\n", name, remedy)
	}
	compareGolden(t, "remedies", all.String())
}

// TestFailure_warningOfSilence: a warning about a silent host doesn't say how a plan continues without the host, as the
// error does: it continues, for example because on_unreachable is "keep".
func TestFailure_warningOfSilence(t *testing.T) {
	t.Parallel()
	f := tfdiag.Failure{Verb: "read", Noun: "x", Host: "kvm1", Err: fleet.ErrUnreachable}
	for what, d := range map[bool]diag.Diagnostic{true: f.Error(), false: f.Warning()} {
		if text := d.Detail(); strings.Contains(text, "on_unreachable") != what || !strings.Contains(text, "fenced = true") {
			t.Errorf("%s: %s", d.Severity(), text)
		}
	}
}

// TestNext: what the fleet's errors and problems say to do next is said in Terraform's words, alone and after a remedy,
// and so is the import of what exists already.
func TestNext(t *testing.T) {
	t.Parallel()
	var all strings.Builder
	for next := fleet.Retry; next <= fleet.EndMaintenance; next++ {
		for _, e := range []fleet.Problem{
			{Next: next},
			{Next: next, Remedy: "bring the host back"},
			{Next: next, Remedy: "Otherwise choose another name.", Existing: "4dea22b3"},
		} {
			err := e.Failed("", "", fleet.ErrInvalid)
			_, said, _ := strings.Cut(tfdiag.Failure{Verb: "x", Noun: "x", Err: err}.Error().Detail(), "\n\n")
			fmt.Fprintf(&all, "%d: %s\n", next, said)
			if _, problem, _ := strings.Cut(tfdiag.Problems([]fleet.Problem{e})[0].Detail(), "\n\n"); problem != said {
				t.Errorf("a problem says %q, an error %q", problem, said)
			}
		}
	}
	_, said, _ := strings.Cut(tfdiag.Failure{
		Verb: "x", Noun: "x", Err: &fleet.Error{Kind: fleet.ErrExists, Existing: "kvm1"},
	}.Error().Detail(), "\n\n")
	compareGolden(t, "next", all.String()+"nothing next: "+said+"\n")
}

func compareGolden(t *testing.T, name, got string) {
	t.Helper()
	golden := filepath.Join("testdata", name+".txt")
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("text differs (-want +got):\n%s", diff)
	}
}

// TestFailure_readOnlyNamesTheURI: the advice about a connection that is read-only names the host's attribute.
func TestFailure_readOnlyNamesTheURI(t *testing.T) {
	t.Parallel()
	err := &libvirt.Error{Host: "kvm1", Kind: libvirt.ErrReadOnly, Err: errors.New("x")}
	got := tfdiag.Failure{Verb: "x", Noun: "x", Err: err}.Error().Detail()
	if !strings.Contains(got, "Check hosts.kvm1.uri") {
		t.Errorf("got %q", got)
	}
}

// TestFailure_causeWinsOverConsequence proves that the advice is about why a host can't be reached, where that is
// known, and not to bring it back.
func TestFailure_causeWinsOverConsequence(t *testing.T) {
	t.Parallel()
	advice := func(err error) string {
		detail := tfdiag.Failure{Verb: "read", Noun: "host", Err: err}.Error().Detail()
		return detail[strings.LastIndex(detail, "\n\n"):]
	}
	for _, cause := range []error{
		ssh.ErrHostKey, ssh.ErrAuth, libvirt.ErrDenied, libvirt.ErrNoDaemon, libvirt.ErrStorageSilent,
	} {
		got := advice(&fleet.Error{
			Kind: fleet.ErrUnreachable, Detail: "no answer", Remedy: "Bring it back.",
			Err: call(errors.Join(libvirt.ErrUnreachable, cause), "x"),
		})
		if want := advice(call(cause, "x")); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestFailure_hostMayBeUp: nothing advises to declare a host fenced whose name wasn't found, or whose address answered.
// Its VMs may run.
func TestFailure_hostMayBeUp(t *testing.T) {
	t.Parallel()
	var dialer net.Dialer
	_, unresolved := dialer.DialContext(t.Context(), "tcp", "kvm1.invalid:22")
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = listener.Close()
	_, refused := dialer.DialContext(t.Context(), "tcp", listener.Addr().String())
	for advised, cause := range map[string]error{
		"hosts.kvm1.uri": unresolved, "MaxStartups": ssh.ErrDropped, "refuses the connection": refused,
	} {
		dial := &ssh.Error{Host: "root@kvm1:22", Op: "connecting", Kind: ssh.ErrUnreachable, Err: cause}
		call := &libvirt.Error{Host: "kvm1", Operation: "connecting", Kind: libvirt.ErrUnreachable, Err: dial}
		got := tfdiag.Failure{Verb: "read", Noun: "host", Err: call}.Error().Detail()
		if !strings.Contains(got, advised) || strings.Contains(got, "fenced = true") {
			t.Errorf("want %s, without fenced: %s", advised, got)
		}
	}
}

// TestFailure_commandCanBeCopied: nothing follows a command on its line, not even a full stop.
func TestFailure_commandCanBeCopied(t *testing.T) {
	t.Parallel()
	for _, f := range []tfdiag.Failure{
		{Remedy: "Or run: terraform import virtfleet_volume.<name> default/data"},
		{Happened: "it exists; to manage it, import it: terraform import <address> default/data"},
		{Err: &fleet.Error{Remedy: "There is one", Existing: "default/data"}},
		{Err: &fleet.Error{Existing: "default/data", Next: fleet.Retry}},
		{Remedy: "If it has one, remove it there: virsh secret-undefine default/data"},
	} {
		detail := f.Error().Detail()
		at := strings.Index(detail, "default/data")
		if rest := detail[max(at, 0)+len("default/data"):]; at < 0 || rest != "" && !strings.HasPrefix(rest, "\n") {
			t.Errorf("%q", detail)
		}
	}
	detail := (tfdiag.Failure{Remedy: "Run terraform plan again"}).Error().Detail()
	if detail != "Run terraform plan again." {
		t.Errorf("%q", detail)
	}
}

func TestFailure_severityAndPath(t *testing.T) {
	t.Parallel()
	f := tfdiag.Failure{Verb: "read", Noun: "host", Err: errors.New("x")}
	if got := f.Warning().Severity(); got != diag.SeverityWarning {
		t.Errorf("Warning has severity %s", got)
	}
	at, ok := f.AttributeError(path.Root("host")).(diag.DiagnosticWithPath)
	if !ok || !at.Path().Equal(path.Root("host")) {
		t.Errorf("AttributeError has no path")
	}
}

func TestProblems_pointAtTheAttribute(t *testing.T) {
	t.Parallel()
	got := tfdiag.Problems([]fleet.Problem{
		{Attribute: "disks.root.volume", Summary: "No such volume", Detail: "there is none", Remedy: "create it"},
		{Attribute: "memory.size", Summary: "Too much memory", Detail: "No host has it."},
		{Summary: "No host", Detail: "none answers"},
	}, "disks", "interfaces")
	want := diag.Diagnostics{
		diag.NewAttributeErrorDiagnostic(path.Root("disks").AtMapKey("root"),
			"No such volume", "disks.root.volume: There is none.\n\nCreate it."),
		diag.NewAttributeErrorDiagnostic(path.Root("memory").AtMapKey("size"), "Too much memory",
			"memory.size: No host has it."),
		diag.NewErrorDiagnostic("No host", "None answers."),
	}
	if !got.Equal(want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestDiagnostics_steerNoTerminal: they quote guests, logs and programs on hosts.
func TestDiagnostics_steerNoTerminal(t *testing.T) {
	t.Parallel()
	const evil = "x\x1b]0;y\x07\r\n\tz\u202e"
	failure := tfdiag.Failure{Verb: "start", Noun: evil, Happened: evil, Err: call(libvirt.ErrBusy, evil), Remedy: evil}
	diags := tfdiag.Problems([]fleet.Problem{
		{Summary: evil, Detail: evil, Remedy: evil},
		{Summary: evil, Detail: evil, Warning: true},
		{Summary: evil, Detail: evil, Attribute: "name"},
	})
	for _, d := range append(diags, failure.Error(), failure.Warning(), failure.AttributeError(path.Root("name"))) {
		text := d.Summary() + d.Detail()
		if strings.ContainsAny(text, "\x1b\x07\r\u202e") || !strings.Contains(text, "\n\tz") {
			t.Errorf("got %q", text)
		}
	}
}

// One warning names every VM that was forced off: Terraform would show only the first of several warnings.
func TestForcedOff(t *testing.T) {
	t.Parallel()
	if diags := tfdiag.ForcedOff(); len(diags) > 0 {
		t.Errorf("without a VM: %v", diags)
	}
	diags := tfdiag.ForcedOff(
		fleet.ForcedOff{Name: "web", Host: "kvm1", How: "destroyed after the grace period"},
		fleet.ForcedOff{Name: "db", Host: "kvm2", How: "destroyed, since its guest could not be asked"})
	const lost = " What its guest hadn't written to its disks is lost.\n"
	want := "Virtual machine \"web\" on host \"kvm1\" was destroyed after the grace period." + lost +
		"Virtual machine \"db\" on host \"kvm2\" was destroyed, since its guest could not be asked." + lost + "\n" +
		"Check the guest's agent and ACPI, or raise termination_grace_period."
	if len(diags) != 1 || diags.HasError() || diags[0].Detail() != want {
		t.Errorf("got %v, want one warning: %s", diags, want)
	}
}

// An operation that lost its lease is told from one that was cancelled, whatever it would advise otherwise.
func TestFailure_lostLeaseIsNoCancel(t *testing.T) {
	t.Parallel()
	err := &fleet.Error{
		VM: "web", Kind: fleet.ErrNotReady, Remedy: "Apply again to continue.",
		Err: errors.Join(context.Canceled, fleet.ErrLeaseLost),
	}
	detail := tfdiag.Failure{Verb: "update", Noun: "x", Err: err}.Error().Detail()
	if !strings.Contains(detail, "another run took over") || strings.Contains(detail, "Apply again to continue") {
		t.Errorf("got %q", detail)
	}
}
