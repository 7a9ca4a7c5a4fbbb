package location

import "slices"

// Definition is a persistent definition of a VM on one host.
type Definition struct {
	// HostUUID is the UUID that libvirt reports for the host.
	HostUUID string
	// Ran says that the host's libvirt knows that the VM ran. It forgets this when its daemon is restarted, so false says
	// nothing.
	Ran bool
	// Last says that the VM was last seen on this host.
	Last bool
	// Generation counts the provider's writes to the VM's metadata; 0 if there was none.
	Generation uint64
	// Document is the definition in a canonical form: equal definitions have equal documents.
	Document string
	// LocalData says that the VM has data that may differ between hosts: disks that are not shared, firmware variables,
	// the state of a TPM, a saved memory image.
	LocalData bool
	// Unfinished are the hosts, by UUID, to which a cold move from this host has begun and has not finished.
	Unfinished []string
}

// Choose returns the index of the definition that is the VM, of several definitions that are all off. It returns false
// if nothing proves which definition is the VM.
func Choose(definitions []Definition) (int, bool) {
	if len(definitions) == 1 {
		return 0, true
	}

	if i, ok := sourceOfUnfinishedMove(definitions); ok {
		return i, true
	}

	newest := newestGeneration(definitions)
	if olderOneRan(definitions, newest) {
		return 0, false
	}

	if len(newest) == 1 {
		return newest[0], true
	}

	return interchangeable(definitions, newest)
}

// Newer returns the indexes of the definitions that were written after the definition with that generation. If there
// are any, the VM was changed after that definition was written.
func Newer(generation uint64, definitions []Definition) []int {
	var newer []int

	for i, d := range definitions {
		if d.Generation > generation {
			newer = append(newer, i)
		}
	}

	return newer
}

// sourceOfUnfinishedMove returns the source of an unfinished move that has created all other definitions: the source's
// definition counts until the move removes it. A copy that has run may have newer data. That the source ran proves
// nothing, because it did so before it was moved.
func sourceOfUnfinishedMove(definitions []Definition) (int, bool) {
	for i, d := range definitions {
		counts := true

		for j, other := range definitions {
			counts = counts && (i == j || slices.Contains(d.Unfinished, other.HostUUID) &&
				other.Generation <= d.Generation && !other.Ran)
		}

		if counts {
			return i, true
		}
	}

	return 0, false
}

// newestGeneration returns the indexes of the definitions with the highest generation.
func newestGeneration(definitions []Definition) []int {
	var (
		all     []int
		highest uint64
	)

	for i, d := range definitions {
		switch {
		case d.Generation > highest || i == 0:
			all, highest = []int{i}, d.Generation
		case d.Generation == highest:
			all = append(all, i)
		}
	}

	return all
}

// olderOneRan reports whether an older definition is known to have run, and none of the newest is: a user may have
// started the older one on purpose.
func olderOneRan(definitions []Definition, newest []int) bool {
	for i, d := range definitions {
		if d.Ran && !slices.Contains(newest, i) &&
			!slices.ContainsFunc(newest, func(n int) bool { return definitions[n].Ran }) {
			return true
		}
	}

	return false
}

// interchangeable returns the definition that was last seen, if the definitions have the same content and no local
// data. It returns false if another definition is known to have run since.
func interchangeable(definitions []Definition, among []int) (int, bool) {
	last := slices.IndexFunc(among, func(i int) bool { return definitions[i].Last })
	if last < 0 {
		return 0, false
	}

	chosen := definitions[among[last]]

	for _, i := range among {
		d := definitions[i]
		if d.LocalData || d.Document != chosen.Document || d.Ran && !chosen.Ran {
			return 0, false
		}
	}

	return among[last], true
}
