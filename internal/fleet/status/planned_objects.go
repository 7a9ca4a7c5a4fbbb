package status

import (
	"path"
	"slices"
)

// Kinds of HostObject.
const (
	Network = "network"
	// NetworkBandwidth is what a network can guarantee to interfaces. It is planned where the network is created or
	// changed.
	NetworkBandwidth = "network bandwidth"
	Bridge           = "bridge"
	NetworkFilter    = "network filter"
	StoragePool      = "storage pool"
	Secret           = "secret"
)

// HostObject is an object that a VM needs on its host and that a resource creates there.
type HostObject struct {
	// Kind is one of the kinds above. Name is the object's name on the host, or the UUID of a secret.
	Kind, Name string
}

// PlannedObjects are the objects that hosts will have once the resources of the same apply are applied. Terraform
// applies a resource before the VM if the VM refers to it; an object that the VM names by a literal may be created
// after the VM.
type PlannedObjects map[HostObject]PlannedHosts

// PlannedHosts are the hosts that will have an object. For a storage pool, the value is the directory of its volumes;
// "" if there is none or it isn't known yet.
type PlannedHosts map[string]string

// On reports whether the object is planned on the host.
func (p PlannedObjects) On(host, kind, name string) bool {
	_, planned := p[HostObject{kind, name}][host]
	return planned
}

// Strays reports whether the pool is planned on the host with another directory than the file's. The file is in the
// pool now or would be copied there, and a change of the directory doesn't move what is in a pool. directory is the
// planned one.
func (p PlannedObjects) Strays(host, pool, file string) (directory string, strays bool) {
	directory = p[HostObject{StoragePool, pool}][host]
	return directory, directory != "" && path.Dir(file) != path.Clean(directory)
}

// Without returns the blockers that remain on a host once it has the planned objects.
func (p PlannedObjects) Without(host string, blockers []Blocker) []Blocker {
	return slices.DeleteFunc(slices.Clone(blockers), func(b Blocker) bool {
		return p.On(host, b.Lacks.Kind, b.Lacks.Name)
	})
}
