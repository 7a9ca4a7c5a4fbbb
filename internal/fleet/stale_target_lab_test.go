package fleet

import (
	"slices"
	"strings"
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
	vm, nvram := secured(t, f, l)

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

// arrivedAndKilled is a VM on kvm2 that is off. A live move was killed when it had arrived there: kvm1 has its
// definition, and the disk that was made with it.
func arrivedAndKilled(
	t *testing.T, f *Fleet, l *lab.Lab,
) (vm *inventory.VM, data domain.OwnDisk, dir string) {
	t.Helper()

	dir = directory(t, l, "kvm1", "kvm2")
	pool := lab.Name(t)
	diskPool(t, l, "kvm1", pool, dir)
	diskPool(t, l, "kvm2", pool, dir)

	d := light(t, l, lab.Name(t), nil)
	d.Metadata.Host = "kvm1"
	d.Spec.Disks = map[string]domain.Disk{"data": {Source: domain.DiskSource{File: "/to/be/made"}, Format: "raw"}}
	d.OwnDisks = map[string]domain.OwnDisk{"data": {Pool: pool, Bytes: 1 << 20}}
	vm = create(t, f, l, d)
	data = vm.Metadata.OwnDisks["data"]

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

	return vm, data, dir
}

// Where a live move was killed when the VM had arrived, the source has its definition and the disks that were made with
// the VM. The VM moves back there although it is off by now, as its plan says.
func TestLab_ownDisksMoveToAStaleDefinition(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	f := labFleet(t, l, t.Name(), nil)
	vm, data, dir := arrivedAndKilled(t, f, l)

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

// Where a move was killed at its end, a destroy removes all that it left: the definition that is stale first, then the
// volumes that it used.
func TestLab_deleteRemovesWhatAKilledMoveLeft(t *testing.T) {
	t.Parallel()

	t.Run("a live move", func(t *testing.T) {
		t.Parallel()

		l := lab.Open(t)
		f := labFleet(t, l, t.Name(), nil)
		vm, _, dir := arrivedAndKilled(t, f, l)

		report, err := f.Delete(t.Context(), vm.UUID, lastOf(vm), 0)
		if err != nil || len(report.KeptDisks) > 0 {
			t.Errorf("%+v, %v", report, err)
		}

		for _, host := range []string{"kvm1", "kvm2"} {
			hasOnly(t, l, host, dir)
			noDomain(t, l, host, vm.UUID)
		}
	})

	t.Run("a cold move", func(t *testing.T) {
		t.Parallel()

		l := lab.Open(t)
		target := l.StartHost(t)
		f := labFleet(t, l, t.Name(), nil)
		vm, file, _ := copiedAndDefined(t, f, l, target)

		// It wasn't made with the VM, so it stays. Either copy may be the newer one.
		report, err := f.Delete(t.Context(), vm.UUID, lastOf(vm), 0)
		if err != nil || len(report.KeptDisks) != 1 || !strings.Contains(report.KeptDisks[0], file+" on host") {
			t.Errorf("%+v, %v", report, err)
		}

		checksum(t, l, target.Name, file)
		checksum(t, l, "kvm1", file)

		for _, host := range []string{"kvm1", target.Name} {
			noDomain(t, l, host, vm.UUID)
		}
	})
}

func noDomain(t *testing.T, l *lab.Lab, host, uuid string) {
	t.Helper()

	if all := l.Virsh(t, host, "list", "--all", "--uuid"); strings.Contains(all, uuid) {
		t.Errorf("host %s still has the VM", host)
	}
}

// What a destroy can't remove, because a host doesn't answer, or something else uses it, is told: its record goes with
// the VM.
func TestLab_deleteTellsWhatItCanNotReach(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	target := l.StartHost(t)
	f := labFleet(t, l, t.Name(), nil)
	dir := directory(t, l, "kvm1", target.Name)
	vm, file := resting(t, f, l, dir, 1, nil)
	interrupted(t, l, vm, target, file)

	vm, err := f.FindNow(t.Context(), vm.UUID, lastOf(vm))
	if err != nil {
		t.Fatal(err)
	}

	m := vm.Metadata
	m.LeftVolumes = []domain.LeftVolume{
		{Host: target.Name, HostUUID: target.HostUUID, Pool: "pool", Volume: "volume", Path: dir + "/volume"},
		{Host: "kvm2", HostUUID: l.Host("kvm2").HostUUID, Pool: lab.Name(t), Volume: "stays", Path: dir + "/stays"},
	}

	if _, err := records.WriteMetadata(t.Context(), vm, m); err != nil {
		t.Fatal(err)
	}

	restart := l.KillLibvirtd(t, target)
	defer restart()
	f.ForgetAll()

	report, err := f.Delete(t.Context(), vm.UUID, lastOf(vm), 0)
	if err != nil {
		t.Fatal(err)
	}

	told := strings.Join(report.KeptDisks, "\n")
	for _, part := range []string{
		file + " on host", dir + "/volume", dir + "/stays", `host "` + target.Name + `"`, `host "kvm2"`,
	} {
		if !strings.Contains(told, part) {
			t.Errorf("told was %q; want %q", told, part)
		}
	}
}
