package ssh

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path"
	"strings"
	"time"

	xssh "golang.org/x/crypto/ssh"
)

// The states of a server's forwarding to unix sockets.
const (
	forwardingUnknown int32 = iota
	forwardingAllowed
	forwardingForbidden
)

// settleTime is how long a program on the host may take to fail after its start. It counts from the moment when the
// host reported the start, so the network's delay doesn't count.
const settleTime = 250 * time.Millisecond

// dialUnix opens a stream to a socket on the host, by forwarding or else by a program on the host.
func (l *link) dialUnix(ctx context.Context, socket string) (net.Conn, error) {
	var refusal error
	if l.forwarded.Load() != forwardingForbidden {
		conn, err := l.forwardUnix(ctx, socket)
		if err == nil {
			l.forwarded.Store(forwardingAllowed)
			return conn, nil
		}
		var open *xssh.OpenChannelError
		if !errors.As(err, &open) {
			return nil, err
		}
		refusal = fmt.Errorf("forwarding refused: %w", err)
		// "Connect failed" means either that nothing answers at the socket or, with OpenSSH, that forwarding is forbidden.
		// Only for a server that has forwarded before is it known to be the former.
		if open.Reason == xssh.ConnectionFailed && l.forwarded.Load() == forwardingAllowed {
			return nil, &kindError{kind: ErrSocket, err: refusal}
		}
		if open.Reason != xssh.ConnectionFailed {
			l.forwarded.Store(forwardingForbidden)
		}
	}
	conn, err := l.runStream(ctx, l.connectScript(socket), socket)
	if err == nil {
		l.forwarded.CompareAndSwap(forwardingUnknown, forwardingForbidden)
		return conn, nil
	}
	if refusal == nil || ctx.Err() != nil {
		return nil, err
	}
	if errors.Is(err, ErrForwarding) && l.forwarded.Load() == forwardingUnknown {
		// The cause may be the socket or the server: another path may work.
		return nil, &kindError{kind: ErrSocket, err: fmt.Errorf("%w; %s", refusal, err.Error())}
	}
	return nil, fmt.Errorf("%w (%s)", err, refusal.Error())
}

func (l *link) forwardUnix(ctx context.Context, socket string) (net.Conn, error) {
	payload := xssh.Marshal(struct {
		Path      string
		Reserved0 string
		Reserved1 uint32
	}{Path: socket})
	channel, requests, err := l.openChannel(ctx, "direct-streamlocal@openssh.com", payload)
	if err != nil {
		return nil, err
	}
	go xssh.DiscardRequests(requests)
	return l.newStream(channel, addr{network: "unix", name: socket}), nil
}

// runStream connects to a socket by a program on the host, which a script starts.
func (l *link) runStream(ctx context.Context, script, socket string) (net.Conn, error) {
	cmd, err := l.startCommand(ctx, "sh -c "+shellQuote(script))
	if err != nil {
		var open *xssh.OpenChannelError
		if !errors.Is(err, ErrSessions) && (errors.As(err, &open) || errors.Is(err, errNoExec)) {
			err = &kindError{kind: ErrForwarding, err: fmt.Errorf("running a program on the host instead: %w", err)}
		}
		return nil, err
	}
	// Closing the channel ends a read that takes too long; a timer only decides after the start.
	unblock := context.AfterFunc(ctx, func() { _ = cmd.channel.Close() })
	defer unblock()
	started := make(chan error, 1)
	l.spawn(func() { started <- awaitMark(cmd.channel) })
	select {
	case err = <-started:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-l.done:
		return nil, l.endCause(errConnectionLost)
	}
	if err != nil {
		return nil, cmd.connectFailure(ctx, l)
	}
	settle := time.NewTimer(settleTime)
	defer settle.Stop()
	select {
	case <-settle.C:
	case <-cmd.ended:
		if cmd.exitError() != nil {
			return nil, cmd.connectFailure(ctx, l)
		}
		// It connected, and the peer sent little.
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if !unblock() {
		return nil, context.Cause(ctx)
	}
	return l.newStreamWithExit(cmd.channel, addr{network: "unix", name: socket}, cmd.exitError), nil
}

// connectScript returns the script for the host's shell. It mustn't contain line breaks or exclamation marks, which not
// every login shell leaves alone between quotes.
func (l *link) connectScript(socket string) string {
	s := "s=" + shellQuote(socket) + "; "
	if l.helperURI != "" && isLibvirtSocket(socket) {
		// The helper finds libvirt's socket itself, and knows more paths than we do.
		return l.helperScript() + s + netcatScript
	}
	return s + netcatScript
}

// sessionScript returns the script that connects to libvirt's daemon of the user who logs in, at the socket that
// libvirt assigns to it.
func (l *link) sessionScript() string {
	const where = `for d in "${XDG_RUNTIME_DIR:-/run/user/$(id -u)}" "${XDG_CACHE_HOME:-$HOME/.cache}"; do ` +
		`for n in libvirt-sock virtqemud-sock; do s=$d/libvirt/$n; test -S "$s" && break 2; done; done; `
	return l.helperScript() + where + netcatScript
}

// scriptMark is the command that prints the start mark.
var scriptMark = "printf " + shellQuote(strings.ReplaceAll(startMark, "\n", `\n`)) + "; "

func (l *link) helperScript() string {
	return fmt.Sprintf("if command -v virt-ssh-helper >/dev/null 2>&1; then %sexec virt-ssh-helper %s; fi; ",
		scriptMark, shellQuote(l.helperURI))
}

// netcatScript is the script that connects to the socket $s.
var netcatScript = func() string {
	var b strings.Builder
	fmt.Fprintf(&b, `test -S "$s" || exit %d; test -w "$s" || exit %d; `, exitNoSocket, exitNoAccess)
	fmt.Fprintf(&b, "command -v nc >/dev/null 2>&1 || exit %d; ", exitNoProgram)
	// Some netcats stay after the end of their input unless told to exit; those report that -q lacks its argument.
	b.WriteString(`if nc -q 2>&1 | grep "requires an argument" >/dev/null 2>&1; then q=-q0; else q=; fi; `)
	b.WriteString(scriptMark + `exec nc $q -U "$s"`)
	return b.String()
}()

// isLibvirtSocket reports whether a path is one of those that virt-ssh-helper would choose.
func isLibvirtSocket(socket string) bool {
	base := path.Base(socket)
	return base == "libvirt-sock" || strings.HasPrefix(base, "virt") && strings.HasSuffix(base, "d-sock")
}

// shellQuote quotes a text for a POSIX shell.
func shellQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
