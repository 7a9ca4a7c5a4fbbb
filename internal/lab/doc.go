// Package lab runs real libvirt hosts on one machine, for the demo and for the tests.
//
// A host of the lab is a set of Linux namespaces (mount, UTS, network, process ids) with an address on a bridge, a
// hostname, an SSH server and a libvirtd of its own. Guests are real too: QEMU boots a small Linux that runs the guest
// agent. Nothing is simulated, so what works here works on the hosts that users have. A fresh host runs systemd too, in
// a cgroup of its own.
//
// All state is below one directory, except the cgroups of a host that has its own, which are named after it; and every
// process of a host lives in the host's process namespace. Killing the first process of a host is like pulling its
// plug: all its processes end.
//
// The package may import the standard library only: it has to build before anything else is installed. It must not know
// the provider, and the provider must not know it; tests import it.
package lab
