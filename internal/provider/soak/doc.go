// Package soak is an operator who never gets tired: a property test that changes a configuration, runs the virsh
// commands that people run, breaks hosts, and after every move checks whether anything was lost. "make soak" runs it
// for as long as it is told; a short run is part of "make test".
//
// The truth about a VM is read from the hosts' own files and processes, and from the disks that the guests write to,
// never from the provider. This works even while a host's libvirtd is frozen.
//
// Only this package's own tests run in it. It may import what acceptance tests import.
package soak
