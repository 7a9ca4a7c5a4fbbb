// Package storagepool is the resource virtfleet_storage_pool: a storage pool on one host or on many.
//
// It may import the plugin framework, internal/storage, hostset and the provider's shared packages. internal/storage
// maps a pool's attributes to libvirt's XML.
package storagepool
