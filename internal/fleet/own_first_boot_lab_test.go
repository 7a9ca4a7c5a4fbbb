package fleet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/firstboot"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/placement"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/records"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

// seeded is a wish for a VM on kvm1, off, with a medium of that content.
func seeded(t *testing.T, l *lab.Lab, pool, content string) placement.Desired {
	t.Helper()

	d := owner(t, l, "Halted")
	d.Spec.Medium = &domain.DiskSource{File: "/to/be/made"}
	d.OwnDisks[domain.MediumKey] = domain.OwnDisk{Pool: pool, Content: content}
	d.CloudInit = &firstboot.NoCloud{UserData: "#!/bin/sh\necho " + content}

	return d
}

// mediumOf is the file in the VM's drive.
func mediumOf(vm *inventory.VM) string { return vm.PersistentSpec.Disks[domain.MediumKey].Source.File }

// Broken off anywhere in between, the next apply has the VM with the medium that it is to have, and one volume.
func TestLab_mediumBrokenOff(t *testing.T) {
	t.Parallel()

	l, f, pool, dir := withPool(t, "kvm1")

	d := seeded(t, l, pool, "one")
	l.RemoveDomain(t, d.Spec.Name)

	// Half of the medium is there, from a run that was killed while it sent it.
	id := leaveCreating(t, l, d, "kvm1")

	vm, err := f.FindNow(t.Context(), id, inventory.LastKnown{})
	if err != nil {
		t.Fatal(err)
	}

	metadata := vm.Metadata
	medium := metadata.OwnDisks[domain.MediumKey]
	file := medium.Path
	medium.Creating = true
	metadata.OwnDisks[domain.MediumKey] = medium

	if _, err := records.WriteMetadata(t.Context(), vm, metadata); err != nil {
		t.Fatal(err)
	}

	l.Run(t, "kvm1", "sh", "-c", "rm "+file+"; echo half > "+file)

	vm = create(t, f, l, d)
	if vm.UUID != id || mediumOf(vm) != file || vm.Metadata.OwnDisks[domain.MediumKey].Creating {
		t.Errorf("the VM is %s with medium %s", vm.UUID, mediumOf(vm))
	}

	if media := f.Removal(t.Context(), vm, nil).Media; len(media) != 1 || !strings.Contains(media[0], file) {
		t.Errorf("media that are deleted with the VM: %q", media)
	}

	has := func(content string) {
		t.Helper()

		files := filesOn(t, l, "kvm1", dir)
		if len(files) != 1 || files[0] != mediumOf(vm) {
			t.Fatalf("there are %q; want %s", files, mediumOf(vm))
		}

		if out := l.Run(t, "kvm1", "sh", "-c", "tr -d '\\0' <"+files[0]); !strings.Contains(out, "echo "+content) ||
			!strings.Contains(out, id) {
			t.Errorf("the medium has %q; want %q and the VM's id", out, content)
		}

		if mode := l.Run(t, "kvm1", "stat", "-c", "%a", files[0]); strings.TrimSpace(mode) != "600" {
			t.Errorf("its mode is %s", mode)
		}
	}
	has("one")

	apply := func(d placement.Desired) {
		t.Helper()

		if vm, err = f.Update(t.Context(), id, lastOf(vm), d); err != nil {
			t.Fatal(err)
		}
	}

	// Another medium, broken off when it was made and the drive had the first one still.
	d = seeded(t, l, pool, "two")

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()

	listen(f, &onLog{Message: "changing definition", Do: cancel})

	if now, err := f.Update(ctx, id, lastOf(vm), d); !errors.Is(err, context.Canceled) {
		t.Fatalf("broken off: %+v, %v", now, err)
	}

	if files := filesOn(t, l, "kvm1", dir); len(files) != 2 {
		t.Errorf("there are %q; want two", files)
	}

	apply(d)
	has("two")
	apply(d)
	has("two")

	// Disks that aren't declared are left alone, and so is a medium that isn't.
	d.Spec.Disks, d.Spec.Medium, d.CloudInit = nil, nil, nil
	delete(d.OwnDisks, domain.MediumKey)
	apply(d)
	has("two")

	// A medium that an interrupted run began to create, and that isn't declared any more, isn't created: it goes.
	metadata = vm.Metadata
	metadata.OwnDisks = maps.Clone(metadata.OwnDisks)
	medium = metadata.OwnDisks[domain.MediumKey]
	medium.Creating = true
	metadata.OwnDisks[domain.MediumKey] = medium

	if _, err := records.WriteMetadata(t.Context(), vm, metadata); err != nil {
		t.Fatal(err)
	}

	d.Spec.Medium = &domain.DiskSource{}

	// An update that is broken off once the volume is gone has removed its record, too.
	ctx, cancel = context.WithCancel(t.Context())
	defer cancel()

	listen(f, &onLog{Message: "record of a disk removed", Do: cancel})

	now, err := f.Update(ctx, id, lastOf(vm), d)
	if !errors.Is(err, context.Canceled) || now == nil || len(now.Metadata.OwnDisks) > 0 {
		t.Errorf("broken off when the medium was gone: %+v, %v", now, err)
	}

	apply(d)

	if drive, there := vm.PersistentSpec.Disks[domain.MediumKey]; !there || drive.Source != (domain.DiskSource{}) {
		t.Errorf("its drive is %+v", drive)
	}

	nothingOn(t, l, "kvm1", dir+"/"+pool+"/*")

	if len(vm.Metadata.OwnDisks) > 0 {
		t.Errorf("recorded are %q", slices.Collect(maps.Keys(vm.Metadata.OwnDisks)))
	}
}

