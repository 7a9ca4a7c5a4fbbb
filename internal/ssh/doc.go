// Package ssh reaches hosts over SSH and opens streams to unix sockets on them, without any external program.
//
// A [Client] keeps one connection to one host, made when it is first needed, shared by everything that needs it and
// made anew after it was lost. Authentication, host keys, ssh_config and jump hosts behave as OpenSSH's client does,
// except that no user is ever asked anything: where ssh would ask, this package refuses and says what to do.
//
// The package may import the standard library and golang.org/x/crypto. It knows nothing of libvirt's protocol, of
// VMs or of Terraform: whoever needs a stream is handed a dial function.
package ssh
