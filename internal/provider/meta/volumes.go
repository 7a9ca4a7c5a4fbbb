package meta

import (
	"maps"
	"sync"
)

// Volumes is what one run of Terraform has sent about the volumes in its state.
//
// For a tainted volume, Terraform plans only a new one, as for a tainted VM: see Managed.
type Volumes struct {
	mu sync.Mutex
	// kept says of each saved volume whether Terraform planned to keep or change it.
	kept map[SavedVolume]bool
	// made are the times of the last change of the volumes that this run has created, by path.
	made map[string]string
}

// SavedVolume is a volume in Terraform's saved state.
type SavedVolume struct {
	// Pool and Name are those of the volume, Host is the host that had it last.
	Pool, Name, Host string
}

// Saved records that Terraform has the volume in its state.
func (v *Volumes) Saved(saved SavedVolume) { v.note(saved, false) }

// Plans records that Terraform plans to keep or change the volume, so it isn't tainted.
func (v *Volumes) Plans(saved SavedVolume) { v.note(saved, true) }

func (v *Volumes) note(saved SavedVolume, kept bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.kept == nil {
		v.kept = make(map[SavedVolume]bool)
	}
	v.kept[saved] = v.kept[saved] || kept
}

// Made records that this run has created a volume at the path. changed is the time of its last change, as libvirt
// reports it.
func (v *Volumes) Made(path, changed string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.made == nil {
		v.made = map[string]string{}
	}
	v.made[path] = changed
}

// AllMade returns the times of the last change of the volumes that this run has created, by path.
func (v *Volumes) AllMade() map[string]string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return maps.Clone(v.made)
}

// Tainted returns the volume in the saved state that has that name in that pool, and no plan so far, and so may be
// tainted: on that host, or on any host if host is "".
func (v *Volumes) Tainted(pool, name, host string) (tainted SavedVolume, found bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for saved, kept := range v.kept {
		if !kept && saved.Pool == pool && saved.Name == name && (host == "" || saved.Host == host) &&
			(!found || saved.Host < tainted.Host) {
			tainted, found = saved, true
		}
	}
	return tainted, found
}

// Hosts returns the hosts on which Terraform has a volume of that name in that pool in its state, as far as it has sent
// that.
func (v *Volumes) Hosts(pool, name string) (hosts []string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for saved := range v.kept {
		if saved.Pool == pool && saved.Name == name {
			hosts = append(hosts, saved.Host)
		}
	}
	return hosts
}
