// Package storage keeps what outlives VMs on the hosts' disks: storage pools, images and volumes.
//
// What is asked of one host goes to that host's libvirt; what concerns several goes to all of them at the same time,
// as hostset has it. A pool that isn't active, or isn't there, says nothing about its volumes: libvirt.ErrPoolInactive
// and libvirt.ErrNoPool are never "the volume is gone".
//
// # Images
//
// An image is fetched once, to a temporary file on the operator's side (Fetch): decompressed, checked and measured
// while it streams, holes kept. Its copies on hosts are volumes named by its content (Image.Volume).
//
// libvirt can't rename a volume, and a killed run can't remove one, so a copy has to show by itself whether it is
// whole: the first chunk of the content that isn't all zeros, its seal, is left out of the upload and written when all
// the rest has arrived. A copy whose seal isn't there is half, whatever happened to the run that made it; for qcow2
// the seal holds the header, so that QEMU doesn't open half a copy either. The next upload replaces it. (An image of
// zeros alone has no seal, and no copy of it is ever half.) Everything about a copy happens under a lock on its host,
// so that what another run is uploading just now is not taken for half.
//
// # For a VM's own disks
//
// EnsureActive, CreateVolume, Grow and Release are what the disks of a VM need of the host it is placed on.
//
// It may import internal/hostset, internal/libvirt and general modules. It must not know the fleet (Users of a volume
// are found in the definitions that libvirt has; locks are handed in as LockFunc), SSH or Terraform.
package storage
