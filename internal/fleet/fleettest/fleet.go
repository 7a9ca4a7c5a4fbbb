package fleettest

import (
	"context"
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/placement"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

// Fleet is what is asked here of a fleet.
type Fleet interface {
	Create(ctx context.Context, d placement.Desired) (*inventory.VM, error)
	FinishCreate(ctx context.Context, vm *inventory.VM) error
	HostNames() []string
	Host(name string) *inventory.Host
	Logger() *slog.Logger
}

// Open returns the fleet that open opens with the logger, which Listen hears, and closes it when the test is over.
func Open[F io.Closer](t *testing.T, open func(*slog.Logger) (F, error)) F {
	t.Helper()

	f, err := open(newLog(t))
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Errorf("closing the fleet: %v", err)
		}
	})

	return f
}

// HostConfigs are hosts of the lab, reached through their sockets.
func HostConfigs(hosts ...*lab.Host) map[string]inventory.HostConfig {
	all := make(map[string]inventory.HostConfig, len(hosts))
	for _, h := range hosts {
		all[h.Name] = inventory.HostConfig{
			URI: "qemu+unix:///system?socket=" + h.Path("/run/libvirt/libvirt-sock"), MigrationAddress: h.Address,
		}
	}

	return all
}

// Lease is the UUID of the secret that keeps the lease of that name on the host.
func Lease(t *testing.T, l *lab.Lab, h *lab.Host, name string) string {
	t.Helper()

	for line := range strings.Lines(l.Virsh(t, h.Name, "secret-list")) {
		if fields := strings.Fields(line); len(fields) > 1 && strings.HasSuffix(line, "virtfleet:lock:"+name+"\n") {
			return fields[0]
		}
	}

	t.Fatalf("no lease of %s on host %s", name, h.Name)

	return ""
}
