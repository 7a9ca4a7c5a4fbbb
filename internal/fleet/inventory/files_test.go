package inventory

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"testing"
	"testing/synctest"
	"time"
)

// TestFindFiles_unknown: a host that doesn't answer in time is told apart from one that has the file, and VMs don't
// wait for it one after the other.
func TestFindFiles_unknown(t *testing.T) {
	t.Parallel()

	hangs := func(ctx context.Context, _ ...string) (map[string]bool, error) {
		<-ctx.Done()

		return nil, ctx.Err()
	}
	refuses := func(context.Context, ...string) (map[string]bool, error) { return nil, errors.New("no shell") }

	synctest.Test(t, func(t *testing.T) {
		inv := &Inventory{log: slog.New(slog.DiscardHandler)}
		slow := &Host{Name: "slow", Config: HostConfig{Exist: hangs}}
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

		silent := &Host{Name: "restricted", Config: HostConfig{Exist: refuses}}
		if got := inv.FindFiles(t.Context(), silent, []string{"/a"})["/a"]; got != fileUndecided {
			t.Errorf("a host that runs no programs for us: got %v, want %v", got, fileUndecided)
		}
	})
}

// TestFilesOn: a file that the host's user may not see is neither there nor missing.
func TestFilesOn(t *testing.T) {
	t.Parallel()

	inv := &Inventory{log: slog.New(slog.DiscardHandler)}
	h := &Host{Name: "kvm1", Config: HostConfig{
		Exist: func(context.Context, ...string) (map[string]bool, error) {
			return map[string]bool{"/there": true, "/absent": false}, nil
		},
	}}
	want := map[string]bool{"/there": true, "/absent": false}

	for range 2 { // What was found isn't looked for again.
		if got := inv.FilesOn(t.Context(), h, []string{"/there", "/absent", "/unseen"}); !maps.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	}
}
