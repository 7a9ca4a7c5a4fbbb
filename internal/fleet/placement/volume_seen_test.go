package placement

import (
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
)

// TestFitsVolumes_asksOnce: a medium that many planned VMs have is read once. Before a change is made, it is read
// again, and so it is after this process has changed a pool.
func TestFitsVolumes_asksOnce(t *testing.T) {
	t.Parallel()

	p, h := testScheduler(t)
	file := testVolume(t, h, "medium", 1)
	read := func() int { return h.Conn.Calls()["virStorageVolGetXMLDesc"] }

	for _, id := range []string{"default-pool/medium", file} {
		d := Desired{
			Planned: true, Volumes: map[string]string{"cd": id},
			Spec: domain.Spec{Disks: map[string]domain.Disk{"cd": {Device: "cdrom"}}},
		}
		check := func() (reads int) {
			t.Helper()

			before := read()
			if problems := p.fitsVolumes(t.Context(), inventory.Reply{Host: h}, d); len(problems) > 0 {
				t.Fatalf("%s: %+v", id, problems)
			}

			p.onHost(t.Context(), h, d, []domain.DiskUse{{Key: "cd", Source: domain.DiskSource{File: id}}})

			return read() - before
		}

		first := check()
		if again := check(); first != 1 || again != 0 {
			t.Errorf("%s: %d reads of one VM, %d more of another one", id, first, again)
		}

		testVolume(t, h, "other-"+id[:1], 1)

		if changed := check(); changed != 1 {
			t.Errorf("%s: %d reads after a change", id, changed)
		}

		d.Planned = false
		if made := check(); made == 0 {
			t.Errorf("%s: what is changed follows from what a plan has read", id)
		}
	}
}
