package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

func (d *demo) move(ctx context.Context) error {
	d.say("    virsh migrate --live --persistent --undefinesource %s: from %s to %s\n", vmName, d.from.Name, d.to.Name)
	if err := d.from.Migrate(ctx, vmName, d.to); err != nil {
		return err
	}
	return d.runsOn(ctx, d.to)
}

func (d *demo) refresh(ctx context.Context) error {
	if err := d.terraform.run(ctx, "apply", "-refresh-only", "-auto-approve"); err != nil {
		return err
	}
	host, err := d.currentHost(ctx)
	if err != nil {
		return err
	}
	if host != d.to.Name {
		return fmt.Errorf("the machine is on %s, but the state says %q", d.to.Name, host)
	}
	d.say("    current_host was %s and is %s\n", d.from.Name, host)
	return nil
}

// moveBack pins the machine to the host where it was at first.
func (d *demo) moveBack(ctx context.Context) error {
	if err := d.set(map[string]string{"host": d.from.Name}); err != nil {
		return err
	}
	d.say("    host = %q\n", d.from.Name)
	return d.following(ctx, func() error {
		return d.goesOn(ctx, d.to, d.from, func() error { return d.terraform.run(ctx, "apply", "-auto-approve") })
	})
}

// goesOn does something that moves the machine, and proves that its guest never stopped.
func (d *demo) goesOn(ctx context.Context, from, to *lab.Host, do func() error) error {
	before, err := uptime(ctx, from)
	if err != nil {
		return err
	}
	d.say("    on %s, the guest says it has been up for %s s\n", from.Name, before)
	if err := do(); err != nil {
		return err
	}
	after, err := uptime(ctx, to)
	if err != nil {
		return err
	}
	d.say("    on %s, the guest says it has been up for %s s: it never stopped\n", to.Name, after)
	if later, err := after.Float64(); err != nil {
		return fmt.Errorf("reading the guest's uptime: %w", err)
	} else if earlier, err := before.Float64(); err != nil || later <= earlier {
		return fmt.Errorf("the guest was up for %s s and is up for %s s: it was restarted", before, after)
	}
	return d.runsOn(ctx, to)
}

// set sets variables of the configuration. Those that were set before aren't any more.
func (d *demo) set(variables map[string]string) error {
	return writeJSON(filepath.Join(d.work(), "demo.auto.tfvars.json"), variables)
}

// uptime asks the guest how many seconds ago it booted, as it counts them itself.
func uptime(ctx context.Context, h *lab.Host) (json.Number, error) {
	var opened struct {
		Return int `json:"return"`
	}
	if err := ask(ctx, h, &opened, `{"execute":"guest-file-open","arguments":{"path":"/proc/uptime"}}`); err != nil {
		return "", err
	}
	var read struct {
		Return struct {
			Base64 []byte `json:"buf-b64"`
		} `json:"return"`
	}
	handle := fmt.Sprintf(`{"handle":%d}`, opened.Return)
	if err := ask(ctx, h, &read, `{"execute":"guest-file-read","arguments":`+handle+`}`); err != nil {
		return "", err
	}
	var closed struct{}
	if err := ask(ctx, h, &closed, `{"execute":"guest-file-close","arguments":`+handle+`}`); err != nil {
		return "", err
	}
	up, _, _ := strings.Cut(string(read.Return.Base64), " ")
	return json.Number(up), nil
}

// ask asks the machine's guest agent.
func ask(ctx context.Context, h *lab.Host, answer any, question string) error {
	said, err := h.Virsh(ctx, "qemu-agent-command", vmName, question)
	if err != nil {
		return err
	}
	if err := json.Unmarshal([]byte(said), answer); err != nil {
		return fmt.Errorf("reading what the guest agent said: %w", err)
	}
	return nil
}
