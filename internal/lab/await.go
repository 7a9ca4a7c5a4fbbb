package lab

import (
	"strings"
	"testing"
	"time"
)

const (
	// patience is how long a test waits for what comes by itself. It ends a test that has failed, and tells nothing of a
	// guest that is slow.
	patience = 5 * time.Minute
	// The pause between two looks is restFactor times as long as a look takes, within these limits. A look takes a process
	// where it asks virsh: tests that wait leave the processors to what they wait for. What they wait for may not last.
	shortestRest, longestRest = 50 * time.Millisecond, 500 * time.Millisecond
	restFactor                = 4
)

// Await waits until something is so, and fails the test when it isn't after five minutes.
func Await(t testing.TB, what string, so func() bool) {
	t.Helper()
	deadline := time.After(patience)
	for {
		began := time.Now()
		if so() {
			return
		}
		select {
		case <-time.After(min(max(shortestRest, restFactor*time.Since(began)), longestRest)):
		case <-deadline:
			t.Fatalf("waited %v for %s", patience, what)
		}
	}
}

// Copying says whether a migration of a domain has memory on its way from the host.
func (l *Lab) Copying(t testing.TB, host, name string) bool {
	t.Helper()
	out, err := l.TryVirsh(t, host, "domjobinfo", name)
	return err == nil && strings.Contains(out, "Memory processed")
}
