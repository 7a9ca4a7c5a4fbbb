// Package libvirt speaks to one libvirt host: it opens connections as load asks, makes every call obey a context,
// turns libvirt's error codes into a few kinds of errors, delivers events and counts round trips.
//
// It is the only package that imports the libvirt binding and go-qemu. What it hands out are plain Go values: domain
// XML goes in and comes out as text, and no package above it holds a libvirt object.
//
// It may import the standard library, the binding, go-qemu and small general modules. It must not know SSH (a DialFunc
// reaches the host), the fleet, what a domain's XML means beyond a few names, or Terraform.
//
// # Connections
//
// libvirtd works on five requests of one connection at a time, so a Host keeps three lanes apart. Quick reads share a
// few connections, on which many calls are under way at once. Calls that wait for a guest or a hypervisor process take
// other connections and so never stand in the readers' way. Questions to guest agents have two of their own: agents
// that don't answer, however many they are, don't hold up other calls.
//
// A call into libvirt's C library can't be cancelled. One that outlives its context returns the context's error to its
// caller at once and its connection is given up: it takes no new calls, and as soon as the others on it have ended its
// stream is cut, which ends the abandoned call as well.
//
// # The event loop
//
// libvirt needs an event loop for keepalive and events. The first Open starts one for the life of the process, in a
// goroutine whose function is runEventLoop. It never ends, because libvirt offers no way to take an event loop back.
package libvirt
