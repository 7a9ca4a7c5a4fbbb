// Package virtualmachine is the resource virtfleet_virtual_machine: the schema that users write, its mapping to what
// the fleet is asked for, and the plan that says in advance what an apply will do.
//
// Start with resource.go and modify_plan.go.
//
// Each block of the schema has a file of its own (cpu.go, disk.go, ...) with the same structure: its attributes, its
// type built once, toDomain and fromDomain. plan_values.go and plan.go decide what is planned, as pure functions of the
// configuration and the state. Code that treats all attributes alike iterates over the model's fields, see compare.go.
// resource.go calls the fleet.
//
// It must not know libvirt, SSH or any host: finding, placing, changing and waiting belong to the fleet.
package virtualmachine
