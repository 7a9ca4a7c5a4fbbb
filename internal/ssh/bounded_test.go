package ssh

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// ended waits until a process is gone.
func ended(t *testing.T, pid int) {
	t.Helper()
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); <-again.C {
		if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			return
		}
		// An orphan that isn't reaped, in a container without an init, has ended as well.
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || strings.Contains(string(stat), ") Z ") {
			return
		}
	}
	t.Errorf("process %d still runs", pid)
}

// pidIn waits for a process to write its number into a file.
func pidIn(t *testing.T, file string) int {
	t.Helper()
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); <-again.C {
		text, err := os.ReadFile(file)
		if pid, parsed := strconv.Atoi(strings.TrimSpace(string(text))); err == nil && parsed == nil {
			return pid
		}
	}
	t.Fatalf("no process wrote to %s", file)
	return 0
}

// scripts that would run for ever: one is busy, one waits in a program of its own.
var endless = map[string]string{
	"busy":    `echo $$ >"$1"; while :; do :; done`,
	"waiting": `sh -c 'echo $$ >"$1"; exec sleep 100000' sh "$1"`,
}

// TestBounded_endsWithTheSession: no command keeps running on the host for whoever has gone away.
func TestBounded_endsWithTheSession(t *testing.T) {
	t.Parallel()
	key := newKey(t, "ed25519")
	ways := map[string]func(*Client, *sshd, context.CancelFunc){
		"cancelled":       func(_ *Client, _ *sshd, cancel context.CancelFunc) { cancel() },
		"closed":          func(c *Client, _ *sshd, _ context.CancelFunc) { _ = c.Close() },
		"connection lost": func(_ *Client, s *sshd, _ context.CancelFunc) { s.kill() },
	}
	for kind, script := range endless {
		for way, end := range ways {
			t.Run(kind+" "+way, func(t *testing.T) {
				t.Parallel()
				server := startSSHD(t, key.authorized())
				client := newClient(t, server.config(t, key))
				file := filepath.Join(t.TempDir(), "pid")
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				finished := make(chan error, 1)
				go func() {
					_, err := throughLink(ctx, client, "testing", commandLimit, func(ctx context.Context, l *link) ([]byte, error) {
						return l.commandOutput(ctx, boundedScript(script, commandLimit, file), 1)
					})
					finished <- err
				}()
				pid := pidIn(t, file)
				end(client, server, cancel)
				// The connection that was lost is opened again, and the script starts once more.
				if way == "connection lost" {
					ended(t, pid)
					cancel()
				}
				if err := <-finished; err == nil {
					t.Error("it ended well")
				}
				ended(t, pidIn(t, file))
			})
		}
	}
}

// TestBounded_endsInTime: a command ends although its session continues, be there a program for that on the host or
// not.
func TestBounded_endsInTime(t *testing.T) {
	t.Parallel()
	bare := t.TempDir()
	for _, program := range []string{"sh", "cat"} {
		path, err := exec.LookPath(program)
		noError(t, err)
		noError(t, os.Symlink(path, filepath.Join(bare, program)))
	}
	for name, test := range map[string]struct{ path, script string }{
		"busy": {os.Getenv("PATH"), endless["busy"]}, "waiting": {os.Getenv("PATH"), endless["waiting"]},
		"busy without timeout": {bare, endless["busy"]},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "pid")
			cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", boundedScript(test.script, time.Second, file))
			cmd.Env = []string{"PATH=" + test.path}
			cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // As sshd starts it.
			input, err := cmd.StdinPipe()
			noError(t, err)
			defer func() { _ = input.Close() }()
			if err := cmd.Run(); err == nil {
				t.Error("it ended well")
			}
			ended(t, pidIn(t, file))
		})
	}
}

func TestBounded_passesOnWhatTheScriptSays(t *testing.T) {
	t.Parallel()
	for _, shell := range []string{"sh", "bash"} {
		path, err := exec.LookPath(shell)
		if err != nil {
			lacks(t, "%s: %v", shell, err)
		}
		cmd := exec.CommandContext(t.Context(), path, "-c",
			boundedScript(`printf "%s," "$@"; echo complaint >&2; read -r x; exit 7`, commandLimit, "a b", "it's", "$(c)"))
		input, err := cmd.StdinPipe()
		noError(t, err)
		var complaint strings.Builder
		cmd.Stderr = &complaint
		out, err := cmd.Output()
		_ = input.Close()
		if string(out) != "a b,it's,$(c)," || complaint.String() != "complaint\n" || cmd.ProcessState.ExitCode() != 7 {
			t.Errorf("%s: got %q, %q, %v", shell, out, complaint.String(), err)
		}
	}
}
