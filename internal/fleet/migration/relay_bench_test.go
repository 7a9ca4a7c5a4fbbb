package migration

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

const (
	// relayed is how many bytes go each way of getting them from host to host, relayRounds how often.
	relayed     = 512 << 20
	relayRounds = 5
	// relayGoal is how many times as fast as two ssh programs the relay is to be.
	relayGoal = 1.2
)

// BenchmarkRelay pours the same bytes from host to host through the relay and through two ssh programs, in turn, and
// prints the ratio of the rates. Rounds are compared with themselves, and the median counts.
func BenchmarkRelay(b *testing.B) {
	l := lab.Open(b)
	source, target := l.Host("kvm1"), l.Host("kvm2")
	ctx, cancel := context.WithTimeout(b.Context(), 10*time.Minute)
	defer cancel()
	tunnels := make([]Tunnel, 0, 2)
	for _, h := range []*lab.Host{source, target} {
		tunnel, err := overSSH(l, h)()
		if err != nil {
			b.Fatal(err)
		}
		defer func() { _ = tunnel.Close() }()
		tunnels = append(tunnels, tunnel)
	}
	name := lab.Name(b)
	socket := socketPath(socketPrefix, VM{Name: name[len(name)-6:]})
	r, err := openRelay(ctx, tunnels[0], tunnels[1], socket, slog.New(slog.DiscardHandler))
	if err != nil {
		b.Fatal(err)
	}
	defer r.close(ctx)
	listener, err := new(net.ListenConfig).Listen(ctx, "unix", target.Path(r.path))
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = listener.Close() }()

	var through, piped, ratios []float64
	for range relayRounds {
		relay := rate(b, func() error { return pourThrough(ctx, listener, source.Path(r.path)) })
		ssh := rate(b, func() error { return pipe(ctx, l, source, target) })
		through, piped, ratios = append(through, relay), append(piped, ssh), append(ratios, relay/ssh)
	}
	ratio := middle(ratios)
	reached := map[bool]string{true: "reached", false: "not reached"}[ratio >= relayGoal]
	fmt.Printf("\nrelay %.0f MB/s, ssh | ssh %.0f MB/s: %.2fx, to reach >= %.1fx: %s\n\n",
		middle(through), middle(piped), ratio, relayGoal, reached)
	b.ReportMetric(ratio, "x")
}

func middle(values []float64) float64 { return slices.Sorted(slices.Values(values))[len(values)/2] }

// rate is how many millions of bytes per second something pours.
func rate(b *testing.B, pour func() error) float64 {
	b.Helper()
	start := time.Now()
	if err := pour(); err != nil {
		b.Fatal(err)
	}
	return relayed / 1e6 / time.Since(start).Seconds()
}

// pourThrough sends the bytes into the relay at the source as QEMU does, and takes them on the target.
func pourThrough(ctx context.Context, listener net.Listener, socket string) error {
	sent := make(chan error, 1)
	go func() {
		conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
		if err == nil {
			_, err = io.CopyN(conn, zeros{}, relayed)
			_ = conn.Close()
		}
		sent <- err
	}()
	conn, err := listener.Accept()
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if _, err := io.CopyN(io.Discard, conn, relayed); err != nil {
		return err
	}
	return <-sent
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// pipe does the same with common tools.
func pipe(ctx context.Context, l *lab.Lab, source, target *lab.Host) error {
	ssh := func(h *lab.Host, command string) string {
		return fmt.Sprintf("ssh -F none -o IdentitiesOnly=yes -i '%s' -o UserKnownHostsFile='%s' root@%s '%s'",
			l.PrivateKeyFile(), l.KnownHostsFile(), h.Address, command)
	}
	line := ssh(source, fmt.Sprintf("head -c %d /dev/zero", relayed)) + " | " + ssh(target, "cat >/dev/null")
	out, err := exec.CommandContext(ctx, "sh", "-c", line).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}
