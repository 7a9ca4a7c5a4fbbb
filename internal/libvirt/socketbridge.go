package libvirt

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// socketBridge connects libvirt's client library, which can only open a socket by its path, with a stream that we
// dialed. The path is a unix socket that is removed from the file system before another process can connect to it:
// libvirt reaches it through a descriptor in /proc/self/fd, which only our own process can name. So nothing is left
// behind however the process ends.
type socketBridge struct {
	remote   net.Conn
	listener *net.UnixListener
	inode    int // an O_PATH descriptor of the socket
	running  sync.WaitGroup
	// heard says that data came from the host since endWhenSilent last looked. done is closed with the stream.
	heard atomic.Bool
	done  chan struct{}

	mu    sync.Mutex
	early *earlyAnswers // nil if all questions wait for the daemon's answer
	// refuses says that libvirt's client may not log in with SASL, and refused that it tried to.
	refuses, refused bool
	local            *net.UnixConn
	cut              bool
	// leaving says that libvirt's client is closing the connection.
	leaving bool
	inUse   bool // the listener is in use
	spoke   bool // data has come from the host
	// unheard is why the stream ended, if it ended by itself before data came from the host.
	unheard error
	// first is called before libvirt is told that the stream has ended, ended afterwards.
	first, ended func()
}

// newSocketBridge starts to wait for libvirt's connection. It owns remote from then on, even if it fails.
func newSocketBridge(remote net.Conn) (*socketBridge, error) {
	listener, inode, err := listenUnlinked()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("creating a private socket: %w", err), remote.Close())
	}
	b := &socketBridge{remote: remote, listener: listener, inode: inode, inUse: true, done: make(chan struct{})}
	b.running.Go(b.run)
	return b, nil
}

// path returns the path that libvirt connects to, until connected is called.
func (b *socketBridge) path() string { return "/proc/self/fd/" + strconv.Itoa(b.inode) }

// answerEarly makes the bridge answer some questions of libvirt's client itself, see earlyAnswers, until connected is
// called. It must be called before libvirt connects. If the daemon answers something else, contradicted is called, and
// then the stream is cut.
func (b *socketBridge) answerEarly(contradicted func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.early = &earlyAnswers{opening: true, contradicted: contradicted}
}

// refuseLogin makes the bridge cut the stream when libvirt's client begins to log in with SASL. It must be called
// before libvirt connects. The client takes the bridge for a socket of this computer: it would send a password through
// a network in clear text, and look for the credentials of "localhost".
func (b *socketBridge) refuseLogin() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refuses = true
}

// refusesCall reports whether the stream has to end instead of passing this message on.
func (b *socketBridge) refusesCall(message []byte) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refused = b.refused || b.refuses && isCall(message, procedureSASLInit, headerBytes)
	return b.refused
}

// loginRefused reports whether the stream ended because libvirt's client began to log in with SASL.
func (b *socketBridge) loginRefused() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.refused
}

// connected closes what only a further connection would need, and ends the early answers.
func (b *socketBridge) connected() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.early != nil {
		b.early.end()
	}
	b.closeListener()
}

// leave makes the bridge end the stream when libvirt's client has announced that it closes the connection, without the
// daemon's answer, which isn't needed.
func (b *socketBridge) leave() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.leaving = true
}

func (b *socketBridge) isLeaving() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.leaving
}

// onEnd sets f to be called when the stream ends, or calls it at once if the stream has ended.
func (b *socketBridge) onEnd(f func()) {
	b.mu.Lock()
	b.ended = f
	cut := b.cut
	b.mu.Unlock()
	if cut {
		f()
	}
}

// beforeEnd sets f to be called when the stream ends, before libvirt notices; nil unsets it.
func (b *socketBridge) beforeEnd(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.first = f
}

// wait returns when all goroutines of the bridge have ended. It must be called after stop, when libvirt's client makes
// no calls on the stream any more.
func (b *socketBridge) wait() {
	b.mu.Lock()
	if b.local != nil {
		_ = b.local.Close()
	}
	b.mu.Unlock()
	b.running.Wait()
}

// stop cuts the stream and returns at once. libvirt's calls on the stream fail. It reports whether the stream was still
// open.
func (b *socketBridge) stop() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closeListener()
	if b.cut {
		return false
	}
	b.cut = true
	close(b.done)
	if b.first != nil {
		b.first()
	}
	if b.local != nil {
		b.hangUp(b.local)
	}
	if b.ended != nil {
		b.running.Go(b.ended)
	}
	// Closing a stream within a connection that has stalled may block, because it sends a message.
	b.running.Go(func() { _ = b.remote.Close() })
	return true
}

