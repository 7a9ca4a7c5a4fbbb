// Command lab starts, stops and looks at the lab: real libvirt hosts on this machine.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
)

// command is one of the words that the program understands.
type command struct {
	name, args, help string
	run              func(ctx context.Context, args []string) error
}

// commands are in the order in which one would want to read them.
var commands = []command{
	{"up", "[-provider <binary>]", "start the hosts and leave them running", up},
	{"down", "", "stop the hosts and remove everything of them", down},
	{"status", "", "say which hosts run and answer", status},
	{"usage", "", "say how to reach the hosts", usage},
	{"virsh", "<host> <args...>", "run virsh on a host", virsh},
	{"exec", "<host> <command...>", "run a command on a host", execute},
	{"console", "<host> <domain>", "show what a guest with a serial console file printed", console},
	{"nbd-create", "<name> <size>", "serve an empty disk to all hosts, the size as 64M or 2G", createExport},
	{"nbd-remove", "<name>", "stop serving a disk and delete it", removeExport},
	{"cut", "<host>", "take a host off the network", cut},
	{"restore", "<host>", "put it back", restore},
	{"power-off", "<host>", "pull a host's plug", powerOff},
	{"power-on", "<host>", "boot it again", powerOn},
	{"with", "<command...>", "start a lab of its own, run the command with it, remove the lab", with},
	{"demo", "-provider <binary> [-keep]", "show what the provider does, on two hosts of its own", showDemo},
	{
		"packages", "[-install] [-build]",
		"say which Debian packages are missing, or install them; -build: those for building alone", packages,
	},
}

// helps are the first arguments of a command that ask for its usage.
var helps = []string{"-h", "-help", "--help"}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	err := dispatch(ctx, os.Args[1:])
	stop()
	var ended *exitError
	switch {
	case err == nil:
	case errors.As(err, &ended):
		os.Exit(ended.code)
	default:
		fmt.Fprintln(os.Stderr, "lab:", err)
		os.Exit(1)
	}
}

func dispatch(ctx context.Context, args []string) error {
	if len(args) > 0 {
		for _, c := range commands {
			if c.name != args[0] {
				continue
			}
			if len(args) > 1 && slices.Contains(helps, args[1]) {
				fmt.Printf("usage: lab %s\n  %s\n", strings.TrimSpace(c.name+" "+c.args), c.help)
				return nil
			}
			return c.run(ctx, args[1:])
		}
	}
	w := tabwriter.NewWriter(os.Stderr, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "usage: lab <command> [args...]")
	for _, c := range commands {
		fmt.Fprintf(w, "  %s %s\t%s\n", c.name, c.args, c.help)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return &exitError{code: 2}
}

// exitError ends the program with the exit status of the command that it ran.
type exitError struct{ code int }

func (e *exitError) Error() string { return fmt.Sprintf("exit status %d", e.code) }
