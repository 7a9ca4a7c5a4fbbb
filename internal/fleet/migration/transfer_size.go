package migration

import (
	"context"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// TransferSize is how much a move copies, as far as known without touching a host.
type TransferSize struct {
	// Bytes is how much is copied at least, memory included if the VM runs. Most is how much is copied if the disks are
	// full as the guest sees them. The monitor's budget depends on Most.
	Bytes, Most uint64
	// Files are the files of disks that are made on the target, with the room that each requires at least.
	Files map[string]uint64
	// Growth is what each of Files may grow to.
	Growth map[string]uint64
}

// EstimateTransfer estimates what is copied when the VM moves from the source to the target: its memory, if it runs,
// and its disks and files.
func EstimateTransfer(ctx context.Context, vm VM, source, target *libvirt.Host, o Options) TransferSize {
	l := TransferSize{Files: map[string]uint64{}, Growth: map[string]uint64{}}
	if vm.Live() {
		l.Bytes, l.Most = vm.Mobility.Memory, vm.Mobility.Memory
	}
	for _, c := range Copies(ctx, vm, source, target, o) {
		l.Bytes += c.Bytes()
		l.Most += c.Capacity
		l.Files[c.Disk.Path], l.Growth[c.Disk.Path] = c.Bytes(), c.Capacity
	}
	for _, c := range CopiedFiles(ctx, vm, source, target, o) {
		l.Bytes += c.Bytes
		l.Most += c.Bytes
		if c.Disk {
			l.Files[c.Path], l.Growth[c.Path] = c.Bytes, max(c.Bytes, c.Capacity)
		}
	}
	for file, bytes := range vm.BaseImages {
		l.Bytes += bytes
		l.Most += bytes
		l.Files[file], l.Growth[file] = bytes, bytes
	}
	return l
}
