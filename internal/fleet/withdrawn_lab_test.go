package fleet

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/records"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

// Withdrawing an order whose run is lost aborts its migration, and not the backup that a user has begun since.
func TestLab_withdrawalLeavesABackup(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	f := labFleet(t, l, "alice", nil)
	name := lab.Name(t)
	d := mover(t, l, "noagent")
	d.Spec.Disks = map[string]domain.Disk{
		"data": {Source: domain.DiskSource{File: l.Image(t, "kvm1", name, "qcow2", 1<<20)}, Format: "qcow2"},
	}
	vm := booted(t, l, create(t, f, l, d))

	const id = "4711"

	left := migration.State{
		SourceHost: "kvm1", TargetHost: "kvm2", Start: time.Now(), Phase: migration.PhasePreparingTarget,
	}.Record(id, "a run that is lost")

	if _, err := records.WriteMetadata(t.Context(), vm, vm.Metadata.WithMigration(left)); err != nil {
		t.Fatal(err)
	}

	backup := filepath.Join(t.TempDir(), "backup.xml")
	document := fmt.Sprintf("<domainbackup mode='pull'><server transport='unix' "+
		"socket='/var/lib/libvirt/images/%s.sock'/></domainbackup>", name)

	if err := os.WriteFile(backup, []byte(document), 0o600); err != nil {
		t.Fatal(err)
	}

	l.Virsh(t, "kvm1", "backup-begin", vm.UUID, backup)

	if record, err := f.WithdrawMigration(t.Context(), vm.UUID, lastOf(vm), id); err != nil || record == nil {
		t.Errorf("%+v, %v", record, err)
	}

	l.Virsh(t, "kvm1", "backup-dumpxml", vm.UUID) // It fails if there is no backup any more.
	l.Virsh(t, "kvm1", "domjobabort", vm.UUID)
}
