package inventory

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A reading of the mounts that fails is an error, and isn't cached, unless the host never shows the file.
func TestMountTables(t *testing.T) {
	t.Parallel()
	synctest.Test(t, readMountTables)
}

func readMountTables(t *testing.T) {
	t.Helper()

	const fstab, mounts = "nas:/v /srv nfs defaults 0 0\n", "/dev/vda / ext4 rw 0 0\n"

	refused := fmt.Errorf("%w: exit status 1", ErrUnsupported)
	killed := errors.New("killed by signal KILL")

	type reading struct {
		fstab, mounts       string
		noFstab, noMounts   error
		wantFstab, wantText string
		fails               bool
	}

	shown := reading{fstab: fstab, mounts: mounts, wantFstab: fstab, wantText: mounts}

	for name, readings := range map[string][]reading{
		"shown":             {shown},
		"no fstab":          {{noFstab: refused, mounts: mounts, wantText: mounts}},
		"nothing is shown":  {{noFstab: refused, noMounts: refused}, shown},
		"fstab is unread":   {{noFstab: killed, mounts: mounts, fails: true}, shown},
		"mounts are unread": {{fstab: fstab, noMounts: killed, fails: true}, shown},
		"refused once":      {{fstab: fstab, noMounts: refused, fails: true}, shown},
		"fstab is refused":  {shown, {noFstab: refused, mounts: mounts, fails: true}, shown},
		"mounts are refused": {
			{noFstab: refused, mounts: mounts, wantText: mounts}, {noFstab: refused, noMounts: refused, fails: true},
		},
		"too long": {{fstab: fstab, mounts: strings.Repeat("x", mountTableSize), fails: true}, shown},
		"long": {{
			fstab: fstab, mounts: strings.Repeat(mounts, 20_000), wantFstab: fstab, wantText: strings.Repeat(mounts, 20_000),
		}},
	} {
		var (
			now   reading
			asked atomic.Int32
		)

		h := &Host{}
		h.Config.ReadEnd = func(_ context.Context, path string, n int) ([]byte, error) {
			asked.Add(1)

			text, err := now.fstab, now.noFstab
			if path == presentMounts {
				text, err = now.mounts, now.noMounts
			}

			return []byte(text[max(0, len(text)-n):]), err
		}

		for i := range readings {
			now = readings[i]

			planned, mounted, err := h.MountTables(t.Context())
			if planned != now.wantFstab || mounted != now.wantText || (err != nil) != now.fails {
				t.Errorf("%s, reading %d: %q, %d bytes, %v", name, i, planned, len(mounted), err)
			}

			before := asked.Load()
			if _, _, err := h.MountTables(t.Context()); (err != nil) != now.fails || (asked.Load() != before) != now.fails {
				t.Errorf("%s, reading %d: it asked %d times once more: %v", name, i, asked.Load()-before, err)
			}

			time.Sleep(mountsAge) //nolint:forbidigo // it is simulated time
		}
	}
}
