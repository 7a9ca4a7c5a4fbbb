package storage

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// TestProgress: the log hears how far it is, how fast, and how long it takes still; and of the end in any case.
func TestProgress(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	p := newProgress(slog.New(slog.NewTextHandler(&log, nil)), "uploading an image", "host", "kvm1", 200)
	for done, want := range map[uint64][]string{
		50:  {`msg="uploading an image" host=kvm1`, "bytes=50", "bytes_per_second=", "percent=25", "left="},
		200: {"percent=100", "left=0s"},
	} {
		log.Reset()
		p.last = time.Time{} // Long ago.
		p.reach(done)
		for _, text := range want {
			if !strings.Contains(log.String(), text) {
				t.Errorf("at %d the log says %q; want %q", done, log.String(), text)
			}
		}
	}
}
