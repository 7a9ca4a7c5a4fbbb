// Package secret is the resource virtfleet_secret: a value that hosts keep for storage, disks or TLS, under one UUID on
// every host that needs it.
//
// The value is write-only: it is never in a plan, in the state or in a log. If the secret isn't private, the value is
// read back for a host that lacks it: by an update without a new value (value.go), and by a move, which brings it to
// the target (migration.BringSecret).
//
// It may import the plugin framework, hostset, internal/libvirt and the provider's shared packages.
package secret
