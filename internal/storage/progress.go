package storage

import (
	"log/slog"
	"sync"
	"time"
)

// progressEvery is how often the progress of a long operation is logged.
const progressEvery = 5 * time.Second

// progress logs the progress of an operation: percent, rate and the remaining time.
type progress struct {
	log         *slog.Logger
	what        string
	key, value  string
	total       uint64
	began, last time.Time

	mu   sync.Mutex
	done uint64
}

func newProgress(log *slog.Logger, what, key, value string, total uint64) *progress {
	now := time.Now()
	return &progress{log: log, what: what, key: key, value: value, total: total, began: now, last: now}
}

// Write counts data that is read through an io.TeeReader.
func (p *progress) Write(data []byte) (int, error) {
	p.mu.Lock()
	done := p.done + uint64(len(data))
	p.mu.Unlock()
	p.reach(done)
	return len(data), nil
}

// reach records how much is done.
func (p *progress) reach(done uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done = done
	now := time.Now()
	if now.Sub(p.last) < progressEvery && (done < p.total || p.total == 0) {
		return
	}
	p.last = now
	elapsed := now.Sub(p.began)
	rate := float64(done) / max(elapsed.Seconds(), 0.001)
	attrs := []any{p.key, p.value, "bytes", done, "bytes_per_second", uint64(rate)}
	if p.total > 0 {
		left := time.Duration(float64(p.total-min(done, p.total)) / max(rate, 1) * float64(time.Second))
		attrs = append(attrs, "percent", 100*done/p.total, "left", left.Round(time.Second).String())
	}
	p.log.Info(p.what, attrs...)
}
