package placement

import (
	"cmp"
	"slices"
)

// sortCandidates sorts the hosts that suit a VM best first.
func sortCandidates(all []candidate) {
	slices.SortStableFunc(all, func(a, b candidate) int {
		return cmp.Or(
			cmp.Compare(min(len(a.problems), 1), min(len(b.problems), 1)),
			cmp.Compare(len(a.doubts), len(b.doubts)),
			compareBool(a.crowded, b.crowded),
			cmp.Compare(a.disputed, b.disputed),
			compareBool(a.overpromised, b.overpromised),
			// VMs that are off are likely to run one day: what would be left then counts, even if it is negative.
			-cmp.Compare(int64(a.free)-int64(a.resting), int64(b.free)-int64(b.resting)), //nolint:gosec // below 8 EiB
			-cmp.Compare(a.free, b.free),
		)
	})
}

// compareBool orders false before true.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	default:
		return 1
	}
}
