package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// follows is what "events" says of each host that it has begun to follow.
const follows = "following its events"

// followTimeout bounds the beginning of that.
const followTimeout = 30 * time.Second

// settings are the provider's, as attributes of its block.
func (d *demo) settings() map[string]any {
	hosts := map[string]any{}
	for _, h := range d.lab.Hosts {
		hosts[h.Name] = map[string]string{"uri": h.URI()}
	}
	return map[string]any{"hosts": hosts, "ssh": map[string]string{
		"private_key_file": d.lab.PrivateKeyFile(), "known_hosts_file": d.lab.KnownHostsFile(), "config_file": "none",
	}}
}

// eventsFile is where the VM's events are written.
func (d *demo) eventsFile() string { return filepath.Join(d.work(), vmName+".events") }

// following does something while the VM's events are followed by "events" of the provider's program.
func (d *demo) following(ctx context.Context, do func() error) (err error) {
	config := filepath.Join(d.work(), "fleet.yaml")
	if err := writeJSON(config, d.settings()); err != nil { // which is YAML too
		return err
	}
	events, err := os.Create(d.eventsFile())
	if err != nil {
		return fmt.Errorf("following the VM's events: %w", err)
	}
	var complaints bytes.Buffer
	ctx, stop := context.WithCancel(ctx)
	cmd := exec.CommandContext(ctx, d.Provider, "events", "--config", config, "--vm", vmName)
	cmd.Stdout, cmd.Stderr = events, &complaints
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = interruptGrace
	if err := cmd.Start(); err != nil {
		stop()
		return errors.Join(fmt.Errorf("following the VM's events: %w", err), events.Close())
	}
	defer func() {
		stop()
		if ended := cmd.Wait(); ended != nil && !errors.Is(ended, context.Canceled) {
			err = errors.Join(err, fmt.Errorf("following the VM's events: %w\n%s", ended, complaints.String()))
		}
		err = errors.Join(err, events.Close())
	}()
	if err := d.awaitFollowing(ctx); err != nil {
		return err
	}
	return do()
}

func (d *demo) awaitFollowing(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, followTimeout)
	defer cancel()
	for tick := time.NewTicker(100 * time.Millisecond); ; {
		text, err := os.ReadFile(d.eventsFile())
		if err != nil || strings.Count(string(text), follows) == len(d.lab.Hosts) {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("following the VM's events: %w\n%s", context.Cause(ctx), text)
		}
	}
}

// alive shows what every layer says of the VM, on one screen.
func (d *demo) alive(ctx context.Context) error {
	dir := filepath.Join(d.work(), "alive")
	if err := os.CopyFS(dir, os.DirFS(d.Screen)); err != nil {
		return fmt.Errorf("copying the configuration: %w", err)
	}
	// The configuration is a user's, with hosts of its own.
	override := map[string]any{"provider": map[string]any{"virtfleet": d.settings()}}
	if err := writeJSON(filepath.Join(dir, "hosts_override.tf.json"), override); err != nil {
		return err
	}
	screen, err := newTerraform(dir, d.lab.TerraformCLIConfig())
	if err != nil {
		return err
	}
	variables := []string{"-var", "name=" + vmName, "-var", "events=" + d.eventsFile()}
	for _, args := range [][]string{{"init"}, append([]string{"apply", "-auto-approve"}, variables...)} {
		if err := screen.run(ctx, args...); err != nil {
			return err
		}
	}
	said, err := screen.said(ctx, "output", "-raw", "screen")
	if err != nil {
		return err
	}
	for _, must := range []string{"Ready                     True", "AgentConnected            True", "Migrated"} {
		if !strings.Contains(said, must) {
			return fmt.Errorf("the screen doesn't say %q:\n%s", must, said)
		}
	}
	for line := range strings.Lines(strings.TrimSpace(said)) {
		d.say("%s\n", strings.TrimRight("    | "+line, " \n"))
	}
	return nil
}

func writeJSON(path string, document any) error {
	text, err := json.MarshalIndent(document, "", "  ")
	if err == nil {
		err = os.WriteFile(path, text, 0o644)
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", filepath.Base(path), err)
	}
	return nil
}
