// Package ops contains the commands of the program, one package each: they run when a user or a service manager starts
// the program instead of Terraform.
//
// It may import fleet and the packages below it. It must not know Terraform, nor how hosts are reached: the composition
// root passes a function that opens a fleet.
package ops
