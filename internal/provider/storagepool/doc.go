// Package storagepool is the resource virtfleet_storage_pool: a storage pool on one host or on many.
//
// It may import the plugin framework, internal/storage, hostset and the provider's shared packages. What a pool's
// attributes are in libvirt's XML is known to internal/storage.
package storagepool
