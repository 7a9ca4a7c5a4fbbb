package lab

import (
	"testing"
	"time"
)

const (
	// patience is how long a test waits for what is to come by itself. It ends a test that has failed, and says nothing of
	// how long a guest takes to boot where many do.
	patience = 5 * time.Minute
	// awaitInterval is the shortest pause between two looks.
	awaitInterval = 50 * time.Millisecond
	// restFactor is how many times as long as a look took its pause is. A look takes a process where it asks virsh: tests
	// that wait are to leave the processors to what they wait for.
	restFactor = 4
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
		case <-time.After(max(awaitInterval, restFactor*time.Since(began))):
		case <-deadline:
			t.Fatalf("waited %v for %s", patience, what)
		}
	}
}
