package fleet

import (
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/fleettest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/lifecycle"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

// A VM's disks are removed although another disk of their pool takes long to be made: libvirt reads the pool again when
// that is there.
func TestLab_disksOfABusyPoolAreRemoved(t *testing.T) {
	t.Parallel()

	l, pool := lab.Open(t), lab.Name(t)
	host := l.StartHost(t).Name
	f, dir := labFleet(t, l, t.Name(), nil), directory(t, l, host)
	diskPool(t, l, host, pool, dir)

	d := owner(t, l, "Halted", pool, pool)
	d.Metadata.Host = host
	vm := create(t, f, l, d)

	begun, release := slowImages(t, l, host, dir)
	made := make(chan error, 1)

	go func() {
		_, err := l.TryVirsh(t, host, "vol-create-as", pool, "slow", "1M", "--format", "qcow2")
		made <- err
	}()

	begun()

	type deleted struct {
		report *lifecycle.DeleteReport
		err    error
	}

	result := make(chan deleted, 1)
	refused := func() int { return f.Host(host).Conn.Calls()["virStoragePoolRefresh"] }
	before := refused()

	go func() {
		report, err := f.Delete(t.Context(), vm.UUID, lastOf(vm), 0)
		result <- deleted{report, err}
	}()

	// It is asked ten times a second. Ten seconds are enough for a small image, not for this one.
	lab.Await(t, "libvirt to refuse for long", func() bool { return len(result) > 0 || refused() > before+120 })
	release()

	if err := fleettest.Await(t, made); err != nil {
		t.Error(err)
	}

	if r := fleettest.Await(t, result); r.err != nil || len(r.report.KeptDisks) > 0 {
		t.Errorf("deleting it: %+v, %v", r.report, r.err)
	}

	if _, err := f.FindNow(t.Context(), vm.UUID, lastOf(vm)); !inventory.IsNotFound(err) {
		t.Errorf("finding it: %v", err)
	}

	hasOnly(t, l, host, dir+"/"+pool, dir+"/"+pool+"/slow")
}
