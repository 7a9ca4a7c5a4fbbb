package acctest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab" //nolint:depguard // Only tests import this package.
)

const (
	// serveEnv makes a test binary act as the provider. Terraform then starts it as a process of its own, which can be
	// killed, and which has the race detector if the tests have it.
	serveEnv = "VIRTFLEET_ACCTEST_SERVE"
	// cliTimeout bounds one Terraform command. A VM that shuts down may take its grace period.
	cliTimeout = 9 * time.Minute
	// providerAddress is the provider's address in Terraform configurations.
	providerAddress = "virtfleet/virtfleet"
)

// CLI runs Terraform as users do, and a test sees what users see. For a command started with Start, Terraform starts
// the provider as a process, which can be interrupted, frozen and killed. All other commands run to their end, and the
// test's own process serves their provider: a plan and an apply would otherwise start a process two to four times, each
// with the race detector.
type CLI struct {
	// Dir is the directory with the configuration and the state.
	Dir    string
	env    []string
	traced bool
}

// NewCLI prepares the directory.
func NewCLI(t testing.TB) *CLI {
	t.Helper()
	NeedsTerraform(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	c := &CLI{Dir: t.TempDir()}
	logs := providerLogs(t)
	write(t, filepath.Join(home, "terraform-provider-virtfleet"), fmt.Sprintf(
		"#!/bin/sh\n[ -n \"$TF_LOG\" ] || exec 2>%s.$$\n"+
			"%s=1 %s='%s' GORACE='atexit_sleep_ms=0 log_path=%s' exec '%s'\n",
		filepath.Join(logs, stderrLog), serveEnv, gcEnv, providerGC, filepath.Join(logs, raceLog), self), 0o700)
	write(t, filepath.Join(home, "terraformrc"), fmt.Sprintf(
		"provider_installation {\n  dev_overrides {\n    %q = %q\n  }\n  direct {}\n}\n", providerAddress, home), 0o600)
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "TF_") {
			c.env = append(c.env, v)
		}
	}
	c.env = append(c.env, "TF_CLI_CONFIG_FILE="+filepath.Join(home, "terraformrc"), "CHECKPOINT_DISABLE=1",
		"TF_IN_AUTOMATION=1")
	return c
}

// Trace makes all further commands log everything from Terraform and the provider to the file that it returns. Their
// providers are processes, because only those log to Terraform.
func (c *CLI) Trace() (file string) {
	file = filepath.Join(c.Dir, "trace.log")
	c.env, c.traced = append(c.env, "TF_LOG=TRACE", "TF_LOG_PATH="+file), true
	return file
}

// TempDir makes all further commands, and providers that are processes, create temporary files in the directory that it
// returns.
func (c *CLI) TempDir(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	c.env = append(c.env, "TMPDIR="+dir)
	return dir
}

// Config writes the configuration, and adds the provider's source.
func (c *CLI) Config(t testing.TB, config string) {
	t.Helper()
	write(t, filepath.Join(c.Dir, "main.tf"), "terraform {\n  required_providers {\n    virtfleet = { source = \""+
		providerAddress+"\" }\n  }\n}\n"+config, 0o600)
}

// Share copies configuration and state from another directory, as if two people worked on the same configuration.
func (c *CLI) Share(t testing.TB, other *CLI) {
	t.Helper()
	for _, name := range []string{"main.tf", "terraform.tfstate"} {
		data, err := os.ReadFile(filepath.Join(other.Dir, name))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		write(t, filepath.Join(c.Dir, name), string(data), 0o600)
	}
}

