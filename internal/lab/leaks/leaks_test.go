package leaks

import (
	"testing"
	"time"

	"go.uber.org/goleak"
)

// tests are those of a package.
type tests func() int

func (run tests) Run() int { return run() }

// TestPatient_awaitsWhatEnds: a goroutine that ends later than goleak waits by itself isn't left. One that doesn't end
// is, also after the wait. Where a test has failed, nothing is awaited.
func TestPatient_awaitsWhatEnds(t *testing.T) {
	others := goleak.IgnoreCurrent()
	leaves := func(ended <-chan time.Time, code int) tests {
		return func() int {
			go func() { <-ended }()
			return code
		}
	}
	run := func(left tests, patience time.Duration) (int, error) {
		code := patient{left, []goleak.Option{others}, patience}.Run()
		return code, goleak.Find(others)
	}
	if code, err := run(leaves(time.After(2*time.Second), 0), time.Minute); code != 0 || err != nil {
		t.Errorf("after one that ends: %d, %v", code, err)
	}
	stop := make(chan time.Time)
	if code, err := run(leaves(stop, 0), time.Second); code != 0 || err == nil {
		t.Errorf("after one that stays: %d, %v", code, err)
	}
	began := time.Now()
	if code := (patient{leaves(stop, 1), []goleak.Option{others}, time.Hour}).Run(); code != 1 {
		t.Errorf("after a failed test: %d, and it took %v", code, time.Since(began))
	}
	close(stop)
}
