package libvirt

import (
	"bytes"
	"errors"
	"log"
	"log/slog"
	"runtime"
	"strings"
	"testing"
)

// TestEventLoop_saysThatItFails: no event comes while it fails, so the log says why. The loop continues.
func TestEventLoop_saysThatItFails(t *testing.T) {
	var said bytes.Buffer
	before, output, flags := slog.Default(), log.Writer(), log.Flags()
	slog.SetDefault(slog.New(slog.NewTextHandler(&said, nil)))
	defer func() {
		slog.SetDefault(before)
		log.SetOutput(output) // SetDefault redirects it, and doesn't undo that.
		log.SetFlags(flags)
	}()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		runs := 0
		runEventLoop(func() error {
			if runs++; runs == 1 {
				return errors.New("no memory to poll")
			}
			runtime.Goexit()
			return nil
		})
	}()
	<-ended
	if text := said.String(); !strings.Contains(text, "level=WARN") || !strings.Contains(text, "no memory to poll") {
		t.Errorf("the log says %q", text)
	}
}
