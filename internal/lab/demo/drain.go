package demo

import (
	"context"
	"fmt"
	"strings"
)

// planDrain puts the VM's host under maintenance, and shows what the plan says of it.
func (d *demo) planDrain(ctx context.Context) error {
	// As long as its configuration wants the VM on that host, no drain moves it away.
	if err := d.set(map[string]string{}); err != nil {
		return err
	}
	if err := d.terraform.run(ctx, "apply", "-auto-approve"); err != nil {
		return err
	}
	if err := d.set(map[string]string{"maintenance": d.from.Name}); err != nil {
		return err
	}
	said, err := d.terraform.said(ctx, "plan")
	if err != nil {
		return err
	}
	// What comes before is which resources were read.
	_, plan, found := strings.Cut(said, "Terraform will perform the following actions:\n")
	how := fmt.Sprintf("1. %s: moves to %s while it runs", vmName, d.to.Name)
	if !found || !strings.Contains(plan, how) {
		return fmt.Errorf("the plan doesn't say %q:\n%s", how, said)
	}
	for line := range strings.Lines(strings.TrimSpace(plan)) {
		d.say("%s\n", strings.TrimRight("    | "+line, " \n"))
	}
	return nil
}

// drain lets the maintenance take the VM away.
func (d *demo) drain(ctx context.Context) error {
	err := d.goesOn(ctx, d.from, d.to, func() error { return d.terraform.run(ctx, "apply", "-auto-approve") })
	if err != nil {
		return err
	}
	left, err := d.from.Virsh(ctx, "list", "--all", "--name")
	if err != nil {
		return err
	}
	if names := strings.Fields(left); len(names) > 0 {
		return fmt.Errorf("host %s still has %s", d.from.Name, strings.Join(names, ", "))
	}
	d.say("    virsh list --all on %s: nothing\n", d.from.Name)
	return nil
}
