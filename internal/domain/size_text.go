package domain

import (
	"fmt"
	"strconv"
)

// Sizes are written in these forms. Each has one function, which all packages use:
//
//   - ExactSize is a value: "1536Mi". It loses nothing, and is what attributes and suggested values have. formatPage is
//     the same for attributes that only accept Ki, Mi and Gi.
//   - FormatSize compares what is required with what is available: "2Gi", or "3072Mi" for a little more than 3 GiB.
//   - FormatProgress says how much was copied, or how fast: "46.1 MiB". It is rounded, and can't be configured.

// ExactSize returns a size exactly, with the largest binary suffix that leaves a whole number: 2147483648 is "2Gi",
// 1610612736 is "1536Mi", 1000 is "1000". It is for values: what an attribute has, and what a user could write instead.
func ExactSize(bytes uint64) string { return exactly(bytes, "", "Ki", "Mi", "Gi", "Ti", "Pi") }

// formatPage returns the size of a page or of a part of a cache, a whole number of KiB, as users configure it: "2Mi".
func formatPage(bytes uint64) string { return exactly(bytes/kib, "Ki", "Mi", "Gi") }

// exactly writes n, in units of the first suffix, with the largest suffix that leaves a whole number. Each suffix is
// 1024 times the one before.
func exactly(n uint64, suffixes ...string) string {
	i := 0
	for n > 0 && n%1024 == 0 && i < len(suffixes)-1 {
		n /= 1024
		i++
	}
	return strconv.FormatUint(n, 10) + suffixes[i]
}

// FormatSize returns a size in the unit in which users configure it, such as "2Gi". It is for messages that compare a
// required size with an available one: a size that isn't a whole number of GiB is rounded to MiB, a small one to KiB.
func FormatSize(bytes uint64) string {
	const ki, mi, gi, ti = 1 << 10, 1 << 20, 1 << 30, 1 << 40

	switch {
	case bytes >= ti && bytes%ti == 0:
		return fmt.Sprintf("%dTi", bytes/ti)
	case bytes >= gi && bytes%gi == 0:
		return fmt.Sprintf("%dGi", bytes/gi)
	case bytes < mi, bytes%mi != 0 && bytes < 16*mi:
		return fmt.Sprintf("%dKi", (bytes+ki-1)/ki)
	default:
		return fmt.Sprintf("%dMi", bytes/mi)
	}
}

// FormatProgress returns, rounded, how much of something was copied or remains, or a rate: "46.1 MiB".
func FormatProgress(bytes uint64) string {
	const unit = 1024
	if bytes < unit {
		return fmt.Sprintf("%d B", bytes)
	}

	value, units := float64(bytes)/unit, "KMGTPE"

	i := 0
	for value >= 1000 && i < len(units)-1 {
		value, i = value/unit, i+1
	}

	return fmt.Sprintf("%.1f %ciB", value, units[i])
}
