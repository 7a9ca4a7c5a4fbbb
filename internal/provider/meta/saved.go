package meta

import "sync"

// Saved are the objects of resources in Terraform's saved state. Before it plans, Terraform sends every saved state,
// even those that it doesn't have read. For a tainted resource it then plans only a new one: nothing else says that the
// object which hosts have is the one that goes first.
type Saved struct{ ids sync.Map }

// Note records that a resource of that type has the object with that id.
func (s *Saved) Note(typeName, id string) { s.ids.Store([2]string{typeName, id}, true) }

// Has reports whether a resource of that type has the object with that id, as far as Terraform has sent that.
func (s *Saved) Has(typeName, id string) bool {
	_, has := s.ids.Load([2]string{typeName, id})
	return has
}
