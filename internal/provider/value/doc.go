// Package value has the custom Terraform value types and the plain attributes that several resources use, and the only
// helpers that convert optional framework values to Go and back.
//
// A null and an unknown value both become nil in Go. The framework's own pointer helpers turn an unknown string into a
// pointer to "", which would then be sent to a hypervisor as if a user had written it.
//
// It may import the plugin framework and the Kubernetes quantity parser. It must not know hosts, VMs or any other
// package of the provider but attrpath.
package value
