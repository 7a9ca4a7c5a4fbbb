package storage

import (
	"fmt"
	"path"
	"slices"
	"sync"
)

// Handovers are the files that a run is to give to VMs, and those that it is to remove or has removed. What hosts know
// doesn't tell that: a VM that is to get a file has no definition with it yet. The zero value is ready to use, and nil
// knows nothing.
type Handovers struct {
	mu sync.Mutex
	// given are by the name of the VM, planned by what loses the files. removed are those that are removed at this moment
	// or were.
	given   map[string][]Given
	planned map[string][]Removal
	removed []*Removal
}

// Given is a file that a VM is to have.
type Given struct {
	// VM is the VM's name. UUID is that of a VM that stays, "" of a new one.
	VM, UUID string
	// Key is the disk's key, What names it for use in a sentence.
	Key, What string
	// Hosts are those that the VM may be on.
	Hosts []string
	// Path is the file as libvirt names it, "" if it isn't known. Ref is the volume, nil if only the path is known.
	Path string
	Ref  *Ref
}

// Removal is a file that is removed.
type Removal struct {
	// UUID is that of a VM that stays and loses the file, "" if the file doesn't belong to one.
	UUID string
	// Hosts are those that may have the file at the path.
	Hosts []string
	Path  string
	Ref   Ref
	// What names the file's owner for use in a sentence, Keep says how to keep the file.
	What, Keep string
	// done says that the file is removed already.
	done bool
}

// Conflict is a file that one VM is to have, and that the same run removes.
type Conflict struct {
	Given
	Removal
}

// Give records the files that a VM is to have, in place of those that were recorded for it. It returns those of them
// that are removed.
func (h *Handovers) Give(vm string, given []Given) (all []Conflict) {
	if h == nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.given == nil {
		h.given = map[string][]Given{}
	}
	h.given[vm] = given
	for _, g := range given {
		if i := slices.IndexFunc(h.removed, func(r *Removal) bool { return r.takes(g) }); i >= 0 {
			r := *h.removed[i]
			r.done = true
			all = append(all, Conflict{g, r})
			continue
		}
		for _, removals := range h.planned {
			if i := slices.IndexFunc(removals, func(r Removal) bool { return r.takes(g) }); i >= 0 {
				all = append(all, Conflict{g, removals[i]})
				break
			}
		}
	}
	return all
}

// Remove records the files that are to be removed with their owner, in place of those that were recorded for it. It
// returns those of them that a VM is to have.
func (h *Handovers) Remove(owner string, removals []Removal) (all []Conflict) {
	if h == nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.planned == nil {
		h.planned = map[string][]Removal{}
	}
	h.planned[owner] = removals
	for _, r := range removals {
		if g := h.receiver(r); g != nil {
			all = append(all, Conflict{*g, r})
		}
	}
	return all
}

// receiver returns what a VM is to have of a file that is removed, nil if no VM is to have it.
func (h *Handovers) receiver(r Removal) *Given {
	for _, given := range h.given {
		if i := slices.IndexFunc(given, r.takes); i >= 0 {
			return &given[i]
		}
	}
	return nil
}

// remove calls the function that removes a file, unless a VM is to have it: then the error is ErrInUse.
func (h *Handovers) remove(r Removal, do func() error) error {
	if h == nil {
		return do()
	}
	h.mu.Lock()
	if g := h.receiver(r); g != nil {
		h.mu.Unlock()
		return fmt.Errorf("%w: VM %q is to get it as %s", ErrInUse, g.VM, g.What)
	}
	h.removed = append(h.removed, &r)
	h.mu.Unlock()
	err := do()
	if err != nil {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.removed = slices.DeleteFunc(h.removed, func(other *Removal) bool { return other == &r })
	}
	return err
}

// made records that a host has the volume, again if it was removed.
func (h *Handovers) made(host string, ref Ref) {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.removed = slices.DeleteFunc(h.removed, func(r *Removal) bool {
		return r.Ref == ref && slices.Contains(r.Hosts, host)
	})
}

// takes reports whether the removed file is the one that a VM is to have. A VM that stays loses no file that it has.
func (r Removal) takes(g Given) bool {
	if r.UUID != "" && r.UUID == g.UUID ||
		!slices.ContainsFunc(r.Hosts, func(host string) bool { return slices.Contains(g.Hosts, host) }) {
		return false
	}
	return g.Ref != nil && *g.Ref == r.Ref || g.Path != "" && r.Path != "" && path.Clean(g.Path) == path.Clean(r.Path)
}

// Detail says what is wrong.
func (c Conflict) Detail() string {
	file := c.Removal.Path
	if file == "" {
		file = c.Removal.Ref.String()
	}
	when := "the same change deletes it with its data"
	if c.done {
		when = "this run has deleted it with its data"
	}
	return fmt.Sprintf("VM %q is to get %s on host %q as %s. The file is %s, and %s", c.VM, file, c.Removal.Hosts[0],
		c.Given.What, c.Removal.What, when)
}

// Remedy says what to do.
func (c Conflict) Remedy() string {
	if c.done {
		return fmt.Sprintf("Restore the data from a backup, or give VM %q another disk.", c.VM)
	}
	return fmt.Sprintf("To hand the file over, keep it first: %s. Otherwise give VM %q another disk.", c.Keep, c.VM)
}