// hangUp lets libvirt's client read the end of the stream, and takes what the client still writes until it closes its
// end. If such a write failed, the client might crash, before libvirt 10.3 (CVE-2024-4418): a call that another call
// wakes up leaves a source in the connection's event loop that points into its stack. As long as a call ends because it
// has read something, the event loop has fired these sources before. After a failed write, the next call fires them.
func (b *socketBridge) hangUp(local *net.UnixConn) {
	_ = local.CloseWrite()
	b.running.Go(func() {
		_, _ = io.Copy(io.Discard, local)
		_ = local.Close()
	})
}

func (b *socketBridge) closeListener() {
	if !b.inUse {
		return
	}
	b.inUse = false
	_ = b.listener.Close()
	_ = unix.Close(b.inode)
}

// run accepts our own process's connection and copies until either side ends. libvirt's protocol has no half-closed
// streams, so the end of one direction is the end of both.
func (b *socketBridge) run() {
	defer b.stop()
	local, err := acceptOwn(b.listener)
	if err != nil {
		return
	}
	b.mu.Lock()
	b.local = local
	cut, early := b.cut, b.early
	if cut {
		b.hangUp(local)
	}
	b.mu.Unlock()
	if cut {
		return
	}
	var copies sync.WaitGroup
	copies.Go(func() { defer b.stop(); b.passCalls(local, early) })
	copies.Go(func() {
		defer b.stop()
		remote := bufio.NewReaderSize(hearing{b}, copyBytes)
		if early == nil || early.pass(local, remote) {
			_, _ = io.Copy(local, remote)
		}
	})
	copies.Wait()
}

// copyBytes is how much is copied at a time.
const copyBytes = 32 << 10

// passCalls copies what libvirt's client sends. The client writes a message at a time, and while it opens or closes a
// connection, it writes the next one only after an answer: so what is read at a time is one message.
func (b *socketBridge) passCalls(local *net.UnixConn, early *earlyAnswers) {
	buffer := make([]byte, copyBytes)
	for {
		n, err := local.Read(buffer)
		if err != nil {
			return
		}
		sent := buffer[:n]
		if b.refusesCall(sent) {
			return
		}
		var answer []byte
		if early != nil {
			answer = early.give(sent) // Before the daemon can answer.
		}
		if _, err := b.remote.Write(sent); err != nil {
			return
		}
		if answer != nil {
			if _, err := local.Write(answer); err != nil {
				return
			}
		}
		if isCall(sent, procedureClose, headerBytes) && b.isLeaving() {
			_, _ = b.remote.Write(nil) // A stream over SSH returns from this when it has sent what was written before.
			return
		}
	}
}

// hearing reads from the host and notes that data came.
type hearing struct{ b *socketBridge }

func (h hearing) Read(p []byte) (int, error) {
	n, err := h.b.remote.Read(p)
	h.b.heard.Store(true)
	h.b.note(n > 0, err)
	return n, err
}

func (b *socketBridge) note(spoke bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.spoke = b.spoke || spoke
	if !b.spoke && !b.cut && !errors.Is(err, io.EOF) {
		b.unheard = err
	}
}

// began says how far libvirt's client has come that doesn't get a connection, as a part of a sentence.
func (b *socketBridge) began() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.local == nil:
		return " (libvirt's client has asked nothing)"
	case !b.spoke:
		return " (the host's libvirt daemon has answered nothing)"
	default:
		return " (the host's libvirt daemon has answered, but not all that is needed)"
	}
}

// endedUnheard returns why the stream failed before data came from the host, or nil if it didn't.
func (b *socketBridge) endedUnheard() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.unheard
}

// endWhenSilent cuts the stream if the host is silent for as long as keepalive allows, although libvirt's client sends
// it keepalive requests. The time during which our own process was suspended doesn't count.
func (b *socketBridge) endWhenSilent() {
	b.running.Go(func() {
		tick := time.NewTicker(keepaliveInterval * time.Second)
		defer tick.Stop()
		for missed := 0; missed <= keepaliveCount; missed++ {
			select {
			case <-tick.C:
			case <-b.done:
				return
			}
			if b.heard.Swap(false) {
				missed = -1
			}
		}
		b.stop()
	})
}

// acceptOwn accepts the first connection from our own process and closes others.
func acceptOwn(listener *net.UnixListener) (*net.UnixConn, error) {
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

// listenUnlinked listens on a unix socket that is unlinked when it returns, and returns a descriptor of the socket's
// inode. It also reaches the directory through a descriptor, because a socket's path may have only 107 bytes.
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
