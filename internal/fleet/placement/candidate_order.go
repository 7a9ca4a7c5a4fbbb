package placement

import (
	"cmp"
	"slices"
)

// sortCandidates puts the host that suits a VM best first.
func sortCandidates(all []candidate) {
	slices.SortStableFunc(all, func(a, b candidate) int {
		return cmp.Or(
			cmp.Compare(min(len(a.problems), 1), min(len(b.problems), 1)),
			cmp.Compare(len(a.doubts), len(b.doubts)),
			compareBool(a.crowded, b.crowded),
			cmp.Compare(a.disputed, b.disputed),
			// What is off now is likely to run one day: what it would leave counts, even if that is less than nothing.
			-cmp.Compare(int64(a.free)-int64(a.resting), int64(b.free)-int64(b.resting)), //nolint:gosec // below 8 EiB
			-cmp.Compare(a.free, b.free),
		)
	})
}

// compareBool puts false before true.
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
