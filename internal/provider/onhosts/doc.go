// Package onhosts is what resources share that exist on a set of hosts: a storage pool, an image, a secret, a network.
//
// Such a resource has two attributes from here:
//
//   - hosts (HostsAttribute): a set of keys of the provider's hosts. If it is omitted, it is every configured host,
//     including hosts that are added later. Targets returns the hosts.
//   - host_states (StatesAttribute): a computed map from a host to a word for what the host has: Active, Inactive,
//     Present, Missing, or one of the resource's own. Read fills it from each host's answer (Observe). ModifyPlan plans
//     it healthy (PlanStates): a host that lacks its copy, has one that isn't active, or is new in hosts shows up as an
//     update in place. During create it is unknown, so that Create may return what a host lacked, with a warning.
//
// Change.Create records on each host that the object is being created, with its UUID (hostset.Creation), so that the
// next run completes what a killed run has left. It never takes over another object, and holds a lock on each host so
// that a run at work isn't taken for a killed one.
//
// Observe alone decides what the silence of a host means: its last known state stays, with a warning or, depending on
// on_unreachable, an error. The resource is gone only if every host that it could be on answered and none has it.
//
// An object belongs to the resource if its UUID is recorded in the private state, or if its host had the object at the
// last refresh or apply and is still the same host (sameHosts): a key of the provider's hosts can lead to another one.
//
// It may import the plugin framework, hostset and the provider's shared packages. It must not know any resource.
package onhosts