// A medium that another definition has stays when its VM goes, and a creation that fails leaves none.
func TestLab_mediumOfOthers(t *testing.T) {
	t.Parallel()

	l, f, pool, dir := withPool(t, "kvm1")

	d := seeded(t, l, pool, "one")
	d.Metadata.RunStrategy, d.Spec.Kernel.Path = "Always", dir+"/kernel" // It isn't there, so it doesn't start.
	l.RemoveDomain(t, d.Spec.Name)

	if vm, err := f.Create(t.Context(), d); err == nil || vm != nil {
		t.Fatalf("creating it without its kernel: %+v, %v", vm, err)
	}

	nothingOn(t, l, "kvm1", dir+"/"+pool+"/*")

	vm := create(t, f, l, seeded(t, l, pool, "one"))
	file, name := mediumOf(vm), lab.Name(t)+"-other"
	l.RemoveDomain(t, name)
	l.Define(t, "kvm1", fmt.Sprintf(`<domain type="qemu"><name>%s</name><memory>1024</memory><os><type>hvm</type></os>
		<devices><disk type="file" device="cdrom"><source file="%s"/><target dev="sda" bus="sata"/></disk></devices>
		</domain>`, name, file))

	report, err := f.Delete(t.Context(), vm.UUID, lastOf(vm), 0)
	if said := fmt.Sprint(report.KeptDisks); err != nil || !strings.Contains(said, "cloud-init medium") ||
		!strings.Contains(said, name) {
		t.Errorf("deleting it: %+v, %v", report, err)
	}

	if files := filesOn(t, l, "kvm1", dir); !slices.Equal(files, []string{file}) {
		t.Errorf("there are %q; want %s", files, file)
	}
}

// A VM that lacks its medium and whose QEMU hangs is forced off all the same.
func TestLab_hungVMWithoutItsMediumIsForcedOff(t *testing.T) {
	t.Parallel()

	l, pool := lab.Open(t), lab.Name(t)
	on := l.StartHost(t) // On a shared one, whoever looks who uses a file would wait for its drive.
	f := labFleet(t, l, t.Name(), nil)
	diskPool(t, l, on.Name, pool, directory(t, l, on.Name))

	d := seeded(t, l, pool, "one")
	d.Metadata.Host, d.Metadata.RunStrategy = on.Name, "Always"
	vm := create(t, f, l, d)

	l.Run(t, on.Name, "sh", "-c", fmt.Sprintf("virsh change-media %[1]s --eject --live --force "+
		"$(virsh -q domblklist --details %[1]s | awk '/cdrom/ {print $3}')", vm.UUID))

	if err := on.FreezeQEMU(t.Context(), vm.Name); err != nil {
		t.Fatal(err)
	}

	d.Metadata.RunStrategy, d.Metadata.TerminationGracePeriod = "Halted", new(time.Second)

	now, err := f.Update(t.Context(), vm.UUID, lastOf(vm), d)
	if err != nil || now.Active {
		t.Errorf("forcing it off: %+v, %v", now, err)
	}
}
