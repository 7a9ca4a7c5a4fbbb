package ssh

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

// refusalDelays are the pauses before a host that refused the credentials, or whose key was refused, is tried again:
// after the first refusal, the second and so on. Servers lock out clients that they have to refuse often. See
// Config.KeepTrying for what comes after the last.
var refusalDelays = []time.Duration{5 * time.Minute, 15 * time.Minute, time.Hour}

// refusal records that a host refused us, or that we refused the host.
type refusal struct {
	keepTrying bool

	mu    sync.Mutex
	err   error
	count int
	since time.Time
}

// standingError returns why a host isn't tried now; nil if it may be tried.
func (r *refusal) standingError() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		return nil
	}
	if r.count > len(refusalDelays) {
		if errors.Is(r.err, ErrAuth) && !r.keepTrying {
			return fmt.Errorf("%w (refused %d times: not tried any more by this process)", r.err, r.count)
		}
		r.count = len(refusalDelays) // Checking a host's key sends the host nothing.
	}
	delay := refusalDelays[r.count-1]
	if rest := delay - time.Since(r.since); rest > 0 {
		return fmt.Errorf("%w (not tried again for another %s)", r.err, rest.Round(time.Second))
	}
	return nil
}

// noteOutcome records the outcome of an attempt.
func (r *refusal) noteOutcome(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err == nil:
		r.err, r.count = nil, 0
	case errors.Is(err, ErrAuth) || errors.Is(err, ErrHostKey):
		r.err, r.since = err, time.Now()
		r.count++
	}
}
