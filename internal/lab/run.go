package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// pollInterval is how often a condition is looked at that nothing announces. 20 ms is short compared with the waits
// (a daemon's start takes 50 ms and more) and costs nothing.
const pollInterval = 20 * time.Millisecond

// errNotYet says that a condition doesn't hold yet.
var errNotYet = errors.New("not yet")

// permanentError ends waiting.
type permanentError struct{ error }

func permanent(err error) error { return permanentError{err} }

func (e permanentError) Unwrap() error { return e.error }

// waitFor looks at a condition until it returns nil or a permanent error, or ctx ends. Other errors are kept for the
// message.
func waitFor(ctx context.Context, what string, condition func(context.Context) error) error {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		err := condition(ctx)
		if err == nil {
			return nil
		}
		if p := (permanentError{}); errors.As(err, &p) {
			return p.error
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w (last seen: %w)", what, ctx.Err(), err)
		case <-tick.C:
		}
	}
}

// run runs a command outside of the machines.
func run(ctx context.Context, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = machineEnv()
	killGroup(cmd)
	if _, err := capture(cmd); err != nil {
		return fmt.Errorf("%s: %w", strings.Join(append([]string{name}, args...), " "), err)
	}
	return nil
}

func writeFile(path, content string, mode os.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	// WriteFile leaves the mode to the umask, and to what the file had.
	if err := os.Chmod(path, mode); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}

// tail returns the last lines of a log, for an error message.
func tail(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return fmt.Sprintf("(no log: %v)", err)
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	if len(lines) > 10 {
		lines = lines[len(lines)-10:]
	}
	return strings.Join(lines, "\n")
}
