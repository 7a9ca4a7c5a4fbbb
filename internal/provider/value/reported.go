package value

import "time"

// TextOrNull returns the text for a model of Go types, and nil for "". It is for facts where "" means not reported.
func TextOrNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// TimeOrNull returns the time in RFC 3339 for a model of Go types, and nil for the zero time.
func TimeOrNull(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	return new(t.UTC().Format(time.RFC3339))
}

// Whole converts a count or a number of bytes to Terraform's whole numbers.
func Whole(n uint64) int64 { return int64(n) } //nolint:gosec // No count and no size comes near 8 EiB.

// WholeOrNull returns the number for a model of Go types, and nil for one that wasn't reported.
func WholeOrNull[N int | uint64](n *N) *int64 {
	if n == nil {
		return nil
	}
	return new(int64(*n))
}
