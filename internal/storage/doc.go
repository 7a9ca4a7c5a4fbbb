// Package storage manages what outlives VMs on the hosts' disks: storage pools, images and volumes.
//
// Questions about one host go to that host's libvirt; questions about several hosts go to all of them at the same time,
// see hostset. A pool that isn't active, or doesn't exist, says nothing about its volumes: libvirt.ErrPoolInactive and
// libvirt.ErrNoPool never mean that the volume is gone.
//
// # Images
//
// An image is fetched once, to a temporary file on the operator's side (Fetch): it is decompressed, checked and
// measured while it streams, and holes stay holes in the file. Its copies on hosts are volumes named by its content
// (Image.Volume).
//
// libvirt can't rename a volume, and a killed run can't remove one, so a copy has to show by itself whether it is
// whole. Its seal is the first chunk of the content that isn't all zeros. The upload leaves the seal out, and writes it
// when all the rest has arrived. A copy without its seal is incomplete, whatever happened to the run that created it;
// for qcow2 the seal contains the header, so that QEMU doesn't open an incomplete copy either. The next upload
// continues the copy if it is the beginning of the image, and replaces it otherwise. (An image of zeros alone has no
// seal, and no copy of it is ever incomplete.) Every operation on a copy holds a lock on its host, so that a copy that
// another run is uploading doesn't count as incomplete.
//
// Start with image.go and fetch.go (images), volume.go, and pool_apply.go (pools). Everything that depends on the type
// of a pool is in pool_kind.go.
//
// # For a VM's own disks
//
// EnsureActive, CreateVolume, Grow and Release are what the disks of a VM require of the VM's host.
//
// It may import internal/hostset, internal/libvirt and general modules. It must not know the fleet (Users of a volume
// are found in libvirt's definitions; locks are passed in as LockFunc), SSH or Terraform.
package storage
