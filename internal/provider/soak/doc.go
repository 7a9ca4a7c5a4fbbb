// Package soak is the operator who never gets tired: a property test that changes a configuration, does by hand what
// people do with virsh, breaks hosts, and looks after every move whether anything was lost. "make soak" runs it for as
// long as it is told; a slice of it is part of "make test".
//
// What is true of a VM is read from the hosts' own files and processes, and from the disks that the guests write to,
// never from what the provider says, and also while a host's libvirtd is frozen.
//
// Only this package's own tests run in it; it may import what acceptance tests import.
package soak
