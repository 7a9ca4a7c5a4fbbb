package ssh

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"unicode"

	xssh "golang.org/x/crypto/ssh"
)

const (
	// maxStderr is how much of a program's standard error is shown in an error.
	maxStderr = 512
	// maxPreamble is how much output of a login shell is skipped before the program starts.
	maxPreamble = 64 << 10
)

// The exit codes by which the script says why it doesn't start a program. Shells and netcat don't use them.
const (
	exitNoSocket  = 93
	exitNoAccess  = 94
	exitNoProgram = 95
)

// startMark is what the script prints right before it starts the program. The line break before it ends what a login
// shell may have printed.
const startMark = "\nvirtfleet-stream-starts\n"

// command is a program that runs on the host.
type command struct {
	channel xssh.Channel
	ended   chan struct{} // Closed when no more data comes from it.
	stderr  tail

	mu     sync.Mutex
	status int // -1 while unknown.
	signal string
}

var errNoExec = errors.New("the server refused to run it")

// startCommand runs a command on the host.
func (l *link) startCommand(ctx context.Context, line string) (*command, error) {
	channel, requests, err := l.openChannel(ctx, "session", nil)
	if isOpenError(err) && l.sessions.Load() > 0 {
		return nil, &kindError{kind: ErrSessions, err: fmt.Errorf("the server runs no more programs on one connection "+
			"(MaxSessions in its sshd_config), and %d run on this one: %w", l.sessions.Load(), err)}
	}
	if err != nil {
		return nil, err
	}
	l.sessions.Add(1)
	cmd := &command{channel: channel, ended: make(chan struct{}), status: -1}
	var output sync.WaitGroup
	output.Go(func() { _, _ = io.Copy(&cmd.stderr, channel.Stderr()) })
	l.spawn(func() {
		for r := range requests {
			cmd.onRequest(r)
		}
		output.Wait()
		l.sessions.Add(-1)
		close(cmd.ended)
	})
	accepted := make(chan bool, 1)
	l.spawn(func() {
		ok, err := channel.SendRequest("exec", true, xssh.Marshal(struct{ Command string }{line}))
		accepted <- ok && err == nil
	})
	select {
	case ok := <-accepted:
		if ok {
			return cmd, nil
		}
		if err = l.brokenCause(); err == nil {
			err = errNoExec
		}
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-l.done:
		err = l.endCause(errConnectionLost)
	}
	_ = channel.Close()
	return nil, err
}

// onRequest records how the command ended.
func (c *command) onRequest(r *xssh.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch r.Type {
	case "exit-status":
		var status struct{ Status uint32 }
		if xssh.Unmarshal(r.Payload, &status) == nil {
			c.status = int(status.Status)
		}
	case "exit-signal":
		var signal struct {
			Name       string
			CoreDumped bool
			Message    string
			Language   string
		}
		if xssh.Unmarshal(r.Payload, &signal) == nil {
			c.signal = signal.Name
		}
	}
	if r.WantReply {
		_ = r.Reply(false, nil)
	}
}

// awaitEnd waits for the end of the command, whatever its result; it returns an error if it can't see the end.
func (c *command) awaitEnd(ctx context.Context, l *link) error {
	select {
	case <-c.ended:
		return l.brokenCause()
	case <-l.done:
		return l.endCause(errConnectionLost)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// exitError waits until a command that connects to a socket has ended, and returns an error if it failed.
func (c *command) exitError() error {
	<-c.ended
	if outcome := c.exitText(); outcome != "" {
		return &kindError{kind: ErrSocket, err: fmt.Errorf("the program that connects to the socket ended: %s", outcome)}
	}
	return nil
}

// wasKilled reports whether a signal ended the command, for example at its limit of time, or its end is unknown.
func (c *command) wasKilled() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.signal != "" || c.status < 0 || c.status > 128
}

// exitText describes how the command ended, and its error output; "" if it succeeded.
func (c *command) exitText() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	outcome := fmt.Sprintf("exit status %d", c.status)
	switch {
	case c.status == 0:
		return ""
	case c.signal != "":
		outcome = "signal " + c.signal
	case c.status < 0:
		outcome = "no exit status"
	}
	if text := c.stderr.String(); text != "" {
		outcome += ": " + text
	}
	return outcome
}

// connectFailure returns why the command didn't start to connect, or failed to.
func (c *command) connectFailure(ctx context.Context, l *link) error {
	defer func() { _ = c.channel.Close() }()
	if err := c.awaitEnd(ctx, l); err != nil {
		return err
	}
	c.mu.Lock()
	status := c.status
	c.mu.Unlock()
	switch status {
	case exitNoSocket:
		return &kindError{kind: ErrSocket, err: errors.New("there is no such socket on the host")}
	case exitNoAccess:
		return &kindError{kind: ErrSocket, err: errors.New("the user may not write to the socket")}
	case exitNoProgram:
		return &kindError{kind: ErrForwarding, err: errors.New("the host has no netcat (nc) to connect to the socket;" +
			" allow AllowStreamLocalForwarding in its sshd_config, or install netcat-openbsd there")}
	}
	if err := c.exitError(); err != nil {
		return err
	}
	return &kindError{kind: ErrForwarding, err: errors.New("the host's login shell ended without running a program")}
}

// awaitMark reads up to the start mark, byte by byte, because the data after it belongs to the stream.
func awaitMark(r io.Reader) error {
	var seen []byte
	one := make([]byte, 1)
	for len(seen) < maxPreamble {
		if _, err := io.ReadFull(r, one); err != nil {
			return err
		}
		seen = append(seen, one[0])
		if bytes.HasSuffix(seen, []byte(startMark)) {
			return nil
		}
	}
	// More output than that is no login shell's greeting; read it to its end, so that the program doesn't block.
	_, err := io.Copy(io.Discard, r)
	return errors.Join(errors.New("the login shell printed too much"), err)
}

// tail keeps the beginning of the text that is written to it.
type tail struct {
	mu   sync.Mutex
	text []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p[:min(len(p), maxStderr-len(t.text))]...)
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return oneLine(string(t.text))
}

// oneLine makes a host's text safe for one line of an error: it can't control a terminal.
func oneLine(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, strings.ToValidUTF8(s, "?"))
	return strings.Join(strings.Fields(s), " ")
}
