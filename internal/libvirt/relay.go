package libvirt

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// relay carries one libvirt connection between libvirt's client library, which can only open a socket by its path, and
// a stream that we dialed. The path is a unix socket that has left the file system before anybody can connect to it:
// libvirt reaches it through a descriptor in /proc/self/fd, which names it for our own process alone. So nothing is
// left behind however the process ends.
type relay struct {
	remote   net.Conn
	listener *net.UnixListener
	inode    int // an O_PATH descriptor of the socket
	running  sync.WaitGroup

	mu    sync.Mutex
	local net.Conn
	cut   bool
	inUse bool // the listener
	ended func()
}

// newRelay starts to wait for libvirt's connection. It owns remote from then on, also when it fails.
func newRelay(remote net.Conn) (*relay, error) {
	listener, inode, err := listenUnlinked()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("making a private socket: %w", err), remote.Close())
	}
	r := &relay{remote: remote, listener: listener, inode: inode, inUse: true}
	r.running.Go(r.run)
	return r, nil
}

// path is what libvirt connects to, until connected is called.
func (r *relay) path() string { return "/proc/self/fd/" + strconv.Itoa(r.inode) }

// connected closes what only a further connection would need.
func (r *relay) connected() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closeListener()
}

// onEnd has f called when the stream ends, at once when it has ended already.
func (r *relay) onEnd(f func()) {
	r.mu.Lock()
	r.ended = f
	cut := r.cut
	r.mu.Unlock()
	if cut {
		f()
	}
}

// wait returns when nothing of the relay runs any more.
func (r *relay) wait() { r.running.Wait() }

// stop cuts the stream and returns at once. libvirt's calls on it fail.
func (r *relay) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closeListener()
	if r.cut {
		return
	}
	r.cut = true
	if r.local != nil {
		_ = r.local.Close()
	}
	if r.ended != nil {
		r.running.Go(r.ended)
	}
	// Closing a stream within a connection that has stalled may block, as a message has to be sent.
	r.running.Go(func() { _ = r.remote.Close() })
}

func (r *relay) closeListener() {
	if !r.inUse {
		return
	}
	r.inUse = false
	_ = r.listener.Close()
	_ = unix.Close(r.inode)
}

// run accepts our own process's connection and copies until either side ends. libvirt's protocol knows no half-closed
// streams, so the end of one direction is the end of both.
func (r *relay) run() {
	defer r.stop()
	local, err := acceptOwn(r.listener)
	if err != nil {
		return
	}
	r.mu.Lock()
	r.local = local
	cut := r.cut
	r.mu.Unlock()
	if cut {
		_ = local.Close()
		return
	}
	var copies sync.WaitGroup
	copies.Go(func() { defer r.stop(); _, _ = io.Copy(r.remote, local) })
	copies.Go(func() { defer r.stop(); _, _ = io.Copy(local, r.remote) })
	copies.Wait()
}

// acceptOwn takes the first connection that comes from our own process and turns others away.
func acceptOwn(listener *net.UnixListener) (net.Conn, error) {
	for {
		conn, err := listener.AcceptUnix()
		if err != nil {
			return nil, err
		}
		if pid, err := peerPID(conn); err == nil && pid == os.Getpid() {
			return conn, nil
		}
		_ = conn.Close()
	}
}

func peerPID(conn *net.UnixConn) (int, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	var credentials *unix.Ucred
	var failure error
	err = raw.Control(func(fd uintptr) {
		credentials, failure = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err = errors.Join(err, failure); err != nil {
		return 0, err
	}
	return int(credentials.Pid), nil
}

// listenUnlinked listens on a unix socket whose name is gone when it returns, and gives a descriptor of its inode. The
// directory is reached through a descriptor too, because a socket's path may have only 107 bytes.
func listenUnlinked() (listener *net.UnixListener, inode int, err error) {
	dir, err := os.MkdirTemp("", "virtfleet-")
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = unix.Close(fd) }()
	name := filepath.Join("/proc/self/fd", strconv.Itoa(fd), "socket")
	listener, err = net.ListenUnix("unix", &net.UnixAddr{Name: name, Net: "unix"})
	if err != nil {
		return nil, 0, err
	}
	listener.SetUnlinkOnClose(false)
	inode, err = unix.Open(name, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, 0, errors.Join(err, listener.Close())
	}
	return listener, inode, nil
}
