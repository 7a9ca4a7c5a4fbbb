package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// runAsProgram, in the environment, makes the test's binary the program: what is tested is how it ends.
const runAsProgram = "VIRTFLEET_TEST_RUNS_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(runAsProgram) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// program is the program with arguments, and libvirt's simulation as its only host.
func program(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	c := exec.CommandContext(t.Context(), os.Args[0], args...)
	c.Env = append(os.Environ(), runAsProgram+"=1", "VIRTFLEET_URI=test:///default")
	return c
}

func TestProgram_exitStatusAndOutput(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		args   []string
		status int
		out    string // What the output contains.
		said   string // What the messages contain.
	}{
		"version":           {args: []string{"version"}, out: "virtfleet " + version + "\n"},
		"-version":          {args: []string{"-version"}, out: "virtfleet " + version + "\n"},
		"--version":         {args: []string{"--version"}, out: "virtfleet " + version + "\n"},
		"help":              {args: []string{"help"}, out: "  version "},
		"help of a command": {args: []string{"watch", "-help"}, said: "-interval"},
		"help, a command":   {args: []string{"help", "watch"}, out: "-interval"},
		"help of help":      {args: []string{"help", "help"}, out: "  version "},
		"help of version":   {args: []string{"help", "version"}, out: "  version "},
		"help of a typo":    {args: []string{"help", "wach"}, status: 1, said: `there is no command "wach"`},
		"too much help":     {args: []string{"help", "watch", "x"}, status: 1, said: `unexpected argument "x"`},
		"too much version":  {args: []string{"version", "extra"}, status: 1, said: `unexpected argument "extra"`},
		"no command":        {status: 1, said: "there is no command"},
		"unknown command":   {args: []string{"wach"}, status: 1, said: `there is no command "wach"`},
		"unknown option":    {args: []string{"events", "-x"}, status: 1, said: `"virtfleet events -help" lists the options`},
		"wrong value":       {args: []string{"events", "-output", "xml"}, status: 1, said: "-output must be"},
		"missing file":      {args: []string{"exporter", "-config", "/nowhere"}, status: 1, said: "/nowhere"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := program(t, c.args...)
			var out, said bytes.Buffer
			p.Stdout, p.Stderr = &out, &said
			err := p.Run()
			var exit *exec.ExitError
			if err != nil && !errors.As(err, &exit) {
				t.Fatal(err)
			}
			if got := p.ProcessState.ExitCode(); got != c.status {
				t.Errorf("exit status %d, expected %d", got, c.status)
			}
			if !strings.Contains(out.String(), c.out) || !strings.Contains(said.String(), c.said) {
				t.Errorf("printed %q and %q, expected %q and %q", out.String(), said.String(), c.out, c.said)
			}
		})
	}
}

func TestProgram_stoppedBySignal(t *testing.T) {
	t.Parallel()
	for name, signal := range map[string]syscall.Signal{"SIGTERM": syscall.SIGTERM, "Ctrl-C": syscall.SIGINT} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := program(t, "watch")
			out, err := p.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := p.Start(); err != nil {
				t.Fatal(err)
			}
			// Its first output: from then on, it is a signal to the command, which has begun.
			if _, err := out.Read(make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
			if err := p.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
			kill := time.AfterFunc(time.Minute, func() { _ = p.Process.Kill() })
			defer kill.Stop()
			if err := p.Wait(); err != nil {
				t.Errorf("after %s: %v", name, err)
			}
		})
	}
}
