package provider

import "os"

// EndWithout runs a change until finish returns, and returns when a provider ends without Terraform. It calls begun
// when it knows its parent.
func EndWithout(begun, finish func()) {
	p := New("test")
	p.changes.Go(finish)
	parent := os.Getppid()
	begun()
	<-p.orphaned(parent)
}
