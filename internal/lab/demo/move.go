package demo

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

func (d *demo) move(ctx context.Context) error {
	// libvirt knows NFS and its like for shared. Of this directory it has to be told.
	d.say("    virsh migrate --live --persistent --undefinesource --unsafe %s: from %s to %s\n",
		vmName, d.from.Name, d.to.Name)
	if err := d.from.Migrate(ctx, vmName, d.to, "--unsafe"); err != nil {
		return err
	}
	return d.runsOn(ctx, d.to)
}

// planAutostart expects that after a move by hand the plan sets autostart, which virsh doesn't take along, and nothing
// else.
func (d *demo) planAutostart(ctx context.Context) error {
	said, err := d.terraform.said(ctx, "plan")
	if err != nil {
		return err
	}
	_, planned, _ := strings.Cut(said, "~ resource \"virtfleet_virtual_machine\" ")
	planned, _, _ = strings.Cut(planned, "\n    }\n")
	var changes []string
	for line := range strings.Lines(planned) {
		if fields := strings.Fields(line); len(fields) > 0 && slices.Contains([]string{"~", "+", "-"}, fields[0]) {
			changes = append(changes, strings.Join(fields, " "))
		}
	}
	const change = "~ autostart = false -> true"
	if !slices.Equal(changes, []string{change}) || !strings.Contains(said, "Plan: 0 to add, 1 to change, 0 to destroy.") {
		return fmt.Errorf("more or less than autostart is planned:\n%s", said)
	}
	d.say("    %s\n", change)
	return nil
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
		return fmt.Errorf("the VM is on %s, but the state says %q", d.to.Name, host)
	}
	d.say("    current_host was %s and is %s\n", d.from.Name, host)
	return nil
}

// moveBack pins the VM to the host where it was at first.
func (d *demo) moveBack(ctx context.Context) error {
	if err := d.set(map[string]string{"host": d.from.Name}); err != nil {
		return err
	}
	d.say("    host = %q\n", d.from.Name)
	return d.following(ctx, func() error {
		return d.goesOn(ctx, d.to, d.from, func() error { return d.terraform.run(ctx, "apply", "-auto-approve") })
	})
}

// goesOn does something that moves the VM, and proves that its guest never stopped.
func (d *demo) goesOn(ctx context.Context, from, to *lab.Host, do func() error) error {
	before, err := d.uptime(ctx)
	if err != nil {
		return err
	}
	d.say("    on %s, the guest says it has been up for %.2f s\n", from.Name, before)
	if err := do(); err != nil {
		return err
	}
	after, err := d.uptime(ctx)
	if err != nil {
		return err
	}
	d.say("    on %s, over the same SSH connection, for %.2f s: it never stopped\n", to.Name, after)
	if after <= before {
		return fmt.Errorf("the guest was up for %.2f s and is up for %.2f s: it was restarted", before, after)
	}
	return d.runsOn(ctx, to)
}

// set sets variables of the configuration. Those that were set before aren't any more.
func (d *demo) set(variables map[string]string) error {
	return writeJSON(filepath.Join(d.work(), "demo.auto.tfvars.json"), variables)
}
