package drain_test

import (
	"log/slog"
	"testing"

	"go.uber.org/goleak"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/fleettest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

// The libvirt binding's event loop runs as long as the process does.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt.runEventLoop"))
}

type onLog = fleettest.OnLog

var (
	booted   = fleettest.Booted
	crawling = fleettest.Crawling
	create   = fleettest.Create
	evacuee  = fleettest.Evacuee
	lastOf   = fleettest.LastOf
	light    = fleettest.Light
	listen   = fleettest.Listen
	onlyOn   = fleettest.OnlyOn
	small    = fleettest.Small
)

// openFleet is a fleet that is closed when the test is over.
func openFleet(t *testing.T, cfg fleet.Config) *fleet.Fleet {
	t.Helper()

	return fleettest.Open(t, func(log *slog.Logger) (*fleet.Fleet, error) {
		cfg.Logger = log

		return fleet.New(cfg)
	})
}

// ownFleet is a fleet of hosts that no other test uses, so that it may be cordoned and drained.
func ownFleet(t *testing.T, owner string, hosts ...*lab.Host) *fleet.Fleet {
	t.Helper()

	return openFleet(t, ownConfig(owner, hosts...))
}

// ownConfig is the configuration of ownFleet.
func ownConfig(owner string, hosts ...*lab.Host) fleet.Config {
	return fleet.Config{Hosts: fleettest.HostConfigs(hosts...), Owner: owner}
}
