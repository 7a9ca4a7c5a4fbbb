// Package location decides where a VM is: what the hosts have of it goes in, a verdict comes out. Its functions are
// pure. It knows neither libvirt nor Terraform, and imports nothing of this module.
//
// Nothing is decided on a guess. What decides between two definitions is what libvirt says of a migration, the
// generation that every write of ours raises, the record of an unfinished copy, or that nothing depends on the choice.
package location
