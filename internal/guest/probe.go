package guest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// defaultProbeTimeout is how long a probe may run.
const defaultProbeTimeout = 10 * time.Second

// Probe is a command that is run in the guest (guest-exec).
type Probe struct {
	// Command is the path of the program and its arguments. No shell is involved.
	Command []string
	// Timeout is how long to wait for the end of the command. The agent can't end the command: it may continue to run in
	// the guest. 0 means defaultProbeTimeout.
	Timeout time.Duration
}

// ProbeResult is the outcome of a probe.
type ProbeResult struct {
	// Exited says that the command ended in time.
	Exited bool
	// ExitStatus is the exit status, Signal the signal that ended the command; one of them is nil.
	ExitStatus, Signal *int
	// Output and ErrorOutput are the command's output, up to the agent's limit (16 MiB); Truncated says that there was
	// more.
	Output, ErrorOutput []byte
	Truncated           bool
}

// runProbe runs the command and waits for its end.
func (a *agentQuery) runProbe(ctx context.Context) error {
	p := *a.options.Probe
	if p.Timeout == 0 {
		p.Timeout = defaultProbeTimeout
	}
	waiting, cancel := context.WithTimeout(ctx, p.Timeout)
	defer cancel()
	pid, started := 0, false
	err := a.sendCommand(ctx, GroupProbe, "guest-exec", map[string]any{
		"path": p.Command[0], "arg": p.Command[1:], "capture-output": true,
	}, func(answer json.RawMessage) error {
		var reply struct {
			PID *int `json:"pid"`
		}
		err := json.Unmarshal(answer, &reply)
		if err == nil && reply.PID == nil {
			err = errors.New("it has no process id")
		}
		if err == nil {
			pid, started = *reply.PID, true
		}
		return err
	})
	if err != nil || !started {
		return err
	}
	return a.awaitProbe(ctx, waiting, pid, p.Timeout)
}

// awaitProbe polls for the end, because the agent doesn't report it by itself: ten times within the probe's timeout, as
// KubeVirt does, but at least every second, so that a long timeout doesn't make the caller wait.
func (a *agentQuery) awaitProbe(ctx, waiting context.Context, pid int, timeout time.Duration) error {
	ticker := time.NewTicker(min(max(timeout/10, 100*time.Millisecond), time.Second))
	defer ticker.Stop()
	for {
		var result *ProbeResult
		err := a.sendCommand(ctx, GroupProbe, "guest-exec-status", map[string]any{"pid": pid},
			func(answer json.RawMessage) (err error) {
				result, err = parseProbe(answer)
				return err
			})
		if err != nil {
			return err
		}
		if _, said := a.report.Unavailable[GroupProbe]; said {
			return nil
		}
		if result.Exited || waiting.Err() != nil {
			a.report.Probe = result
			return nil
		}
		select {
		case <-ticker.C:
		case <-waiting.Done():
			if ctx.Err() != nil {
				return fmt.Errorf("waiting for the probe: %w", context.Cause(ctx))
			}
		}
	}
}

// parseProbe parses the answer to guest-exec-status.
func parseProbe(answer json.RawMessage) (*ProbeResult, error) {
	var reply struct {
		Exited       bool   `json:"exited"`
		ExitCode     *int   `json:"exitcode"`
		Signal       *int   `json:"signal"`
		Out          []byte `json:"out-data"`
		Err          []byte `json:"err-data"`
		OutTruncated bool   `json:"out-truncated"`
		ErrTruncated bool   `json:"err-truncated"`
	}
	if err := json.Unmarshal(answer, &reply); err != nil {
		return nil, err
	}
	return &ProbeResult{
		Exited: reply.Exited, ExitStatus: reply.ExitCode, Signal: reply.Signal, Output: reply.Out, ErrorOutput: reply.Err,
		Truncated: reply.OutTruncated || reply.ErrTruncated,
	}, nil
}
