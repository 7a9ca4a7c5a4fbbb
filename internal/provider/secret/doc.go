// Package secret is the resource virtfleet_secret: a value that hosts keep for storage, disks or TLS, under one UUID on
// every host that needs it.
//
// The value is write-only: it is never in a plan, in the state or in a log, and this package never reads it back. Only
// a move reads it, if the secret isn't private, to bring it to the target: migration.BringSecret.
//
// It may import the plugin framework, hostset, internal/libvirt and the provider's shared packages.
package secret
