// Package image is the resource virtfleet_image: a disk image by its content, one copy on each host that has the pool.
//
// It may import the plugin framework, internal/storage, hostset and the provider's shared packages. Fetching, naming
// and sending an image, and telling a whole copy from half a one, is internal/storage's.
package image
