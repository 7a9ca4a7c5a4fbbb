package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

// hostCount is how many hosts a lab gets: two as an administrator would set them up for moving guests between them, and
// one as the distribution comes.
const hostCount = 3

func up(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("up", flag.ContinueOnError)
	provider := flags.String("provider", "", "the provider's binary, for a ready Terraform configuration")
	if err := flags.Parse(args); err != nil {
		return &exitError{code: 2}
	}
	l, err := lab.New(lab.Config{Hosts: hostCount})
	if err != nil {
		return err
	}
	if err := l.Up(ctx); err != nil {
		return err
	}
	if err := l.WriteTerraform(*provider); err != nil {
		return err
	}
	return l.Usage(os.Stdout)
}

func down(ctx context.Context, _ []string) error {
	l, err := lab.Load("")
	if errors.Is(err, lab.ErrNotUp) {
		// A lab that came up by half has no description, but there may be things to remove.
		l, err = lab.New(lab.Config{Hosts: hostCount})
	}
	if err != nil {
		return err
	}
	return l.Down(ctx)
}

func status(ctx context.Context, _ []string) error {
	l, err := lab.Load("")
	if err != nil {
		return err
	}
	return l.Status(ctx, os.Stdout)
}

func usage(_ context.Context, _ []string) error {
	l, err := lab.Load("")
	if err != nil {
		return err
	}
	return l.Usage(os.Stdout)
}

func virsh(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errors.New("virsh: which host?")
	}
	return execute(ctx, append([]string{args[0], "virsh", "--connect", "qemu:///system"}, args[1:]...))
}

func execute(ctx context.Context, args []string) error {
	if len(args) < 2 {
		return errors.New("exec: which host, and which command?")
	}
	h, err := host(args[0])
	if err != nil {
		return err
	}
	cmd, err := h.Command(ctx, args[1], args[2:]...)
	if err != nil {
		return err
	}
	return attach(cmd)
}

func console(_ context.Context, args []string) error {
	if len(args) != 2 {
		return errors.New("console: which host, and which domain?")
	}
	h, err := host(args[0])
	if err != nil {
		return err
	}
	file, err := os.Open(h.Path(lab.ConsoleLog(args[1])))
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	_, err = io.Copy(os.Stdout, file)
	return err
}

func createExport(ctx context.Context, args []string) error {
	if len(args) != 2 {
		return errors.New("nbd-create: which name and size?")
	}
	size, err := parseSize(args[1])
	if err != nil {
		return err
	}
	l, err := lab.Load("")
	if err != nil {
		return err
	}
	export, err := l.CreateExport(ctx, args[0], size)
	if err != nil {
		return err
	}
	fmt.Printf("nbd://%s/%s\n", export.Address(), export.Name)
	return nil
}

func removeExport(ctx context.Context, args []string) error {
	if len(args) != 1 {
		return errors.New("nbd-remove: which name?")
	}
	l, err := lab.Load("")
	if err != nil {
		return err
	}
	return l.RemoveExport(ctx, args[0])
}

func cut(ctx context.Context, args []string) error { return withHost(ctx, args, (*lab.Host).Cut) }
func restore(ctx context.Context, args []string) error {
	return withHost(ctx, args, (*lab.Host).Restore)
}

func powerOff(ctx context.Context, args []string) error {
	return withHost(ctx, args, (*lab.Host).PowerOff)
}

func powerOn(ctx context.Context, args []string) error {
	return withHost(ctx, args, (*lab.Host).PowerOn)
}

func withHost(ctx context.Context, args []string, do func(*lab.Host, context.Context) error) error {
	if len(args) != 1 {
		return errors.New("which host?")
	}
	h, err := host(args[0])
	if err != nil {
		return err
	}
	return do(h, ctx)
}

func packages(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("packages", flag.ContinueOnError)
	install := flags.Bool("install", false, "install what is missing")
	build := flags.Bool("build", false, "only what building the provider needs")
	if err := flags.Parse(args); err != nil {
		return &exitError{code: 2}
	}
	purpose := lab.Everything
	if *build {
		purpose = lab.Build
	}
	if *install {
		return lab.InstallPackages(ctx, purpose)
	}
	if missing := lab.MissingPackages(purpose); len(missing) > 0 {
		return &lab.MissingError{Packages: missing}
	}
	return nil
}

func host(name string) (*lab.Host, error) {
	l, err := lab.Load("")
	if err != nil {
		return nil, err
	}
	if h := l.Host(name); h != nil {
		return h, nil
	}
	return nil, fmt.Errorf("the lab has no host %q", name)
}

// attach runs a command on our own terminal and passes its exit status on.
func attach(cmd *exec.Cmd) error {
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err := cmd.Run()
	var ended *exec.ExitError
	if errors.As(err, &ended) && ended.Exited() {
		return &exitError{code: ended.ExitCode()}
	}
	return err
}

var sizePattern = regexp.MustCompile(`^([0-9]+)([KMG]?)$`)

func parseSize(text string) (int64, error) {
	match := sizePattern.FindStringSubmatch(text)
	if match == nil {
		return 0, fmt.Errorf("%q is not a size like 64M or 2G", text)
	}
	number, err := strconv.ParseInt(match[1], 10, 32)
	if err != nil {
		return 0, fmt.Errorf("%q is not a size like 64M or 2G: %w", text, err)
	}
	return number << (10 * strings.Index("_KMG", match[2])), nil
}
