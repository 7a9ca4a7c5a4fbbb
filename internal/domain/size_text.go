package domain

import "fmt"

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
