// Package changes writes the guide "What a change does" from the rules by which a plan tells what a change of a VM
// takes, so that the guide says what a plan does.
//
// It may import domain, which has the rules. It must not know Terraform.
package changes
