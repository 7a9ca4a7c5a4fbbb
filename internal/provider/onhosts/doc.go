// Package onhosts is what resources share that exist on a set of hosts: a storage pool, an image, a secret, a network.
//
// Such a resource has two attributes from here:
//
//   - hosts (HostsAttribute): a set of keys of the provider's hosts. Omitted, it is every configured host, those that
//     are added later included. Targets says which they are.
//   - host_states (StatesAttribute): a computed map from host to a word for what is there: Active, Inactive, Present,
//     Missing, or one of the resource's own. Read fills it from what each host says (Observe), ModifyPlan plans
//     it healthy (PlanStates), so that a host which lacks its copy, has one that isn't active, or is new in hosts shows
//     up as an update in place. During create it is unknown, so that Create may return what a host lacked, with a
//     warning.
//
// What a silent host means is decided in Observe alone: its last known state stays, with a warning or, as
// on_unreachable says, an error; the resource is gone only when every host that it could be on answered and none has
// it.
//
// It may import the plugin framework, hostset and the provider's shared packages. It must not know any resource.
package onhosts
