package provider

import (
	"log"
	"runtime/debug"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6/tf6server"
)

// Serve is the plugin that Terraform starts. It returns when Terraform is done with it. debugging waits for a debugger
// and prints how to attach Terraform to this process.
func Serve(version string, debugging bool) error {
	// The plugin framework makes much garbage of which little lives on. Collecting it when the heap has grown ninefold,
	// rather than doubled, took a third off the CPU time of a plan and cost 75 MB (60 VMs). From 1 GiB on the
	// limit decides, so that a large fleet doesn't need nine times its data.
	debug.SetGCPercent(800)
	debug.SetMemoryLimit(1 << 30)

	var opts []tf6server.ServeOpt
	if debugging {
		opts = append(opts, tf6server.WithManagedDebug())
	} else if err := QuietSDK(); err != nil {
		return err
	}
	p := New(version)
	if err := tf6server.Serve(Address, p.Server, opts...); err != nil {
		return err
	}
	// Hosts notice that we are gone in any case, so this is a courtesy and its failure doesn't matter.
	if err := p.Close(); err != nil {
		log.Print(err)
	}
	return nil
}
