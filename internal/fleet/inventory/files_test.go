package inventory

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"
)

// TestFindFiles_unknown: a host that doesn't answer in time is told apart from one that has the file, and VMs don't
// wait for it one after the other.
func TestFindFiles_unknown(t *testing.T) {
	t.Parallel()

	hangs := func(ctx context.Context, _ ...string) ([]string, error) {
		<-ctx.Done()

		return nil, ctx.Err()
	}
	refuses := func(context.Context, ...string) ([]string, error) { return nil, errors.New("no shell") }

	synctest.Test(t, func(t *testing.T) {
		inv := &Inventory{log: slog.New(slog.DiscardHandler)}
		slow := &Host{Name: "slow", Config: HostConfig{Absent: hangs}}
		second := make(chan time.Duration)

		for range 2 {
			go func() {
				began := time.Now()
				if got := inv.FindFiles(t.Context(), slow, []string{"/a"})["/a"]; got != FileUnknown {
					t.Errorf("a host that hangs: got %v, want %v", got, FileUnknown)
				}
				second <- time.Since(began)
			}()
		}

		if a, b := <-second, <-second; a != filesTimeout || b != filesTimeout {
			t.Errorf("looked until %v and %v, want both %v", a, b, filesTimeout)
		}

		silent := &Host{Name: "restricted", Config: HostConfig{Absent: refuses}}
		if got := inv.FindFiles(t.Context(), silent, []string{"/a"})["/a"]; got != fileUndecided {
			t.Errorf("a host that runs no programs for us: got %v, want %v", got, fileUndecided)
		}
	})
}
