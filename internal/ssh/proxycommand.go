package ssh

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// matchTimeout bounds a command of "Match exec".
	matchTimeout = 30 * time.Second
	// proxyGrace is how long a ProxyCommand may take to end after its connection is closed.
	proxyGrace = 2 * time.Second
)

// userShell returns the shell that runs the commands of ssh_config, as in ssh.
func userShell() string { return cmp.Or(os.Getenv("SHELL"), "/bin/sh") }

// shellSucceeds runs a command of "Match exec" and reports whether it succeeded.
func shellSucceeds(ctx context.Context, command string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, matchTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, userShell(), "-c", command) //nolint:gosec // The user's own command.
	ownGroup(cmd)
	cmd.WaitDelay = proxyGrace
	err := cmd.Run()
	var failed *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return false, fmt.Errorf("match exec %q: %w", command, context.Cause(ctx))
	case errors.As(err, &failed):
		return false, nil
	}
	return err == nil, err
}

// ownGroup runs a command in a process group of its own, which ends with the command: this process handles an interrupt
// from the terminal.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}

// proxyConn is a connection through a ProxyCommand: its standard input and output.
type proxyConn struct {
	net.Conn
	cmd    *exec.Cmd
	stderr *tail
	ended  chan struct{}
	close  sync.Once
}

// dialProxy runs a ProxyCommand.
func dialProxy(ctx context.Context, command string) (net.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	// Only Linux makes sockets that no other command inherits. Elsewhere none may start in between.
	syscall.ForkLock.RLock()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err == nil {
		unix.CloseOnExec(pair[0])
		unix.CloseOnExec(pair[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, fmt.Errorf("running ProxyCommand: %w", err)
	}
	near, far := os.NewFile(uintptr(pair[0]), "proxy"), os.NewFile(uintptr(pair[1]), "proxy")
	defer func() { _, _ = near.Close(), far.Close() }()
	conn, err := net.FileConn(near)
	if err != nil {
		return nil, fmt.Errorf("running ProxyCommand: %w", err)
	}
	// The command runs as long as the connection, not only while it is made.
	forever := context.WithoutCancel(ctx)
	cmd := exec.CommandContext(forever, userShell(), "-c", "exec "+command) //nolint:gosec // The user's own command.
	p := &proxyConn{Conn: conn, cmd: cmd, stderr: &tail{}, ended: make(chan struct{})}
	ownGroup(cmd)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = far, far, p.stderr
	cmd.WaitDelay = proxyGrace
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("running ProxyCommand: %w", err), conn.Close())
	}
	go func() {
		_ = cmd.Wait()
		close(p.ended)
	}()
	return p, nil
}

// Read reads the command's output. Once the command has ended, the error contains its error output.
func (p *proxyConn) Read(b []byte) (int, error) {
	n, err := p.Conn.Read(b)
	return n, p.explain(err)
}

// Write writes to the command's input. Its errors are those of Read.
func (p *proxyConn) Write(b []byte) (int, error) {
	n, err := p.Conn.Write(b)
	return n, p.explain(err)
}

func (p *proxyConn) explain(err error) error {
	if err == nil || errors.Is(err, net.ErrClosed) {
		return err
	}
	select {
	case <-p.ended:
	case <-time.After(proxyGrace):
	}
	if text := p.stderr.String(); text != "" {
		err = fmt.Errorf("ProxyCommand complained: %s: %w", text, err)
	}
	return err
}

// Close ends the command and waits until it has ended.
func (p *proxyConn) Close() error {
	err := net.ErrClosed
	p.close.Do(func() {
		err = p.Conn.Close()
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGHUP)
		grace := time.NewTimer(proxyGrace)
		defer grace.Stop()
		select {
		case <-p.ended:
		case <-grace.C:
			_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
			<-p.ended
		}
	})
	return err
}
