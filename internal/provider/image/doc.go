// Package image is the resource virtfleet_image: a disk image with given content, one copy on each host that has the
// pool.
//
// It may import the plugin framework, internal/storage, hostset and the provider's shared packages. internal/storage
// fetches, names and sends an image, and tells a complete copy from a partial one.
package image
