// Package ops is what the program does when it is called by a person or a service manager rather than by Terraform: its
// commands, one package each.
//
// It may import fleet and what is below it. It must not know Terraform, nor how hosts are reached: the composition root
// hands it a function that opens a fleet.
package ops
