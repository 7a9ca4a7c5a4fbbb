package fleet

import (
	"maps"
	"path"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/firstboot"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/records"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

// A volume that was made for a VM and that the VM doesn't get is removed with its record: if libvirt refuses the
// definition, if the disk is declared in another storage pool or no longer, and after the VM has moved.
func TestLab_ownDisksThatTheVMDoesNotGet(t *testing.T) {
	t.Parallel()

	// The hosts are its own: what other tests do on theirs may leave it unknown for a moment who uses a file.
	l, pool := lab.Open(t), lab.Name(t)
	home, away := l.StartHost(t).Name, l.StartHost(t).Name
	f, dir := labFleet(t, l, t.Name(), nil), directory(t, l, home, away)
	diskPool(t, l, home, pool, dir)
	diskPool(t, l, away, pool, dir)

	d := owner(t, l, "Halted", pool)
	d.Metadata.Host = home
	d.Spec.Medium = &domain.DiskSource{File: "/to/be/made"}
	seed := func(content string) {
		d.OwnDisks[domain.MediumKey] = domain.OwnDisk{Pool: pool, Content: content}
		d.CloudInit = &firstboot.NoCloud{UserData: "#!/bin/sh\necho " + content}
	}
	seed("one")

	vm := create(t, f, l, d)
	first := vm.Metadata.OwnDisks["disk0"].Path
	d.Spec.Disks["disk0"] = domain.Disk{Source: domain.DiskSource{File: first}} // As Terraform knows it.

	now, err := vm, error(nil)
	update := func() {
		t.Helper()

		if now, err = f.Update(t.Context(), vm.UUID, lastOf(now), d); now == nil {
			t.Fatal(err)
		}
	}
	has := func(paths map[string]string) {
		t.Helper()

		for key, o := range now.Metadata.OwnDisks {
			if paths[key] == "" || path.Dir(o.Path) != path.Dir(paths[key]) || o.Creating {
				t.Errorf("recorded is %s: %+v; want %v", key, o, paths)
			}
		}

		if len(now.Metadata.OwnDisks) != len(paths) || len(now.Metadata.LeftVolumes) > 0 || len(now.KeptDisks) > 0 {
			t.Errorf("recorded are %v, left %v, kept %q; want %v", now.Metadata.OwnDisks, now.Metadata.LeftVolumes,
				now.KeptDisks, paths)
		}
	}

	// libvirt refuses the whole definition. The next update may declare the disk in another way. The first medium is still
	// the VM's.
	seed("two")

	d.OwnDisks["disk1"] = domain.OwnDisk{Pool: pool, Bytes: 1 << 20}
	d.Spec.Disks["disk1"] = domain.Disk{Source: domain.DiskSource{File: "/to/be/made"}}
	d.Spec.ExtraDevices = map[string]string{"odd": "<watchdog model='none-such'/>"}

	if update(); err == nil || !strings.Contains(err.Error(), "defining domain") {
		t.Fatalf("the definition isn't refused: %v", err)
	}

	has(map[string]string{"disk0": first, domain.MediumKey: first})
	hasOnly(t, l, home, dir, first, mediumOf(now))

	if medium := now.Metadata.OwnDisks[domain.MediumKey]; medium.Content != "one" || medium.Path != mediumOf(now) {
		t.Errorf("%+v is recorded, and the VM has %s", medium, mediumOf(now))
	}

	// Killed runs began to create disks in another pool.
	other := lab.Name(t) + "-other"
	diskPool(t, l, home, other, dir)

	leave := func(key, pool string, o domain.OwnDisk) (file string) {
		t.Helper()

		f.ForgetAll()

		if now, err = f.FindNow(t.Context(), vm.UUID, inventory.LastKnown{}); err != nil {
			t.Fatal(err)
		}

		o.Pool, o.Volume, o.HostUUID = pool, key+"-half", now.HostUUID
		o.Path = dir + "/" + pool + "/" + o.Volume
		m := now.Metadata
		m.OwnDisks = maps.Clone(m.OwnDisks)
		m.OwnDisks[key] = o

		l.Virsh(t, now.Host, "vol-create-as", pool, o.Volume, "1M")

		if _, err = records.WriteMetadata(t.Context(), now, m); err != nil {
			t.Fatal(err)
		}

		return o.Path
	}

	leave("disk1", other, domain.OwnDisk{Creating: true})
	leave("disk2", other, domain.OwnDisk{Creating: true, OnDestroy: domain.OnDestroyKeep})

	d.Spec.ExtraDevices = nil
	if update(); err != nil {
		t.Error(err)
	}

	second := now.Metadata.OwnDisks["disk1"].Path
	has(map[string]string{"disk0": first, "disk1": first, domain.MediumKey: first})
	hasOnly(t, l, home, dir, first, second, mediumOf(now))

	// An update couldn't remove a disk that it took from the VM, and the VM moves. What an earlier move left on its host
	// wasn't there to be removed, and the VM has lost it since.
	lost, back := leave("disk2", pool, domain.OwnDisk{Removing: true}), leave("disk3", pool, domain.OwnDisk{})
	m := now.Metadata
	m.OwnDisks = maps.Clone(m.OwnDisks)
	delete(m.OwnDisks, "disk3")

	m.LeftVolumes = []domain.LeftVolume{{
		Host: home, HostUUID: now.HostUUID, Pool: pool, Volume: path.Base(back), Path: back,
	}}
	if _, err = records.WriteMetadata(t.Context(), now, m); err != nil {
		t.Fatal(err)
	}

	f.ForgetAll()

	if now, _, err = f.Move(t.Context(), vm.UUID, lastOf(now), away, migration.Options{}); err != nil {
		t.Fatal(err)
	}

	hasOnly(t, l, home, dir, lost)

	d.Metadata.Host = away
	d.Spec.Disks["disk1"] = domain.Disk{Source: domain.DiskSource{File: second}}

	if update(); err != nil {
		t.Error(err)
	}

	has(map[string]string{"disk0": first, "disk1": first, domain.MediumKey: first})
	hasOnly(t, l, home, dir)
	hasOnly(t, l, away, dir, first, second, mediumOf(now))

	// The VM is deleted before an update could. What has the name of the lost disk here isn't the VM's, and what another
	// VM has there stays.
	m = now.Metadata
	m.OwnDisks = maps.Clone(m.OwnDisks)

	for _, key := range []string{"disk4", "disk5"} {
		l.Virsh(t, home, "vol-create-as", pool, key, "1M")
		m.OwnDisks[key] = domain.OwnDisk{
			Pool: pool, Volume: key, Path: dir + "/" + pool + "/" + key, HostUUID: vm.HostUUID, Removing: true,
		}
	}

	if _, err = records.WriteMetadata(t.Context(), now, m); err != nil {
		t.Fatal(err)
	}

	f.ForgetAll()

	lost, used := m.OwnDisks["disk4"].Path, m.OwnDisks["disk5"].Path
	l.Virsh(t, away, "vol-create-as", pool, path.Base(lost), "1M")
	l.Define(t, home, `<domain type="qemu"><name>`+vm.Name+`-other</name><memory unit="MiB">32</memory>
		<os><type arch="x86_64">hvm</type></os>
		<devices><disk type="file"><source file="`+used+`"/><target dev="vda" bus="virtio"/></disk></devices></domain>`)

	if now, err = f.Find(t.Context(), vm.UUID, lastOf(now)); err != nil {
		t.Fatal(err)
	}

	told := strings.Join(f.Removal(t.Context(), now, nil).Deleted, "\n")
	if !strings.Contains(told, lost+` on host "`+home+`"`) {
		t.Errorf("the plan tells of %q; want %s", told, lost)
	}

	// What the definition has lost is looked for where it was made.
	silent, gone := domain.OwnDisk{Pool: pool, Volume: "disk6", Path: dir + "/" + pool + "/disk6"}, m.OwnDisks["disk4"]
	gone.Volume, gone.Path, silent.HostUUID = "disk7", dir+"/"+pool+"/disk7", "no host that answers"

	stays := f.Removal(t.Context(), now, map[string]domain.OwnDisk{"4": m.OwnDisks["disk4"], "6": silent, "7": gone}).Lost
	if len(stays) != 2 || !strings.Contains(stays[0], lost+` on host "`+home+`" (`) ||
		!strings.Contains(stays[1], silent.Path) || !strings.Contains(stays[1], "if it is still there") {
		t.Errorf("the plan says that %q stays", stays)
	}

	report, err := f.Delete(t.Context(), vm.UUID, lastOf(now), 0)
	if err != nil || len(report.KeptDisks) != 1 || !strings.Contains(report.KeptDisks[0], used) {
		t.Errorf("deleting it: %+v, %v", report, err)
	}

	hasOnly(t, l, home, dir, used)
	hasOnly(t, l, away, dir, lost)
}
