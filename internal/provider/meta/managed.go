package meta

import "sync"

// Managed is what one run of Terraform has told of the virtual machines in its state, by their ids.
//
// Of a machine that is tainted Terraform plans nothing but a new one, without a word of the one that is destroyed
// before. All that tells of it is that its saved state came, and that its own plan didn't.
type Managed struct {
	mu       sync.Mutex
	machines map[string]ManagedMachine
	wanted   map[string]bool // Names of new machines.
}

// ManagedMachine is one of them.
type ManagedMachine struct {
	// Protected says that its saved state has deletion_protection.
	Protected bool
	// Planned says that a plan was made that keeps or changes it, so that it isn't tainted; Name is what it is called
	// then.
	Planned bool
	Name    string
	// Claimed says that a new machine was planned under its name, on the assumption that it is tainted.
	Claimed bool
}

// Saved notes that Terraform has the machine in its state.
func (m *Managed) Saved(id string, protected bool) {
	m.change(id, func(machine *ManagedMachine) { machine.Protected = protected })
}

// Plans notes that Terraform plans to keep or change the machine under that name, and returns what is known of it.
func (m *Managed) Plans(id, name string) ManagedMachine {
	return m.change(id, func(machine *ManagedMachine) { machine.Planned, machine.Name = true, name })
}

// Claims notes that a new machine is planned under the name of this one, unless this one is known not to be tainted,
// and returns what is known of it.
func (m *Managed) Claims(id string) ManagedMachine {
	return m.change(id, func(machine *ManagedMachine) { machine.Claimed = !machine.Planned })
}

// Wants notes that a new machine of that name is planned, and tells whether it is the first.
func (m *Managed) Wants(name string) (first bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.wanted == nil {
		m.wanted = make(map[string]bool)
	}
	first = !m.wanted[name]
	m.wanted[name] = true
	return first
}

func (m *Managed) change(id string, change func(*ManagedMachine)) ManagedMachine {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.machines == nil {
		m.machines = make(map[string]ManagedMachine)
	}
	machine := m.machines[id]
	change(&machine)
	m.machines[id] = machine
	return machine
}

// Machine returns what was noted of a machine, and whether anything was.
func (m *Managed) Machine(id string) (ManagedMachine, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	machine, ok := m.machines[id]
	return machine, ok
}
