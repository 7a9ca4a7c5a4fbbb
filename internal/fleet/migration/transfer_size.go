package migration

import (
	"context"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// TransferSize is what a move copies, as far as that can be told without touching a host.
type TransferSize struct {
	// Bytes is how much is copied at least, memory included if the VM runs. Most is how much it is if all of the
	// disks has to be copied that a guest can see: what the monitor's budget is for.
	Bytes, Most uint64
	// Files are those of disks that are made on the target, and how much each takes there at least.
	Files map[string]uint64
}

// EstimateTransfer is what is copied when the VM moves from the source to the target: its memory, if it runs, and the
// disks and files that go along.
func EstimateTransfer(ctx context.Context, vm VM, source, target *libvirt.Host, o Options) TransferSize {
	l := TransferSize{Files: map[string]uint64{}}
	if vm.Live() {
		l.Bytes, l.Most = vm.Mobility.Memory, vm.Mobility.Memory
	}
	for _, c := range Copies(ctx, vm, source, target, o) {
		l.Bytes += c.Bytes()
		l.Most += c.Capacity
		l.Files[c.Disk.Path] = c.Bytes()
	}
	for _, c := range CopiedFiles(ctx, vm, source, target, o) {
		l.Bytes += c.Bytes
		l.Most += c.Bytes
		if c.Disk {
			l.Files[c.Path] = c.Bytes
		}
	}
	for file, bytes := range vm.Brings {
		l.Bytes += bytes
		l.Most += bytes
		l.Files[file] = bytes
	}
	return l
}
