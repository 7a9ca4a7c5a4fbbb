// Package domain turns what a user declares about a virtual machine (Spec) into libvirt domain XML and reads it back.
//
// A definition is kept as the element tree that came from libvirt. Reading looks only at what is modelled. Applying a
// Spec changes only what differs in meaning from what is declared. Everything else (addresses, unknown elements and
// attributes, comments, other tools' metadata) stays as it was, because no model of libvirt's XML is complete.
//
// A Spec consists of blocks, listed once in block.go: reading, applying, classifying and validating are loops over that
// list. A block is one file (cpu.go, memory.go, os.go, ...): what it reads and writes, the rules that classify its
// changes, and how a live rule is carried out, so that a plan and an apply can't disagree. Disks and interfaces are
// values of one generic kind of devices with keys (devices.go). new.go builds a skeleton and applies the Spec to it:
// there is no second way to write a device.
//
// A running VM has two definitions, and the live one says less about some things: the expansion of the CPU replaces its
// mode, and firmware that libvirt chose looks like firmware that was declared. Spec reports such facts as unknown.
// Merge, Pending and Changes read them together with the persistent definition.
//
// Devices are known by their key: our alias (ua-disk-<key>, ua-net-<key>), else the name that is recorded in our
// metadata, else a disk's target or an interface's place in the order. Aliases of running devices can't change, so a
// device without our alias is named in the metadata. If a key is declared for the first time and has the source of a
// device that nothing else declares, the key means that device.
//
// The package may import the element tree and the standard library. It must not know libvirt connections, hosts, SSH or
// Terraform, and does no I/O.
package domain
