package meta

import (
	"maps"
	"path"
	"slices"
	"sync"
)

// Managed is what one run of Terraform has sent about the VMs in its state, by their ids.
//
// For a tainted VM, Terraform plans only a new VM, and doesn't say which VM it destroys before. The only signs are that
// the saved state of the tainted VM was sent, and that no plan for it was.
type Managed struct {
	mu     sync.Mutex
	vms    map[string]ManagedVM
	wanted map[string]bool // The names of new VMs.
	// variables are the planned files with UEFI variables: by file, the names of the VMs and the hosts they are pinned to.
	variables map[string]map[string]string
}

// ManagedVM is one VM in Terraform's state.
type ManagedVM struct {
	SavedVM
	// Planned says that Terraform planned to keep or change the VM, so it isn't tainted. Name is its name in that plan.
	Planned bool
	Name    string
	// Claimed says that a new VM was planned under its name, on the assumption that this VM is tainted.
	Claimed bool
}

// SavedVM is a VM in Terraform's saved state.
type SavedVM struct {
	// SavedName is the VM's name. Host and HostUUID are the host that had the VM.
	SavedName, Host, HostUUID string
	// Protected says that the VM has deletion_protection.
	Protected bool
}

// Saved records that Terraform has the VM in its state.
func (m *Managed) Saved(id string, saved SavedVM) {
	m.change(id, func(vm *ManagedVM) { vm.SavedVM = saved })
}

// Tainted returns the id of a VM that has that name in the saved state and no plan so far, and so may be tainted. It
// returns "" if there is none.
func (m *Managed) Tainted(name string) (found string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, vm := range m.vms {
		if vm.SavedName == name && !vm.Planned && (found == "" || id < found) {
			found = id
		}
	}
	return found
}

// Plans records that Terraform plans to keep or change the VM under that name, and returns what is known of the VM.
func (m *Managed) Plans(id, name string) ManagedVM {
	return m.change(id, func(vm *ManagedVM) { vm.Planned, vm.Name = true, name })
}

// Claims records that a new VM is planned under the name of this VM, unless this VM is known not to be tainted. It
// returns what is known of the VM.
func (m *Managed) Claims(id string) ManagedVM {
	return m.change(id, func(vm *ManagedVM) { vm.Claimed = !vm.Planned })
}

// Wants records that a new VM of that name is planned, and reports whether it is the first one.
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

// KeepsVariables records that a planned VM will keep its UEFI variables in one of the files on the host, "" for any
// host. It returns another planned VM that may have one of these files on the same host, and that file; "" if there is
// none.
func (m *Managed) KeepsVariables(files []string, name, host string) (other, file string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.variables == nil {
		m.variables = make(map[string]map[string]string)
	}
	for _, f := range files {
		f = path.Clean(f)
		if m.variables[f] == nil {
			m.variables[f] = make(map[string]string)
		}
		m.variables[f][name] = host
		for _, vm := range slices.Sorted(maps.Keys(m.variables[f])) {
			if on := m.variables[f][vm]; vm != name && (on == host || on == "" || host == "") && other == "" {
				other, file = vm, f
			}
		}
	}
	return other, file
}

func (m *Managed) change(id string, change func(*ManagedVM)) ManagedVM {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.vms == nil {
		m.vms = make(map[string]ManagedVM)
	}
	vm := m.vms[id]
	change(&vm)
	m.vms[id] = vm
	return vm
}

// VM returns what was recorded about a VM, and whether anything was.
func (m *Managed) VM(id string) (ManagedVM, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	vm, ok := m.vms[id]
	return vm, ok
}
