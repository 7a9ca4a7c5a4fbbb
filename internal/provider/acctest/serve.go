package acctest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6/tf6server"

	virtfleet "github.com/virtfleet/terraform-provider-virtfleet/internal/provider"
)

// serve is the provider's main.
func serve() error {
	p := virtfleet.New("test")
	return errors.Join(tf6server.Serve(virtfleet.Address, p.Server), p.Close())
}

// reattach serves a provider in the test's own process to one Terraform command, until stop is called. It returns the
// environment variable that tells Terraform where the provider is.
func reattach(t testing.TB) (variable string, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	p := virtfleet.New("test")
	serving, served, closed := make(chan *plugin.ReattachConfig, 1), make(chan error, 1), make(chan struct{})
	go func() {
		served <- tf6server.Serve(virtfleet.Address, p.Server, tf6server.WithDebug(ctx, serving, closed),
			tf6server.WithGoPluginLogger(hclog.New(&hclog.LoggerOptions{Output: io.Discard})),
			tf6server.WithoutLogStderrOverride())
	}()
	stop = func() {
		cancel()
		if err := errors.Join(<-served, p.Close()); err != nil {
			t.Errorf("closing the provider: %v", err)
		}
	}
	var at *plugin.ReattachConfig
	select {
	case at = <-serving:
	case err := <-served:
		served <- err
		stop()
		t.Fatalf("the provider can't be served: %v", err)
	}
	type address struct{ Network, String string }
	value, err := json.Marshal(map[string]any{virtfleet.Address: map[string]any{
		"Protocol": at.Protocol, "ProtocolVersion": at.ProtocolVersion, "Pid": at.Pid, "Test": at.Test,
		"Addr": address{at.Addr.Network(), at.Addr.String()},
	}})
	if err != nil {
		stop()
		t.Fatal(err)
	}
	return fmt.Sprintf("TF_REATTACH_PROVIDERS=%s", value), stop
}
