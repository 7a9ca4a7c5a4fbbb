package ssh

import (
	"net"

	"golang.org/x/sys/unix"
)

// acknowledgeNow makes the kernel acknowledge at once what was received. By default the kernel waits up to 40 ms for an
// answer to send along, and a server holds its next small packet back for as long: sshd leaves Nagle's algorithm on for
// connections that only forward, as ours do. The setting isn't permanent, see TCP_QUICKACK in tcp(7). A failure is
// ignored: the connection is only slower then.
func acknowledgeNow(c net.Conn) {
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return // The connection goes through a jump host, whose connection does the same.
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_QUICKACK, 1) })
}
