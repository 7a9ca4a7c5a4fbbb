// Package libvirt talks to one libvirt host: it opens connections according to the load, makes every call obey a
// context, turns libvirt's error codes into a few kinds of errors, delivers events and counts round trips.
//
// Start with call.go (how a call obeys its context), then host.go, connect.go and conn.go. A method is in the file of
// its subject.
//
// It is the only package that imports the libvirt binding and go-qemu. It returns plain Go values: it accepts and
// returns domain XML as text, and no package above it holds a libvirt object.
//
// It may import the standard library, the binding, go-qemu and small general modules. It must not know SSH (a DialFunc
// reaches the host), the fleet, what a domain's XML means beyond a few names, or Terraform.
//
// # Connections
//
// libvirtd works on five requests of one connection at a time, so a Host keeps three lanes apart. Quick reads share a
// few connections, each with many calls in progress at once. Calls that wait for a guest or a hypervisor process use
// other connections, so that reads never wait for them. Requests to guest agents have two connections of their own, so
// that silent agents, however many, don't hold up other calls.
//
// A call into libvirt's C library can't be cancelled. If a call outlives its context, its caller gets the context's
// error at once and the connection is given up: it accepts no new calls, and when the other calls on it have ended its
// stream is cut, which ends the abandoned call as well.
//
// # The event loop
//
// libvirt needs an event loop for keepalive and events. The first Open starts one for the life of the process, in a
// goroutine whose function is runEventLoop. It never ends, because libvirt offers no way to take an event loop back.
package libvirt
