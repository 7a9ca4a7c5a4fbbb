package ssh

import (
	"io"
	"net"
	"testing"

	"golang.org/x/sys/unix"
)

// A conversation has the kernel delay what it acknowledges; ours never does.
func TestWatchedConn_acknowledgesAtOnce(t *testing.T) {
	t.Parallel()
	listener := serve(t, "tcp", "127.0.0.1:0", func(conn net.Conn) { _, _ = io.Copy(conn, conn) })
	raw, err := new(net.Dialer).DialContext(t.Context(), "tcp", listener.Addr().String())
	noError(t, err)
	conn := &watchedConn{Conn: raw}
	defer func() { noError(t, conn.Close()) }()
	buffer := make([]byte, 16)
	for range 10 {
		_, err := conn.Write([]byte("ping"))
		noError(t, err)
		_, err = conn.Read(buffer)
		noError(t, err)
		if !acknowledgesAtOnce(t, raw) {
			t.Fatal("what was received is acknowledged late")
		}
	}
}

func acknowledgesAtOnce(t *testing.T, conn net.Conn) bool {
	t.Helper()
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		t.Fatalf("%T is no TCP connection", conn)
	}
	raw, err := tcp.SyscallConn()
	noError(t, err)
	quick, optErr := 0, error(nil)
	noError(t, raw.Control(func(fd uintptr) {
		quick, optErr = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_QUICKACK)
	}))
	noError(t, optErr)
	return quick == 1
}
