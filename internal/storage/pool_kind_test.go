package storage

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestKinds_guide: the guide to storage pools has a row of each table for every type, and says what the table of kinds
// says.
func TestKinds_guide(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile(filepath.Join("..", "..", "templates", "guides", "storage-pools.md"))
	if err != nil {
		t.Fatal(err)
	}
	choose, rest, ok := strings.Cut(string(guide), "A VM can also use existing volumes")
	used, needed, okNeeds := strings.Cut(rest, "## What each type needs")
	_, stopped, okStops := strings.Cut(needed, "when the pool stops")
	if !ok || !okNeeds || !okStops {
		t.Fatal("the guide has other parts")
	}
	for _, k := range kinds {
		row := rowOf(choose, k.name)
		if len(row) != 5 {
			t.Errorf("%s: the guide has the row %q", k.name, row)
			continue
		}
		own := Pool{Type: k.name, Path: new("/p"), SourceName: new("vms")}.VolumePath("v") != ""
		if (row[2] == "yes") != own || (row[4] == "always") != k.shared || k.images && row[3] != "create" {
			t.Errorf("%s: the guide says %q, the kind is %+v", k.name, row, k)
		}
		if use := rowOf(used, k.name); len(use) != 2 || strings.Contains(use[1], "`network`") != (k.protocol != "") {
			t.Errorf("%s: the guide says %q, the protocol is %q", k.name, use, k.protocol)
		}
		needs := rowOf(needed, k.name)
		for _, attribute := range k.requires {
			if !strings.Contains(strings.Join(needs, " "), "`"+attribute+"`") {
				t.Errorf("%s: the guide says %q, and not that it needs %s", k.name, needs, attribute)
			}
		}
		// The guide has a row for the virtual adapters of scsi as well.
		if losing := rowOf(stopped, k.name) != nil; losing != k.losesVolumes && k.name != "scsi" {
			t.Errorf("%s: the guide says something else of what running VMs notice when the pool stops", k.name)
		}
		if len(k.requires) == 0 && !k.nameIsSource {
			t.Errorf("%s: neither its source nor what it requires is known", k.name)
		}
	}
}

// rowOf returns the cells of a table's row whose first cell names a type.
func rowOf(text, poolType string) []string {
	for _, line := range strings.Split(text, "\n") {
		cells := regexp.MustCompile(`\s*\|\s*`).Split(strings.Trim(line, " |"), -1)
		if len(cells) > 1 && strings.Contains(cells[0], "`"+poolType+"`") {
			return cells
		}
	}
	return nil
}

// TestKinds_combinations: what follows from one property of a type is true of each type.
func TestKinds_combinations(t *testing.T) {
	t.Parallel()
	for _, k := range kinds {
		for rule, holds := range map[string]bool{
			"files are in a directory of their own, and of any format": !k.files || k.ownDirectory && k.anyFormat,
			"files are in target.path":                                 !k.files || slices.Contains(k.requires, "target.path"),
			"what libvirt unmounts is lost":                            !k.mounts || k.losesVolumes,
			"files that are the same everywhere are shared":            !k.sameFiles || k.shared,
			"what stays was there before":                              !k.staying || k.existing,
			"what is removed with its data can be removed":             !k.removesData || k.removable,
			"what can be removed is in a directory of its own":         !k.removable || k.ownDirectory,
			"what occupies all its space is a device":                  !k.thick || k.devices,
			"images are created":                                       !k.images || !k.existing,
			"what QEMU fills is created and raw":                       !k.filled || !k.existing && !k.anyFormat,
			"a type that is called like its pool doesn't require the name": !k.nameIsSource ||
				!slices.Contains(k.requires, "source.name"),
		} {
			if !holds {
				t.Errorf("%s: %s", k.name, rule)
			}
		}
	}
	if k := kindOf("tape"); k.name != "" || k.shared || k.files {
		t.Errorf("an unknown type is %+v", k)
	}
	if Protocol("sheepdog") != "sheepdog" || !SameFiles("vstorage") || slices.Contains(PoolTypes(), "vstorage") {
		t.Error("a type that can't be declared isn't known, or can be declared")
	}
}

// TestPool_checkVolume: libvirt creates what is asked for, or it is refused before libvirt makes something else of it.
func TestPool_checkVolume(t *testing.T) {
	t.Parallel()
	ref := &Ref{Pool: "other", Name: "base"}
	for _, tt := range []struct {
		disk    Disk
		refused []string
	}{
		{Disk{}, []string{"iscsi", "iscsi-direct", "gluster", "scsi", "mpath"}},
		{Disk{Clone: ref}, []string{"iscsi", "iscsi-direct", "gluster", "scsi", "mpath", "zfs"}},
		{Disk{Overlay: ref}, []string{"iscsi", "iscsi-direct", "gluster", "scsi", "mpath", "rbd", "zfs", "logical", "disk"}},
		{Disk{Preallocation: "full"}, []string{"iscsi", "iscsi-direct", "gluster", "scsi", "mpath"}},
		{Disk{Preallocation: "off"}, []string{"iscsi", "iscsi-direct", "gluster", "scsi", "mpath", "logical"}},
		{Disk{Format: "raw"}, []string{"iscsi", "iscsi-direct", "gluster", "scsi", "mpath"}},
		{
			Disk{Format: "qcow2"},
			[]string{"iscsi", "iscsi-direct", "gluster", "scsi", "mpath", "rbd", "zfs", "logical", "disk"},
		},
		{
			Disk{Format: "linux-lvm"}, []string{"iscsi", "iscsi-direct", "gluster", "scsi", "mpath", "rbd", "zfs", "logical"},
		},
	} {
		for _, name := range PoolTypes() {
			err := (Pool{Name: "p", Type: name}).CheckVolume(tt.disk)
			if (err != nil) != slices.Contains(tt.refused, name) {
				t.Errorf("%+v in a pool of type %s: %v", tt.disk, name, err)
			}
		}
	}
}

// TestPool_checkImage: images go where libvirt creates volumes under any name, as raw ones where it knows no others.
func TestPool_checkImage(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		pool, format string
		ok           bool
	}{
		{"dir", "qcow2", true},
		{"logical", "raw", true},
		{"logical", "qcow2", false},
		{"disk", "raw", false}, // Its volumes are partitions, which have names of their own.
		{"rbd", "raw", false},
		{"mpath", "raw", false},
	} {
		if err := (Pool{Name: "p", Type: tt.pool}).CheckImage(tt.format); (err == nil) != tt.ok {
			t.Errorf("%s in a pool of type %s: %v", tt.format, tt.pool, err)
		}
	}
}
