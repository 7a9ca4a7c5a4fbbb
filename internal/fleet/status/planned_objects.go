package status

import (
	"path"
	"slices"
	"strings"
)

// Kinds of HostObject.
const (
	Network = "network"
	// NetworkBandwidth is what a network can guarantee to interfaces. It is planned where the network is created or
	// changed.
	NetworkBandwidth = "network bandwidth"
	Bridge           = "bridge"
	NetworkFilter    = "network filter"
	// PortGroup is a port group of a network, see PortGroupOf.
	PortGroup = "port group"
	// NetworkBridge is the bridge that a network is connected to, see NetworkBridgeOf.
	NetworkBridge = "bridge of a network"
	StoragePool   = "storage pool"
	Secret        = "secret"
	// Volume is a volume that a host doesn't have yet, as "<pool>/<name>".
	Volume = "volume"
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
// for a network, the bridge of the host that it is connected to. It is "" if there is none or it isn't known yet.
type PlannedHosts map[string]string

// PortGroupOf returns a port group of a network. Two names have a meaning of their own: a host has the planned port
// group "" if the network declares its port groups there, and AnyPortGroup if these aren't known yet.
func PortGroupOf(network, name string) HostObject { return HostObject{PortGroup, network + "/" + name} }

// AnyPortGroup is the name that stands for port groups that aren't known yet.
const AnyPortGroup = "*"

// PortGroup reports whether the network of the host declares its port groups, and may have that one.
func (p PlannedObjects) PortGroup(host, network, name string) (declared, has bool) {
	on := func(name string) bool { return p.On(host, PortGroup, PortGroupOf(network, name).Name) }
	return on(""), on(name) || on(AnyPortGroup)
}

// NetworkBridgeOf returns the bridge that a network is connected to.
func NetworkBridgeOf(network, bridge string) HostObject {
	return HostObject{NetworkBridge, network + "/" + bridge}
}

// Connected returns the bridge of the host that a network is planned to be connected to, and whether it is planned.
func (p PlannedObjects) Connected(host, network string) (bridge string, planned bool) {
	bridge, planned = p[HostObject{Network, network}][host]
	return bridge, planned
}

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
		if network, group, _ := strings.Cut(b.Lacks.Name, "/"); b.Lacks.Kind == PortGroup {
			_, has := p.PortGroup(host, network, group)
			return has
		}
		if network, bridge, _ := strings.Cut(b.Lacks.Name, "/"); b.Lacks.Kind == NetworkBridge {
			other, planned := p.Connected(host, network)
			return planned && other != bridge || p.On(host, Bridge, bridge)
		}
		return p.On(host, b.Lacks.Kind, b.Lacks.Name)
	})
}
