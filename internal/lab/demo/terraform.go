package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// interruptGrace is how long Terraform may take to end after it was interrupted: it gives providers that long.
const interruptGrace = 30 * time.Second

// changesPlanned is how "terraform plan -detailed-exitcode" ends when there is something to change.
const changesPlanned = 2

// terraform runs Terraform in one directory.
type terraform struct {
	dir  string
	temp string
	env  []string
}

func newTerraform(dir, cliConfig string) (*terraform, error) {
	t := &terraform{dir: dir, temp: filepath.Join(dir, "tmp")}
	if err := os.MkdirAll(t.temp, 0o700); err != nil {
		return nil, fmt.Errorf("preparing Terraform: %w", err)
	}
	// What the caller configured for Terraform must not change the story, nor ask questions.
	for _, entry := range os.Environ() {
		if !strings.HasPrefix(entry, "TF_") && !strings.HasPrefix(entry, "TMPDIR=") {
			t.env = append(t.env, entry)
		}
	}
	t.env = append(t.env, "TF_CLI_CONFIG_FILE="+cliConfig, "TF_IN_AUTOMATION=1", "TF_INPUT=0",
		"CHECKPOINT_DISABLE=1", "TMPDIR="+t.temp)
	return t, nil
}

// run runs a Terraform command. An error has everything that it printed.
func (t *terraform) run(ctx context.Context, args ...string) error {
	_, err := t.said(ctx, args...)
	return err
}

// said runs a Terraform command and returns what it printed.
func (t *terraform) said(ctx context.Context, args ...string) (string, error) {
	var out bytes.Buffer
	cmd := t.command(ctx, append(args, "-no-color")...)
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if err == nil {
		return out.String(), nil
	}
	var ended *exec.ExitError
	if errors.As(err, &ended) && ended.ExitCode() == changesPlanned && slices.Contains(args, "-detailed-exitcode") {
		return "", fmt.Errorf("the plan has changes:\n%s", out.String())
	}
	return "", fmt.Errorf("terraform %s: %w\n%s", strings.Join(args, " "), err, out.String())
}

// outputs returns the root module's outputs, one line each, for people.
func (t *terraform) outputs(ctx context.Context) (string, error) {
	var outputs map[string]struct {
		Value any `json:"value"`
	}
	if err := t.read(ctx, &outputs, "output", "-json"); err != nil {
		return "", err
	}
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(outputs)) {
		fmt.Fprintf(&b, "    %-18s%s\n", strings.ReplaceAll(name, "_", " "), text(outputs[name].Value))
	}
	return b.String(), nil
}

// resource returns the attributes that the state has of a resource.
func (t *terraform) resource(ctx context.Context, address string) (map[string]any, error) {
	var state struct {
		Values struct {
			RootModule struct {
				Resources []struct {
					Address string         `json:"address"`
					Values  map[string]any `json:"values"`
				} `json:"resources"`
			} `json:"root_module"`
		} `json:"values"`
	}
	if err := t.read(ctx, &state, "show", "-json"); err != nil {
		return nil, err
	}
	for _, resource := range state.Values.RootModule.Resources {
		if resource.Address == address {
			return resource.Values, nil
		}
	}
	return nil, fmt.Errorf("the state has no %s", address)
}

func (t *terraform) read(ctx context.Context, into any, args ...string) error {
	var said bytes.Buffer
	cmd := t.command(ctx, args...)
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("terraform %s: %w\n%s", strings.Join(args, " "), err, said.String())
	}
	if err := json.Unmarshal(out, into); err != nil {
		return fmt.Errorf("reading what terraform %s printed: %w", strings.Join(args, " "), err)
	}
	return nil
}

func (t *terraform) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "terraform", args...)
	cmd.Dir, cmd.Env = t.dir, t.env
	// Ctrl-C reaches this process alone, which interrupts Terraform once. Twice would make it give up cleaning up.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = interruptGrace
	return cmd
}

func text(value any) string {
	switch v := value.(type) {
	case nil:
		return "not reported"
	case []any:
		parts := make([]string, len(v))
		for i, part := range v {
			parts[i] = text(part)
		}
		return strings.Join(parts, ", ")
	default:
		return fmt.Sprint(v)
	}
}
