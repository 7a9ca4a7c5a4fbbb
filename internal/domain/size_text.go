package domain

import (
	"fmt"
	"strconv"
)

// FormatSize returns a size in the unit in which users configure it, such as "2Gi". It is for messages that compare a
// required size with an available one.
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

// exactSize returns a size in whole KiB in the largest unit in which it is a whole number: "2Mi".
func exactSize(bytes uint64) string {
	for _, unit := range []struct {
		size uint64
		name string
	}{{1 << 30, "Gi"}, {mib, "Mi"}} {
		if bytes%unit.size == 0 {
			return strconv.FormatUint(bytes/unit.size, 10) + unit.name
		}
	}

	return strconv.FormatUint(bytes/kib, 10) + "Ki"
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
