package domain

import "slices"

// heldWhy says why a running VM keeps a device that other VMs lose while they run.
const heldWhy = "The guest hasn't released it when it was asked to. A restart removes it."

// heldDevices reads Spec.Held.
func (d *Definition) heldDevices() []string {
	var all []string
	for _, e := range d.ofTheRun("held") {
		all = append(all, attr(e, "path"))
	}
	return all
}

// ForgetHeld returns a copy of a live definition without Spec.Held, so that its guest is asked again for the devices.
func (d *Definition) ForgetHeld() *Definition {
	asked := d.Clone()
	for _, e := range asked.ofTheRun("held") {
		drop(e)
	}
	return asked
}

// Holding returns the spec of a running VM whose guest holds the device at a path, or has given it back.
func (s Spec) Holding(path string, held bool) Spec {
	s.Held = slices.DeleteFunc(slices.Clone(s.Held), func(other string) bool { return other == path })
	if held {
		s.Held = append(s.Held, path)
	}
	return s
}

// holds reports whether the guest holds the device at a path.
func (c *classifier) holds(path string) bool { return slices.Contains(c.have.Held, path) }
