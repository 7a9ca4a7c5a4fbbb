package migration

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// Which disks are taken along: images that one VM writes to, if that is wanted at all.
func TestOptions_copiesImages(t *testing.T) {
	t.Parallel()
	m := VM{Mobility: facts(t, "", `<disk type='file'><source file='/a'/><target dev='vda'/></disk>`+
		`<disk type='file'><source file='/b'/><target dev='vdb'/><readonly/></disk>`+
		`<disk type='file'><source file='/c'/><target dev='vdc'/><shareable/></disk>`+
		`<disk type='file' device='cdrom'><source file='/d'/><target dev='sda'/></disk>`+
		`<disk type='file' device='floppy'><source file='/e'/><target dev='fda'/></disk>`+
		`<disk type='block'><source dev='/dev/f'/><target dev='vdd'/></disk>`+
		`<disk type='network'><source protocol='nbd' name='g'/><target dev='vde'/></disk>`+
		`<disk type='volume'><source pool='p' volume='h'/><target dev='vdf'/></disk>`)}
	for mode, want := range map[string][]string{"": nil, CopyNone: nil, CopyFull: {"vda"}, CopyIncremental: {"vda"}} {
		var got []string
		for _, disk := range m.Mobility.Disks {
			if (Options{CopyStorage: mode}).copiesDisk(disk) {
				got = append(got, disk.Target)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q: copied disks differ (-want +got):\n%s", mode, diff)
		}
		// What isn't copied stays.
		all := slices.Concat(got, (Options{CopyStorage: mode}).StayingImages(m.Mobility))
		if diff := cmp.Diff([]string{"vda"}, all); diff != "" {
			t.Errorf("%q: images differ (-want +got):\n%s", mode, diff)
		}
	}
}

func TestCopiable_refusesWhatACopyWouldNotBe(t *testing.T) {
	t.Parallel()
	left := []domain.Copy{
		{Path: "/left"},
		{Path: "/e", Creating: true, Bytes: 4711},
		{Path: "/f", Creating: true, Bytes: 4711},
		{Path: "/g", Creating: true, Bytes: 4711},
		{Path: "/i", Creating: true, Bytes: 1 << 20},
		{Path: "/j", Creating: true, Bytes: 1 << 20},
		{Path: "/k", Creating: true, Bytes: 1 << 20},
		{Path: "/l", Creating: true, Bytes: 1 << 20},
		{Path: "/m", Creating: true, Bytes: 1 << 20},
		{Path: "/n", Creating: true, Bytes: 1 << 20},
	}
	const encryption = `<encryption format='luks'>` +
		`<secret type='passphrase' uuid='5a1bb6ff-3f0b-4c5e-9d3a-000000000001'/></encryption>`
	m := VM{Unfinished: left, Mobility: facts(t, "",
		`<disk type='file'><driver type='qcow2'/><source file='/a'><encryption format='luks'/></source>`+
			`<target dev='vda'/></disk>`+
			`<disk type='file'><driver type='vmdk'/><source file='/b'/><target dev='vdb'/></disk>`+
			`<disk type='file'><driver type='raw'/><source file='/c'/><target dev='vdc'/></disk>`+
			`<disk type='file'><driver type='raw'/><source file='/d'/><target dev='vdd'/></disk>`+
			`<disk type='file'><driver type='raw'/><source file='/left'/><target dev='vde'/></disk>`+
			`<disk type='file'><driver type='raw'/><source file='/e'/><target dev='vdf'/></disk>`+
			`<disk type='file'><driver type='raw'/><source file='/f'/><target dev='vdg'/></disk>`+
			`<disk type='file'><driver type='raw'/><source file='/g'/><target dev='vdh'/></disk>`+
			`<disk type='file'><driver type='qcow2'/><source file='/h'>`+encryption+`</source><target dev='vdi'/></disk>`+
			`<disk type='file'><driver type='qcow2'/><source file='/i'/><target dev='vdj'/></disk>`+
			`<disk type='file'><driver type='qcow2'/><source file='/j'/><target dev='vdk'/></disk>`+
			`<disk type='file'><driver type='raw'/><source file='/k'>`+encryption+`</source><target dev='vdl'/></disk>`+
			`<disk type='file'><driver type='raw'/><source file='/l'>`+encryption+`</source><target dev='vdm'/></disk>`+
			`<disk type='file'><driver type='qcow2'/><source file='/m'>`+encryption+`</source><target dev='vdn'/></disk>`+
			`<disk type='file'><driver type='qcow2'/><source file='/n'>`+encryption+`</source><target dev='vdo'/></disk>`+
			`<disk type='file'><driver type='qcow2'/><source file='/2024'>`+encryption+`</source><target dev='vdp'/></disk>`)}
	target, err := libvirt.Open(libvirt.Config{Name: "kvm2", URI: "test:///default"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = target.Close() })
	to := preflight{vm: m, target: target}
	there := map[string]*libvirt.Volume{
		"/d": {}, "/left": {}, "/e": {Type: "file", PhysicalBytes: 4711},
		"/f": {Type: "file", PhysicalBytes: 4711, AllocationBytes: 4096}, // Something is in it.
		"/g": {Type: "file", PhysicalBytes: 4712},
		"/i": {Type: "file", Format: "qcow2", CapacityBytes: 1 << 20, PhysicalBytes: 196616, AllocationBytes: 200704},
		"/j": {Type: "file", Format: "qcow2", CapacityBytes: 1 << 20, PhysicalBytes: 327680}, // Something is in it.
		"/k": {
			Type: "file", Format: "raw", Encrypted: true, CapacityBytes: 1 << 20, PhysicalBytes: 3117056,
			AllocationBytes: 262144,
		},
		"/l": { // Something is in it.
			Type: "file", Format: "raw", Encrypted: true, CapacityBytes: 1 << 20, PhysicalBytes: 3117056,
			AllocationBytes: 266240,
		},
		"/m": {Type: "file", Format: "qcow2", Encrypted: true, CapacityBytes: 1 << 20, PhysicalBytes: 2359296},
		"/n": { // Something is in it.
			Type: "file", Format: "qcow2", Encrypted: true, CapacityBytes: 1 << 20, PhysicalBytes: 2490368,
		},
	}
	var f blockerList
	var fine []string
	for _, disk := range m.Mobility.Disks {
		if to.checkImageCopy(t.Context(), &f, disk, there[disk.Path]) {
			fine = append(fine, disk.Target)
		}
	}
	if diff := cmp.Diff([]string{"vdc", "vde", "vdf", "vdi", "vdj", "vdl", "vdn"}, fine); diff != "" {
		t.Errorf("copied disks differ (-want +got):\n%s", diff)
	}
	want := []string{
		DisksNotLiveMigratable + " False", DisksNotLiveMigratable + " False", DiskPathTaken + " False",
		DiskPathTaken + " False", DiskPathTaken + " False", DiskPathTaken + " False", DiskPathTaken + " False",
		DiskPathTaken + " False", DisksNotLiveMigratable + " False",
	}
	if diff := cmp.Diff(want, reasons(f)); diff != "" {
		t.Errorf("blockers differ (-want +got):\n%s", diff)
	}
}

func TestShared_takesProof(t *testing.T) {
	t.Parallel()
	at := func(pool, changed string, capacity uint64) *libvirt.Volume {
		return &libvirt.Volume{PoolType: pool, Changed: changed, CapacityBytes: capacity}
	}
	for name, tt := range map[string]struct {
		here, there *libvirt.Volume
		want        bool
	}{
		"no pool here":             {nil, at("netfs", "1.5", 1), false},
		"no pool there":            {at("netfs", "1.5", 1), nil, false},
		"network filesystem":       {at("netfs", "1.5", 1), at("netfs", "1.6", 1), true},
		"of another size":          {at("netfs", "1.5", 1), at("netfs", "1.5", 2), false},
		"directories":              {at("dir", "1.5", 1), at("dir", "1.6", 1), false},
		"changed at the same time": {at("dir", "1.5", 1), at("dir", "1.5", 1), true},
		"times unknown":            {at("dir", "", 1), at("dir", "", 1), false},
	} {
		if got := isShared(tt.here, tt.there); got != tt.want {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}

func TestRoomIn_blocksWhatCannotFit(t *testing.T) {
	t.Parallel()
	target, err := libvirt.Open(libvirt.Config{Name: "kvm2", URI: "test:///default"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = target.Close() })
	copies := []DiskCopy{{Capacity: 10, Used: 3}, {Capacity: 10, Used: 2}}
	for available, want := range map[uint64][]string{
		4: {InsufficientStorage + " False"}, 5: {InsufficientStorage + " Unknown"}, 20: nil,
	} {
		var f blockerList
		vm := VM{PoolAt: func(context.Context, bool, string) string { return "vms" }}
		preflight{vm: vm, target: target}.checkCopiesFitIn(t.Context(), &f, "disks.a", available, "/srv", copies)
		for _, b := range f { // libvirt's number is that of its last look at the pool.
			if !strings.Contains(b.Remedy, "virsh pool-refresh vms\" on host \"kvm2\"") {
				t.Errorf("with %d bytes, the remedy is %s", available, b.Remedy)
			}
		}
		if diff := cmp.Diff(want, reasons(f)); diff != "" {
			t.Errorf("with %d bytes (-want +got):\n%s", available, diff)
		}
	}
}
