// Command terraform-provider-virtfleet is the Terraform provider for virtual machines on libvirt hosts, and what its
// operators run in addition to Terraform.
package main

import (
	"context"
	"flag"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/ops"
	virtfleet "github.com/virtfleet/terraform-provider-virtfleet/internal/provider"
)

// version is set by the linker when a release is built.
var version = "dev"

func main() {
	run := plugin
	if ops.Named(os.Args[1:]) || len(os.Args) == 1 && !virtfleet.StartedByTerraform() {
		run = command
	}
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

// command is what an operator calls.
func command() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return ops.Run(ctx, os.Args[1:], version, virtfleet.Open, os.Stdout, os.Stderr)
}

// plugin is what Terraform starts.
func plugin() error {
	debugging := flag.Bool("debug", false, "wait for a debugger and print how to attach Terraform to this process")
	flag.Parse()
	return virtfleet.Serve(version, *debugging)
}
