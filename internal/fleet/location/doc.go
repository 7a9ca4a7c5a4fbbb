// Package location decides where a VM is, from what the hosts have of it. Its functions are pure. It knows neither
// libvirt nor Terraform, and imports nothing of this module.
//
// It never guesses. It decides between two definitions by libvirt's report of a migration, by the generation that every
// write of the provider raises, or by the record of an unfinished copy; or the definitions are interchangeable.
package location
