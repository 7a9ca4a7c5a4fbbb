package fleet

import (
	"slices"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/move"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/records"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// A VM that a user moved without its definition's removal, and that was switched off since, moves back: what it left
// there goes first, with the variables of its firmware and its TPM's state.
func TestLab_coldMoveToAStaleDefinition(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	f := labFleet(t, l, t.Name(), nil)
	vm, nvram := secured(t, f, l, "noagent")

	if err := f.Host("kvm1").Conn.Migrate(t.Context(), vm.UUID, f.Host("kvm2").Conn, libvirt.Migration{
		KeepSource: true,
	}); err != nil {
		t.Fatal(err)
	}

	l.Virsh(t, "kvm2", "destroy", vm.UUID)
	f.ForgetAll()

	now, err := f.FindNow(t.Context(), vm.UUID, lastOf(vm))
	if err != nil || now.Host != "kvm2" || !slices.Equal(now.StaleHosts, []string{"kvm1"}) {
		t.Fatalf("%+v, %v", now, err)
	}

	checksum(t, l, "kvm1", nvram) // They are there.
	movesCold(t, f, l, vm.UUID, "kvm2", "kvm1", nvram)
}

// Where a live move was killed when the VM had arrived, the source has its definition and the disks that were made with
// the VM. The VM moves back there although it is off by now, as its plan says.
func TestLab_ownDisksMoveToAStaleDefinition(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	f := labFleet(t, l, t.Name(), nil)
	dir := directory(t, l, "kvm1", "kvm2")
	pool := lab.Name(t)
	diskPool(t, l, "kvm1", pool, dir)
	diskPool(t, l, "kvm2", pool, dir)

	d := light(t, l, lab.Name(t), nil)
	d.Metadata.Host = "kvm1"
	d.Spec.Disks = map[string]domain.Disk{"data": {Source: domain.DiskSource{File: "/to/be/made"}, Format: "raw"}}
	d.OwnDisks = map[string]domain.OwnDisk{"data": {Pool: pool, Bytes: 1 << 20}}
	vm := create(t, f, l, d)
	data := vm.Metadata.OwnDisks["data"]

	leaveRecord(t, f, vm, data.Path)

	vm, err := f.FindNow(t.Context(), vm.UUID, lastOf(vm))
	if err != nil {
		t.Fatal(err)
	}

	m := vm.Metadata
	m.LeftVolumes = vm.Leaving([]string{data.Path})

	if _, err := records.WriteMetadata(t.Context(), vm, m); err != nil {
		t.Fatal(err)
	}

	l.Run(t, "kvm2", "qemu-img", "create", "-q", "-f", "raw", data.Path, "1M")
	l.Virsh(t, "kvm1", "migrate", "--live", "--persistent", "--copy-storage-inc", "--migrate-disks", "vda", vm.Name,
		l.Host("kvm2").SocketURI())
	l.Run(t, "kvm2", "sh", "-c", "printf mark | dd of="+data.Path+" conv=notrunc status=none") // For its guest.
	l.Virsh(t, "kvm2", "destroy", vm.UUID)
	f.ForgetAll()

	problems, err := f.CheckMove(t.Context(), move.Order{UUID: vm.UUID, Last: lastOf(vm), Target: "kvm1"}, nil)
	if err != nil || slices.ContainsFunc(problems, func(p inventory.Problem) bool { return !p.Warning }) {
		t.Errorf("checking the move: %+v, %v", problems, err)
	}

	now, _, err := f.Move(t.Context(), vm.UUID, lastOf(vm), "kvm1", migration.Options{})
	if err != nil || now.Host != "kvm1" || len(now.Metadata.LeftVolumes)+len(now.Metadata.Copies) > 0 {
		t.Fatalf("%+v, %v", now, err)
	}

	onlyOn(t, f, vm.UUID, "kvm1")
	hasOnly(t, l, "kvm1", dir, data.Path)
	hasOnly(t, l, "kvm2", dir)

	if got := l.Run(t, "kvm1", "head", "-c", "4", data.Path); got != "mark" {
		t.Errorf("the disk begins with %q", got)
	}
}
