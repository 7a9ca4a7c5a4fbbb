package fleet

import (
	"log/slog"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/fleettest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

type onLog = fleettest.OnLog

var (
	guest    = fleettest.Guest
	mover    = fleettest.Mover
	evacuee  = fleettest.Evacuee
	light    = fleettest.Light
	small    = fleettest.Small
	create   = fleettest.Create
	lastOf   = fleettest.LastOf
	onlyOn   = fleettest.OnlyOn
	booted   = fleettest.Booted
	crawling = fleettest.Crawling
	listen   = fleettest.Listen
)

// openFleet is a fleet that is closed when the test is over.
func openFleet(t *testing.T, cfg Config) *Fleet {
	t.Helper()

	return fleettest.Open(t, func(log *slog.Logger) (*Fleet, error) {
		cfg.Logger = log

		return New(cfg)
	})
}

// ownFleet is a fleet of hosts that no other test uses, so that it may be cordoned and drained.
func ownFleet(t *testing.T, owner string, hosts ...*lab.Host) *Fleet {
	t.Helper()

	return openFleet(t, ownConfig(owner, hosts...))
}

// ownConfig is the configuration of ownFleet.
func ownConfig(owner string, hosts ...*lab.Host) Config {
	return Config{Hosts: fleettest.HostConfigs(hosts...), Owner: owner}
}
