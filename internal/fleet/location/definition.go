package location

import "slices"

// Definition is a persistent definition of a VM, as its host shows it.
type Definition struct {
	// HostUUID is what libvirt knows the host by.
	HostUUID string
	// Ran says that the host's libvirt knows of a run. It forgets them when its daemon is restarted, so that false says
	// nothing.
	Ran bool
	// Last says that the VM was seen here last.
	Last bool
	// Generation counts our writes to the VM's metadata; 0: none.
	Generation uint64
	// Document is the definition in a form in which equal ones are equal.
	Document string
	// LocalData says that the VM has data that may differ between hosts: disks that are not shared, firmware variables,
	// the state of a TPM, a saved memory image.
	LocalData bool
	// Unfinished are the hosts, by UUID, that a cold move from here has begun with and not come to its end.
	Unfinished []string
}

// Choose returns the index of the definition that is the VM, of several that are all off. It is false where nothing
// proves which one is.
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

// Newer returns the indexes of the definitions that were written after the one of generation: what has that one is not
// the VM as it was left.
func Newer(generation uint64, definitions []Definition) []int {
	var newer []int

	for i, d := range definitions {
		if d.Generation > generation {
			newer = append(newer, i)
		}
	}

	return newer
}

// sourceOfUnfinishedMove finds the source of a move that has made all others and was not
// completed: until its own definition is gone, it counts.
func sourceOfUnfinishedMove(definitions []Definition) (int, bool) {
	for i, d := range definitions {
		counts := true

		for j, other := range definitions {
			counts = counts && (i == j || slices.Contains(d.Unfinished, other.HostUUID) &&
				other.Generation <= d.Generation && (!other.Ran || d.Ran))
		}

		if counts {
			return i, true
		}
	}

	return 0, false
}

// newestGeneration are those of the highest generation.
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

// olderOneRan says that an older one is known to have run, and none of the newest is: a person may have made it the VM
// again.
func olderOneRan(definitions []Definition, newest []int) bool {
	for i, d := range definitions {
		if d.Ran && !slices.Contains(newest, i) &&
			!slices.ContainsFunc(newest, func(n int) bool { return definitions[n].Ran }) {
			return true
		}
	}

	return false
}

// interchangeable chooses the one that was seen last among definitions that say the same and have nothing of their own,
// unless another one is known to have run since.
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