// Run runs a command that must succeed, and returns its output, with the lines joined.
func (c *CLI) Run(t testing.TB, args ...string) string {
	t.Helper()
	out, err := c.Try(t, args...)
	if err != nil {
		t.Fatalf("terraform %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// Fail runs a command that must fail, and returns its output.
func (c *CLI) Fail(t testing.TB, args ...string) string {
	t.Helper()
	out, err := c.Try(t, args...)
	if err == nil {
		t.Fatalf("terraform %s should fail:\n%s", strings.Join(args, " "), out)
	}
	return out
}

// Try runs a command that may fail.
func (c *CLI) Try(t testing.TB, args ...string) (string, error) {
	t.Helper()
	return c.finish(t, args...).Wait()
}

// TryText runs a command that may fail, and returns its output as printed without a terminal.
func (c *CLI) TryText(t testing.TB, args ...string) (string, error) {
	t.Helper()
	r := c.finish(t, args...)
	_, err := r.Wait()
	return r.Text(), err
}

// finish runs a command, with a provider in the test's own process.
func (c *CLI) finish(t testing.TB, args ...string) *Running {
	t.Helper()
	if c.traced {
		r := c.Start(t, args...)
		<-r.done
		return r
	}
	variable, stop := reattach(t)
	defer stop()
	r := c.start(t, variable, args...)
	<-r.done
	return r
}

// Empty runs a plan, and reports whether it has no changes. It returns the output.
func (c *CLI) Empty(t testing.TB, args ...string) (string, bool) {
	t.Helper()
	out, err := c.Try(t, append([]string{"plan", "-detailed-exitcode"}, args...)...)
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 2 {
		return out, false
	}
	if err != nil {
		t.Fatalf("terraform plan: %v\n%s", err, out)
	}
	return out, true
}

// State returns the attributes of a resource in the state, nil if it isn't in the state, and whether the resource is
// tainted.
func (c *CLI) State(t testing.TB, address string) (attributes map[string]any, tainted bool) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(c.Dir, "terraform.tfstate"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	if len(data) == 0 {
		return nil, false // Terraform was killed and left an empty file.
	}
	var state struct {
		Resources []struct {
			Type, Name string
			Instances  []struct {
				Status     string
				Attributes map[string]any
			}
		}
	}
	if err := json.Unmarshal(data, &state); err != nil {
		t.Fatal(err)
	}
	for _, r := range state.Resources {
		if r.Type+"."+r.Name == address && len(r.Instances) > 0 {
			return r.Instances[0].Attributes, r.Instances[0].Status == "tainted"
		}
	}
	return nil, false
}

// Running is a running Terraform command.
type Running struct {
	cmd    *exec.Cmd
	stdout bytes.Buffer
	all    locked
	done   chan struct{}
	err    error
}

// Start starts a command. If the command still runs when the test ends, it is killed.
func (c *CLI) Start(t testing.TB, args ...string) *Running {
	t.Helper()
	return c.start(t, "", args...)
}

// start starts a command, with one more environment variable unless variable is "".
func (c *CLI) start(t testing.TB, variable string, args ...string) *Running {
	t.Helper()
	options := []string{args[0], "-no-color"}
	switch args[0] {
	case "apply", "destroy":
		options = append(options, "-auto-approve", "-input=false")
	case "plan", "import", "refresh":
		options = append(options, "-input=false")
	case "state": // The options belong to the command that follows.
		options = options[:1]
	}
	args = append(options, args[1:]...)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), cliTimeout)
	r := &Running{cmd: exec.CommandContext(ctx, os.Getenv(terraformPath), args...), done: make(chan struct{})}
	r.cmd.Dir, r.cmd.Env = c.Dir, slices.Clone(c.env)
	if variable != "" {
		r.cmd.Env = append(r.cmd.Env, variable)
	}
	r.cmd.Stdout, r.cmd.Stderr = io.MultiWriter(&r.stdout, &r.all), &r.all
	// A terminal sends Ctrl-C to a process group.
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	r.cmd.Cancel = r.Kill
	if err := r.cmd.Start(); err != nil {
		cancel()
		t.Fatal(err)
	}
	began := time.Now()
	go func() {
		defer close(r.done)
		defer cancel()
		r.err = r.cmd.Wait()
		if ctx.Err() != nil { // It is no failure that a test may expect.
			t.Errorf("terraform %s: killed after %s:\n%s", args[0], cliTimeout, r.Text())
		}
		t.Logf("terraform %s: %s", args[0], time.Since(began).Round(time.Millisecond))
	}()
	t.Cleanup(func() {
		select {
		case <-r.done:
		default:
			_ = r.Kill()
			<-r.done
		}
	})
	return r
}

// Wait waits until the command ends and returns its output. Lines are joined, because Terraform breaks them at the
// width of a terminal.
func (r *Running) Wait() (string, error) {
	<-r.done
	return r.Output(), r.err
}

// Done is closed when the command has ended.
func (r *Running) Done() <-chan struct{} { return r.done }

// AwaitCopying waits until a migration has a VM's memory on its way from the host, while the command runs.
func (r *Running) AwaitCopying(t testing.TB, l *lab.Lab, host, vm string) {
	t.Helper()
	lab.Await(t, "the migration of "+vm+" to begin", func() bool {
		select {
		case <-r.done:
			t.Fatalf("Terraform has ended: %s", r.Output())
		default:
		}
		return l.Copying(t, host, vm)
	})
}

// Output returns what the command has printed so far, in one line.
func (r *Running) Output() string {
	return strings.Join(strings.FieldsFunc(r.all.String(), func(c rune) bool {
		return strings.ContainsRune(" \n\t│╷╵", c)
	}), " ")
}

// Text returns what the command has printed so far, as printed without a terminal.
func (r *Running) Text() string { return r.all.String() }

// Interrupt does what Ctrl-C in a terminal does.
func (r *Running) Interrupt() error { return syscall.Kill(-r.cmd.Process.Pid, syscall.SIGINT) }

// Kill kills Terraform and the provider.
func (r *Running) Kill() error { return syscall.Kill(-r.cmd.Process.Pid, syscall.SIGKILL) }

// Freeze stops Terraform and the provider at any point, until they are killed or thawed.
func (r *Running) Freeze() error { return syscall.Kill(-r.cmd.Process.Pid, syscall.SIGSTOP) }

// Thaw continues Terraform and the provider.
func (r *Running) Thaw() error { return syscall.Kill(-r.cmd.Process.Pid, syscall.SIGCONT) }

// KillProvider kills only the provider. Terraform continues.
func (r *Running) KillProvider() error {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return err
	}
	killed := false
	for _, file := range stats {
		data, err := os.ReadFile(file)
		if err != nil {
			continue // The process has ended.
		}
		// The state and the parent follow the name in parentheses.
		_, rest, _ := strings.Cut(string(data), ") ")
		fields := strings.Fields(rest)
		if len(fields) < 2 || fields[1] != strconv.Itoa(r.cmd.Process.Pid) || fields[0] == "Z" {
			continue // A zombie has ended, in an earlier step.
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil {
			return err
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return err
		}
		killed = true
	}
	if !killed {
		return errors.New("terraform runs no provider")
	}
	return nil
}

// locked is a buffer that may be read while it is written.
type locked struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buffer.Write(p)
}

func (l *locked) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buffer.String()
}

func write(t testing.TB, file, content string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(file, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
}
