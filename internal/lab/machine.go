package lab

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// The script is the first process of a machine. It gives the machine its files and then only reaps.
//
//go:embed machine.sh
var machineScript string

// machine is a set of namespaces held by its first process, with private files and an address on the lab's network.
type machine struct {
	name    string
	address string
	dir     string
	lab     *Lab
	// cgroups says that it has cgroups of its own.
	cgroups bool
}

func newMachine(l *Lab, name, address string) *machine {
	return &machine{name: name, address: address, dir: filepath.Join(l.Dir, "machines", name), lab: l}
}

// path says where a private file of the machine is, seen from outside.
func (m *machine) path(inside string) string { return filepath.Join(m.dir, "root", inside) }

func (m *machine) script() string { return filepath.Join(m.dir, "init.sh") }

func (m *machine) log() string { return filepath.Join(m.dir, "init.log") }

// pid finds the machine's first process, 0 when it doesn't run. It looks at the processes themselves, so that neither a
// lost nor a stale pid file can mislead it. The process that it was the last time is looked at first: to look at all of
// them takes a while.
func (m *machine) pid() (int, error) {
	if known, ok := knownPIDs.Load(m.script()); ok {
		if pid, ok := known.(int); ok && m.isFirst(pid) {
			return pid, nil
		}
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0, fmt.Errorf("looking for machine %s: %w", m.name, err)
	}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		if m.isFirst(pid) {
			knownPIDs.Store(m.script(), pid)
			return pid, nil
		}
	}
	return 0, nil
}

// knownPIDs are the machines' first processes that were found, by their scripts.
var knownPIDs sync.Map

// isFirst says whether a process is the machine's first. One that ends while we look isn't.
func (m *machine) isFirst(pid int) bool {
	cmdline, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
	return err == nil && strings.HasPrefix(string(cmdline), "bash\x00"+m.script()+"\x00")
}

// start creates the namespaces. The directories below root must be there; all of them and nothing else are private.
func (m *machine) start(ctx context.Context) error {
	if err := writeFile(m.script(), machineScript, 0o755); err != nil {
		return err
	}
	if err := m.clearRun(); err != nil {
		return err
	}
	if m.cgroups {
		if err := m.createCgroups(ctx); err != nil {
			return err
		}
	}
	out, err := os.OpenFile(m.log(), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o644)
	if err != nil {
		return fmt.Errorf("starting machine %s: %w", m.name, err)
	}
	defer func() { _ = out.Close() }()
	// The machine outlives this command, so it must not hang on the caller's context.
	cmd := exec.Command("bash", m.script(), m.name, filepath.Join(m.dir, "root"), m.cgroup()) //nolint:noctx // see above.
	cmd.Dir, cmd.Stdout, cmd.Stderr = "/", out, out
	cmd.Env = machineEnv()
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Setsid:     true,
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWUTS | syscall.CLONE_NEWNET | syscall.CLONE_NEWPID,
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("creating the namespaces of machine %s (root is needed): %w", m.name, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	return waitFor(ctx, "machine "+m.name+" to start, see "+m.log(), func(context.Context) error {
		select {
		case err := <-ended:
			return permanent(fmt.Errorf("machine %s ended at once (%w): %s", m.name, err, tail(m.log())))
		default:
		}
		if _, err := os.Stat(m.path("/run/machine-ready")); err != nil {
			return errNotYet
		}
		return nil
	})
}

// clearRun clears /run, as booting does: pid files of an earlier life would mislead.
func (m *machine) clearRun() error {
	run := m.path("/run")
	if err := os.RemoveAll(run); err != nil {
		return fmt.Errorf("clearing /run of %s: %w", m.name, err)
	}
	for _, dir := range []string{"dbus", "lock", "sshd"} {
		if err := os.MkdirAll(filepath.Join(run, dir), 0o755); err != nil {
			return fmt.Errorf("clearing /run of %s: %w", m.name, err)
		}
	}
	return nil
}

// stop pulls the machine's plug: its first process is killed, the kernel kills all others with it.
func (m *machine) stop(ctx context.Context) error {
	pid, err := m.pid()
	if err != nil {
		return err
	}
	if pid == 0 {
		return m.removeCgroup(ctx)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("stopping machine %s: %w", m.name, err)
	}
	err = waitFor(ctx, "machine "+m.name+" to end", func(context.Context) error {
		if pid, err := m.pid(); err != nil || pid == 0 {
			return err
		}
		return errNotYet
	})
	return errors.Join(err, m.removeCgroup(ctx))
}

// command prepares a command inside the machine. Ending ctx ends it with all its children.
func (m *machine) command(ctx context.Context, name string, args ...string) (*exec.Cmd, error) {
	pid, err := m.pid()
	if err != nil {
		return nil, err
	}
	if pid == 0 {
		return nil, fmt.Errorf("machine %s: %w", m.name, ErrNotUp)
	}
	enter := []string{"--target", strconv.Itoa(pid), "--mount", "--uts", "--net", "--pid"}
	program := "nsenter"
	if m.cgroups {
		enter = append([]string{"-c", joinCgroups, m.cgroupList(), program}, append(enter, "--cgroup")...)
		program = "bash"
	}
	cmd := exec.CommandContext(ctx, program, append(append(enter, "--", name), args...)...)
	cmd.Dir, cmd.Env = "/", machineEnv()
	killGroup(cmd)
	return cmd, nil
}

// run runs a command inside the machine and returns what it printed. The error has the end of its error output.
func (m *machine) run(ctx context.Context, name string, args ...string) (string, error) {
	cmd, err := m.command(ctx, name, args...)
	if err != nil {
		return "", err
	}
	out, err := capture(cmd)
	if err != nil {
		return out, fmt.Errorf("on %s: %s: %w", m.name, strings.Join(append([]string{name}, args...), " "), err)
	}
	return out, nil
}

// machineEnv is a clean environment: what the caller's shell exports must not change how the hosts behave.
func machineEnv() []string {
	return []string{"PATH=" + machinePath, "HOME=/root", "LC_ALL=C.UTF-8"}
}

const machinePath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// killGroup makes the end of the command's context end the command's children too.
func killGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = waitDelay
}

// waitDelay is how long a command's output is waited for once the command has ended. Children that daemonised may hold
// it open; they are not what we wait for.
const waitDelay = 2 * time.Second

// capture runs cmd and returns its standard output; the error has what it said.
func capture(cmd *exec.Cmd) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		said := strings.TrimSpace(stderr.String())
		if said == "" {
			said = strings.TrimSpace(stdout.String())
		}
		return stdout.String(), fmt.Errorf("%w: %s", err, said)
	}
	return stdout.String(), nil
}
