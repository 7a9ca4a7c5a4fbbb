package meta

import "sync"

// Managed is what one run of Terraform has told of the VMs in its state, by their ids.
//
// Of a VM that is tainted Terraform plans nothing but a new one, without a word of the one that is destroyed
// before. All that tells of it is that its saved state came, and that its own plan didn't.
type Managed struct {
	mu     sync.Mutex
	vms    map[string]ManagedVM
	wanted map[string]bool // Names of new VMs.
}

// ManagedVM is one of them.
type ManagedVM struct {
	SavedVM
	// Planned says that a plan was made that keeps or changes it, so that it isn't tainted; Name is what it is called
	// then.
	Planned bool
	Name    string
	// Claimed says that a new VM was planned under its name, on the assumption that it is tainted.
	Claimed bool
}

// SavedVM is what Terraform's state has of a VM.
type SavedVM struct {
	// SavedName is what the VM was called, Host and HostUUID which host had it.
	SavedName, Host, HostUUID string
	// Protected says that it has deletion_protection.
	Protected bool
}

// Saved notes that Terraform has the VM in its state.
func (m *Managed) Saved(id string, saved SavedVM) {
	m.change(id, func(machine *ManagedVM) { machine.SavedVM = saved })
}

// Tainted is the id of a VM whose state has that name and for which no plan was made so far, "" if there is none: it
// may be tainted.
func (m *Managed) Tainted(name string) (found string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, machine := range m.vms {
		if machine.SavedName == name && !machine.Planned && (found == "" || id < found) {
			found = id
		}
	}
	return found
}

// Plans notes that Terraform plans to keep or change the VM under that name, and returns what is known of it.
func (m *Managed) Plans(id, name string) ManagedVM {
	return m.change(id, func(machine *ManagedVM) { machine.Planned, machine.Name = true, name })
}

// Claims notes that a new VM is planned under the name of this one, unless this one is known not to be tainted,
// and returns what is known of it.
func (m *Managed) Claims(id string) ManagedVM {
	return m.change(id, func(machine *ManagedVM) { machine.Claimed = !machine.Planned })
}

// Wants notes that a new VM of that name is planned, and tells whether it is the first.
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

func (m *Managed) change(id string, change func(*ManagedVM)) ManagedVM {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.vms == nil {
		m.vms = make(map[string]ManagedVM)
	}
	machine := m.vms[id]
	change(&machine)
	m.vms[id] = machine
	return machine
}

// VM returns what was noted of a VM, and whether anything was.
func (m *Managed) VM(id string) (ManagedVM, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	machine, ok := m.vms[id]
	return machine, ok
}
