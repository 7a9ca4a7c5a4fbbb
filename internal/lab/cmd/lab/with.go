package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab/demo"
)

const (
	// downTimeout bounds the removal of the lab after the command ended, or was interrupted.
	downTimeout = time.Minute
	// endTimeout is how long an interrupted command may clean up before it is killed: Terraform gives providers as long.
	endTimeout = 30 * time.Second
	// terraformPath is the variable that tells tests which Terraform to run.
	terraformPath = "TF_ACC_TERRAFORM_PATH"
)

// showDemo runs the demo. -keep leaves everything as it is when a step fails.
func showDemo(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("demo", flag.ContinueOnError)
	provider := flags.String("provider", "", "the provider's binary")
	keep := flags.Bool("keep", false, "leave everything as it is when a step fails")
	if err := flags.Parse(args); err != nil {
		return &exitError{code: 2}
	}
	return demo.Run(ctx, demo.Config{
		Provider: *provider, Source: filepath.Join("examples", "demo"),
		Screen: filepath.Join("examples", "is-my-vm-alive"), Keep: *keep, Out: os.Stdout,
	})
}

// with runs a command with a lab of its own, and removes the lab whatever happens. A lab that a developer has
// started is neither used nor touched.
func with(ctx context.Context, args []string) (err error) {
	if len(args) == 0 {
		return errors.New("with: which command?")
	}
	l, err := lab.NewTemporary(ctx, hostCount)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), downTimeout)
		defer cancel()
		err = errors.Join(err, l.Down(ctx))
	}()
	started := time.Now()
	if err := l.Up(ctx); err != nil {
		return fmt.Errorf("starting the lab: %w", err)
	}
	if err := l.WriteTerraform(""); err != nil {
		return err
	}
	if l.OnDisk != "" {
		fmt.Fprintf(os.Stderr, "The lab's files are on the disk, which costs time: %s.\n", l.OnDisk)
	}
	fmt.Fprintf(os.Stderr, "The lab is up in %s after %.1f s.\n", l.Dir, time.Since(started).Seconds())
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env = append(os.Environ(), lab.DirEnv+"="+l.Dir, lab.NetEnv+"="+strconv.Itoa(l.Net),
		"TF_CLI_CONFIG_FILE="+l.TerraformCLIConfig())
	if terraform := os.Getenv(terraformPath); terraform != "" {
		if terraform, err = l.KeepProgram(terraform); err != nil {
			return err
		}
		cmd.Env = append(cmd.Env, terraformPath+"="+terraform)
	}
	// The command cleans up after itself when it is interrupted; only then comes the end of the lab.
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) }
	cmd.WaitDelay = endTimeout
	return attach(cmd)
}
