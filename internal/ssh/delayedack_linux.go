package ssh

import (
	"net"

	"golang.org/x/sys/unix"
)

// acknowledgeNow has the kernel acknowledge now what was received. By itself it waits up to 40 ms for an answer to send
// along, and a server holds its next small packet back for as long: sshd leaves Nagle's algorithm on for connections
// that only forward, as ours do. See TCP_QUICKACK in tcp(7), which is not permanent. Where it can't be had things are
// as slow as without it, and that is all.
func acknowledgeNow(c net.Conn) {
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return // It goes through a jump host, whose connection does the same.
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_QUICKACK, 1) })
}
