package storage

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// A volume is what a killed run has left only if nothing about it says otherwise: one with data is never removed.
func TestBegun_matches(t *testing.T) {
	t.Parallel()
	thin := Disk{Format: "qcow2", Bytes: 1 << 30}
	clone := Disk{Format: "raw", Bytes: 1 << 30, Clone: &Ref{Pool: "p", Name: "seed"}}
	misread := Disk{Format: "raw", Bytes: 1 << 30, Clone: &Ref{Pool: "p", Name: "seed"}, misread: 1 << 20}
	seed := &libvirt.Volume{CapacityBytes: 1 << 20}
	empty := libvirt.Volume{Format: "qcow2", CapacityBytes: 1 << 30, AllocationBytes: 200 << 10}
	with := func(change func(*libvirt.Volume)) libvirt.Volume {
		v := empty
		change(&v)
		return v
	}
	for name, c := range map[string]struct {
		disk   Disk
		source *libvirt.Volume
		is     libvirt.Volume
		want   bool
	}{
		"as created":        {disk: thin, is: empty, want: true},
		"with data":         {disk: thin, is: with(func(v *libvirt.Volume) { v.AllocationBytes = 100 << 20 })},
		"of another size":   {disk: thin, is: with(func(v *libvirt.Volume) { v.CapacityBytes-- })},
		"rounded up":        {disk: thin, is: with(func(v *libvirt.Volume) { v.CapacityBytes += extent - 1 }), want: true},
		"larger":            {disk: thin, is: with(func(v *libvirt.Volume) { v.CapacityBytes += extent })},
		"of another format": {disk: thin, is: with(func(v *libvirt.Volume) { v.Format = "raw" })},
		"encrypted":         {disk: thin, is: with(func(v *libvirt.Volume) { v.Encrypted = true })},
		"a clone": {
			disk: clone, source: seed, want: true,
			is: libvirt.Volume{Format: "raw", CapacityBytes: 1 << 30, AllocationBytes: 1 << 29},
		},
		"a clone not grown": {
			disk: clone, source: seed, want: true,
			is: libvirt.Volume{Format: "raw", CapacityBytes: 1 << 20},
		},
		"a clone that begins like an image": {
			disk: misread, source: seed, want: true,
			is: libvirt.Volume{Type: "file", Format: "qcow2", CapacityBytes: 1 << 19, PhysicalBytes: 1 << 30},
		},
		"a file that is no such clone": {
			disk: clone, source: seed,
			is: libvirt.Volume{Type: "file", Format: "qcow2", CapacityBytes: 1 << 19, PhysicalBytes: 1 << 30},
		},
		// libvirt reports no format of it.
		"a logical volume": {
			disk: Disk{Format: "raw", Bytes: 1 << 30, Preallocation: PreallocationFull}, want: true,
			is: libvirt.Volume{Type: "block", CapacityBytes: 1 << 30, AllocationBytes: 1 << 30},
		},
		"a partition of a type": {
			disk: Disk{Format: "linux", Bytes: 1 << 30, Preallocation: PreallocationFull}, want: true,
			is: libvirt.Volume{Type: "block", Format: "raw", CapacityBytes: 1 << 30, AllocationBytes: 1 << 30},
		},
		"no format, and not raw": {disk: thin, is: with(func(v *libvirt.Volume) { v.Format = "" })},
		"a smaller raw file":     {disk: clone, source: seed, is: libvirt.Volume{Format: "raw", CapacityBytes: 1 << 19}},
	} {
		if got := newBegun(c.disk, c.source).matches(c.is); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
	for name, began := range map[string]time.Time{
		"unknown": {}, "long ago": time.Now().Add(-2 * recordAge), "in the future": time.Now().Add(2 * recordAge),
	} {
		b := newBegun(thin, nil)
		if b.Began = began; b.isRecent() {
			t.Errorf("a record from a time that is %s still counts", name)
		}
		// A creation that takes longer than that ends when its run gives up.
		if b.GivenUp = time.Now(); !b.isRecent() {
			t.Errorf("a record from a time that is %s, and that was renewed, doesn't count", name)
		}
	}
}

// TestLeavesVolume: the record of a volume that libvirt has created stays if a later step fails, whatever the reason:
// also if its pool was stopped meanwhile.
func TestLeavesVolume(t *testing.T) {
	t.Parallel()
	refused := fmt.Errorf("the pool: %w", libvirt.ErrPoolInactive)
	for name, c := range map[string]struct {
		created bool
		err     error
		want    bool
	}{
		"whole":                   {created: true},
		"refused":                 {err: refused},
		"there already":           {err: libvirt.ErrExists},
		"broken off":              {err: libvirt.ErrUnreachable, want: true},
		"the pool was stopped":    {created: true, err: errors.Join(refused, refused), want: true},
		"a later step broken off": {created: true, err: libvirt.ErrUnreachable, want: true},
	} {
		if got := leavesVolume(c.created, c.err); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
