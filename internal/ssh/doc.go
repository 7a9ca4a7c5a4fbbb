// Package ssh reaches hosts over SSH and opens streams to unix sockets on them, without any external program.
//
// Start with client.go, then config.go.
//
// A [Client] keeps one connection to one host. The connection is made when it is first needed, is shared by all that
// need it, and is made again after it was lost. Authentication, host keys, ssh_config and jump hosts behave as in
// OpenSSH's client, except that a user is never asked: where ssh would ask, this package refuses and says what to do.
//
// The package may import the standard library and golang.org/x/crypto. It knows nothing of libvirt's protocol, of VMs
// or of Terraform: packages that need a stream get a dial function.
package ssh
