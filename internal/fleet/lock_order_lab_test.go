package fleet

import (
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/fleettest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

// Two runs whose configurations name the hosts in opposite orders take the locks of a move in the same order, so that
// neither holds one for which the other waits: the host with the lower UUID comes first, whatever its name is.
func TestLab_moveLocksByUUID(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	f := labFleet(t, l, t.Name(), nil)
	d := light(t, l, "order", nil)
	d.Metadata.Host = "kvm1"
	vm := create(t, f, l, d)

	uuidOf := func(host string) string {
		t.Helper()

		info, err := f.Host(host).Conn.Info(t.Context())
		if err != nil || info.UUID == "" {
			t.Fatalf("host %s: %+v, %v", host, info, err)
		}

		return info.UUID
	}

	first, second := "kvm1", "kvm2"
	if uuidOf(second) < uuidOf(first) {
		first, second = second, first
	}

	names := map[string]string{first: "z", second: "a"}
	cfg := Config{Hosts: map[string]inventory.HostConfig{}, Owner: "bob"}

	for host, name := range names {
		cfg.Hosts[name] = f.Host(host).Config
	}

	other := openFleet(t, cfg)

	_, release, err := f.LockOn(t.Context(), second, vm.UUID, "testing")
	if err != nil {
		t.Fatal(err)
	}
	defer release()

	moved := make(chan error, 1)

	go func() {
		_, _, err := other.Move(t.Context(), vm.UUID, inventory.LastKnown{}, names["kvm2"], migration.Options{})
		moved <- err
	}()

	lab.Await(t, "the lock of the first host", func() bool {
		select {
		case err := <-moved:
			t.Fatal("the move ended:", err)
		default:
		}

		return strings.Contains(l.Virsh(t, first, "secret-list"), "virtfleet:lock:"+vm.UUID)
	})
	release()

	if err := fleettest.Await(t, moved); err != nil {
		t.Error(err)
	}

	onlyOn(t, f, vm.UUID, "kvm2")
}
