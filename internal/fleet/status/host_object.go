package status

import "slices"

// Kinds of HostObject.
const (
	Network       = "network"
	Bridge        = "bridge"
	NetworkFilter = "network filter"
	StoragePool   = "storage pool"
	Secret        = "secret"
)

// HostObject is something that a VM needs on its host and that a resource creates there.
type HostObject struct {
	// Kind is one of the kinds above. Name is the object's name on the host, and the UUID of a secret.
	Kind, Name string
}

// PlannedObjects are the hosts that will have an object once the resources of the same apply are applied. Terraform
// applies a resource before the VM where the VM refers to it; an object that the VM names by a literal may come after
// the VM.
type PlannedObjects map[HostObject][]string

// On says that the object is planned on the host.
func (p PlannedObjects) On(host, kind, name string) bool {
	return slices.Contains(p[HostObject{kind, name}], host)
}

// Without are the blockers that remain on a host once it has what is planned.
func (p PlannedObjects) Without(host string, blockers []Blocker) []Blocker {
	return slices.DeleteFunc(slices.Clone(blockers), func(b Blocker) bool {
		return p.On(host, b.Lacks.Kind, b.Lacks.Name)
	})
}
