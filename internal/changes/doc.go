// Package changes writes the guide "What a change does" from the rules that plans follow, so both say the same.
//
// It may import domain, which has the rules. It must not know Terraform.
package changes
