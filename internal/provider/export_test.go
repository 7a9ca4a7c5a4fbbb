package provider

import "os"

// EndWithout runs a change until finish returns, and ends the process as one that Terraform started ends when Terraform
// is gone. It calls begun when it knows its parent.
func EndWithout(begun, finish func()) {
	p := New("test")
	p.changes.Go(finish)
	parent := os.Getppid()
	begun()
	p.endWithout(parent)
}
