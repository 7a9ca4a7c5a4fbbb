package provider

import (
	"log"
	"os"
	"runtime/debug"
	"time"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6/tf6server"
)

// Serve runs the plugin that Terraform starts. It returns when Terraform no longer needs the provider. debugging waits
// for a debugger and prints how to attach Terraform to this process.
func Serve(version string, debugging bool) error {
	CollectLess()
	var opts []tf6server.ServeOpt
	if debugging {
		opts = append(opts, tf6server.WithManagedDebug())
	} else if err := QuietSDK(); err != nil {
		return err
	}
	p := New(version)
	var orphaned <-chan struct{}
	if !debugging {
		orphaned = p.orphaned(os.Getppid())
	}
	served := make(chan error, 1)
	go func() { served <- tf6server.Serve(Address, p.Server, opts...) }()
	select {
	case err := <-served:
		if err != nil {
			return err
		}
	case <-orphaned:
	}
	// Hosts notice in any case that the connection ended. Closing it is a courtesy, so a failure doesn't matter.
	if err := p.Close(); err != nil {
		log.Print(err)
	}
	return nil
}

// CollectLess has the garbage collector of this process run less often. The plugin framework creates much garbage, of
// which little stays alive. Collecting it when the heap has grown ninefold, instead of doubled, saved a third of the
// CPU time of a plan and cost 75 MB (60 VMs). From 1 GiB on the limit decides, so that a large fleet doesn't need nine
// times its data.
func CollectLess() {
	debug.SetGCPercent(800)
	debug.SetMemoryLimit(1 << 30)
}

// StartedByTerraform reports whether Terraform started this process as a plugin: go-plugin sets this variable.
func StartedByTerraform() bool { return os.Getenv("TF_PLUGIN_MAGIC_COOKIE") != "" }

// orphaned returns a channel that is closed after the process that started this one was killed: Terraform then can't
// end its providers. A process that stays has connections to all hosts, which admit only a number of them. The
// connection to Terraform is gone, so every request is cancelled. Changes are completed first: what they leave is as
// after Ctrl-C.
func (p *Provider) orphaned(parent int) <-chan struct{} {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for os.Getppid() == parent {
			<-tick.C
		}
		p.changes.Wait()
	}()
	return ended
}
