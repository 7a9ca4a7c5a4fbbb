// Package guest builds the small Linux that the lab's guests run: the distribution's cloud kernel and an initramfs
// of 10 MB (4 MB if it were compressed) with busybox, the virtio drivers and the QEMU guest agent.
//
// It may import the standard library only, and knows nothing of hosts or of libvirt.
package guest
