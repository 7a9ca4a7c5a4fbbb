package opstest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab" //nolint:depguard // Only tests import this package.
	"github.com/virtfleet/terraform-provider-virtfleet/internal/ops/config"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider" //nolint:depguard // As above.
)

// Main runs the tests of a command, and fails if goroutines are left.
func Main(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt.runEventLoop"))
}

// patience is how long a command may take to write an expected line: a guest boots slowly on a slow computer.
const patience = 5 * time.Minute

// Output collects a command's output while a test reads it.
type Output struct {
	mu  sync.Mutex
	all bytes.Buffer
}

// Write implements io.Writer.
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.all.Write(p)
}

// String returns all output so far.
func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.all.String()
}

// Line waits for a line that contains all parts, in this order, and returns it.
func (o *Output) Line(t testing.TB, parts ...string) string {
	t.Helper()
	return o.Nth(t, 1, parts...)
}

// Nth is Line for the nth line that matches.
func (o *Output) Nth(t testing.TB, n int, parts ...string) string {
	t.Helper()
	deadline, tick := time.After(patience), time.NewTicker(20*time.Millisecond)
	defer tick.Stop()
	for {
		found := 0
		for line := range strings.Lines(o.String()) {
			if !inOrder(line, parts) {
				continue
			}
			if found++; found == n {
				return strings.TrimSuffix(line, "\n")
			}
		}
		select {
		case <-deadline:
			t.Fatalf("waited in vain for %d lines with %q in:\n%s", n, parts, o)
		case <-tick.C:
		}
	}
}

func inOrder(line string, parts []string) bool {
	for _, part := range parts {
		_, rest, found := strings.Cut(line, part)
		if !found {
			return false
		}
		line = rest
	}
	return true
}

// Running is a command that runs.
type Running struct {
	// Out is the command's output, Messages its other messages.
	Out, Messages *Output
	// Stop ends the command as Ctrl-C does, and returns its error. It is also called at the end of the test.
	Stop func() error
}

// Command is a command's function.
type Command func(ctx context.Context, args []string, open config.Opener, out, messages io.Writer) error

// Start runs a command with that configuration until the test ends.
func Start(t testing.TB, run Command, configuration string, args ...string) *Running {
	t.Helper()
	args = append([]string{"--config", File(t, configuration)}, args...)
	r := &Running{Out: &Output{}, Messages: &Output{}}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, args, provider.Open, r.Out, r.Messages) }()
	r.Stop = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	t.Cleanup(func() {
		if err := r.Stop(); err != nil {
			t.Errorf("the command ended with %v", err)
		}
		if t.Failed() {
			t.Logf("it wrote:\n%s%s", r.Out, r.Messages)
		}
	})
	return r
}

// File writes a configuration to a file.
func File(t testing.TB, config string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "fleet.yaml")
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Config returns a configuration with those hosts, reached over SSH.
func Config(l *lab.Lab, hosts ...*lab.Host) string {
	uris := map[string]string{}
	for _, h := range hosts {
		uris[h.Name] = h.URI()
	}
	return ConfigOf(l, l.KnownHostsFile(), uris)
}

// ConfigOf returns a configuration with those hosts, by their names.
func ConfigOf(l *lab.Lab, knownHosts string, uris map[string]string) string {
	var b strings.Builder
	fmt.Fprintln(&b, "hosts:")
	for name, uri := range uris {
		fmt.Fprintf(&b, "  %s: {uri: %q, labels: {zone: a}}\n", name, uri)
	}
	fmt.Fprintf(&b, "ssh:\n  private_key_file: %s\n  known_hosts_file: %s\n  config_file: none\n  agent: false\n",
		l.PrivateKeyFile(), knownHosts)
	return b.String()
}

// VM defines and starts a VM without a guest agent, outside of the provider.
func VM(t testing.TB, l *lab.Lab, h *lab.Host, words string) (name string) {
	t.Helper()
	name = lab.Name(t)
	l.RemoveDomain(t, name)
	StartVM(t, l, h, l.NBD(t, name, 16<<20), "noagent "+words)
	return name
}

// StartVM defines and starts a VM that has the name of its disk.
func StartVM(t testing.TB, l *lab.Lab, h *lab.Host, export *lab.Export, words string) {
	t.Helper()
	id := uuid.NewString()
	l.Define(t, h.Name, fmt.Sprintf(`<domain type="qemu">
  <name>%s</name><uuid>%s</uuid><memory unit="MiB">128</memory><vcpu>2</vcpu>
  <metadata><virtfleet:vm xmlns:virtfleet="urn:virtfleet:1" version="1" uuid="%s"><virtfleet:labels>
    <virtfleet:label key="app.name" value="web"/></virtfleet:labels></virtfleet:vm></metadata>
  <os><type arch="x86_64" machine="q35">hvm</type><kernel>%s</kernel><initrd>%s</initrd>
    <cmdline>%s %s</cmdline></os>
  <features><acpi/></features>
  <devices>
    <disk type="network" device="disk"><driver name="qemu" type="raw" cache="none" error_policy="stop"/>
      <source protocol="nbd" name="%s"><host name="%s" port="%d"/></source>
      <target dev="vda" bus="virtio"/><alias name="ua-disk-root"/></disk>
    <interface type="user"/>
    <interface type="network"><source network="default"/><model type="virtio"/><alias name="ua-net-lan"/></interface>
    <channel type="unix"><target type="virtio" name="org.qemu.guest_agent.0"/></channel>
    <serial type="file"><source path="%s"/></serial>
  </devices>
</domain>`, export.Name, id, id, l.KernelPath(), l.InitrdPath(), lab.GuestCmdline, words, export.Name,
		export.Host, export.Port,
		lab.ConsoleLog(export.Name)))
	l.Virsh(t, h.Name, "start", export.Name)
}

// WritingVM is VM, but returns only when the guest keeps writing to its memory. A guest that still boots has almost
// nothing to be copied, and its migration would be over before a test could observe it.
func WritingVM(t testing.TB, l *lab.Lab, h *lab.Host) (name string) {
	t.Helper()
	name = VM(t, l, h, "dirty=32")
	l.AwaitConsole(t, h.Name, name, lab.GuestWrites)
	return name
}
