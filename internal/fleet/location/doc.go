// Package location decides which definition of a stopped VM is the VM, if several hosts have one. Where a running VM
// is, and what a silent host means, is decided by inventory.Locate, which calls Choose last. Its functions are pure. It
// knows neither libvirt nor Terraform, and imports nothing of this module.
//
// It never guesses. It decides between two definitions by the generation that every write of the provider raises, or by
// the record of an unfinished move; or the definitions are interchangeable.
package location
