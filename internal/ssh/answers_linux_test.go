package ssh

import (
	"errors"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// silent is a port at which connections get lost: one waits for being accepted there, and there is room for no more.
func silent(t *testing.T) (port int) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	noError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	raw, err := listener.(syscall.Conn).SyscallConn() //nolint:forcetypeassert // It is one.
	noError(t, err)
	noError(t, raw.Control(func(fd uintptr) { noError(t, syscall.Listen(int(fd), 0)) }))
	// That a client has to wait tells nothing on a busy computer. Of what listens the kernel says how many wait, and may.
	full := func() (is bool) {
		noError(t, raw.Control(func(fd uintptr) {
			info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
			noError(t, err)
			is = info.Unacked > info.Sacked
		}))
		return is
	}
	for !full() {
		conn, err := (&net.Dialer{Timeout: 100 * time.Millisecond}).DialContext(t.Context(), "tcp", listener.Addr().String())
		if err == nil {
			t.Cleanup(func() { _ = conn.Close() })
		}
	}
	return int(netip.MustParseAddrPort(listener.Addr().String()).Port())
}

func TestAnswers_tellsSilenceFromRefusal(t *testing.T) {
	t.Parallel()
	key := newKey(t, "ed25519")
	server := startSSHD(t, key.authorized())
	client := newClient(t, server.config(t, key))
	listener := serve(t, "tcp", "127.0.0.1:0", func(net.Conn) {})
	listening := int(netip.MustParseAddrPort(listener.Addr().String()).Port())
	for name, test := range map[string]struct {
		host     string
		port     int
		patience time.Duration
		want     bool
	}{
		"accepts": {"127.0.0.1", listening, patience, true},
		"refuses": {"127.0.0.1", 1, patience, true},
		"silent":  {"127.0.0.1", silent(t), 100 * time.Millisecond, false},
	} {
		if got, err := client.Answers(t.Context(), test.host, test.port, test.patience); got != test.want || err != nil {
			t.Errorf("%s: got %t, %v", name, got, err)
		}
	}
	server.kill()
	config := server.config(t, key)
	config.Port = 1
	if got, err := newClient(t, config).Answers(t.Context(), "127.0.0.1", listening, patience); got ||
		!errors.Is(err, ErrUnreachable) {
		t.Errorf("a host that can't be reached: got %t, %v", got, err)
	}
}
