package inventory

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestQEMULog(t *testing.T) {
	t.Parallel()

	const (
		libvirt = "2026-11-21 15:04:27.100+0000: "
		start   = libvirt + "starting up libvirt version: 9.0.0\nLC_ALL=C \\\n/usr/bin/qemu \\\n-msg timestamp=on\n"
		leaves  = libvirt + "initiating migration"
		down    = "2026-11-21 15:05:00.250+0000: shutting down, reason=crashed"
		refused = "2026-11-21T15:04:27.200Z qemu: refused"
		console = "char device redirected to /dev/pts/1 (label charserial0)"
	)

	began := time.Date(2026, 11, 21, 15, 4, 27, 100_000_000, time.UTC)
	ended := time.Date(2026, 11, 21, 15, 5, 0, 250_000_000, time.UTC)
	never := time.Time{}
	again := strings.Fields(strings.Repeat("again ", 12))

	for name, test := range map[string]struct {
		text  string
		log   QEMULog
		words []string
	}{
		"empty":   {"", QEMULog{}, nil},
		"nothing": {start, QEMULog{Started: began}, nil},
		"words": {
			start + refused + "\n\nno date\n",
			QEMULog{[]string{refused, "no date"}, began, never, ""},
			[]string{refused, "no date"},
		},
		"stopped without a reason": {
			start + libvirt + "shutting down", QEMULog{[]string{libvirt + "shutting down"}, began, began, ""}, nil,
		},
		"routine": {start + console + "\n" + down, QEMULog{[]string{console, down}, began, ended, "crashed"}, nil},
		"the last time": {
			start + "old\n" + down + "\n" + start + "new",
			QEMULog{[]string{"new"}, began, never, ""},
			[]string{"new"},
		},
		"since it left": {
			start + "old\n" + leaves + "\nnew\r\n",
			QEMULog{[]string{"old", leaves, "new"}, began, never, ""},
			[]string{"new"},
		},
		"it has arrived": {
			strings.Replace(start, "-msg", "-incoming defer \\\n-msg", 1) + refused,
			QEMULog{[]string{refused}, never, never, ""},
			[]string{refused},
		},
		"it was restored": {
			strings.Replace(start, "-msg", "-incoming fd:31 \\\n-msg", 1), QEMULog{Started: began}, nil,
		},
		"cut off": {
			"-device x' \\\n-msg timestamp=on\n" + refused,
			QEMULog{Lines: []string{refused}},
			[]string{refused},
		},
		"too much": {strings.Join(again, "\n"), QEMULog{Lines: again}, again[2:]},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			log := parseQEMULog(test.text)
			if diff := cmp.Diff(test.log, log, cmpopts.EquateEmpty()); diff != "" {
				t.Error(diff)
			}

			if diff := cmp.Diff(test.words, log.Failure(), cmpopts.EquateEmpty()); diff != "" {
				t.Error(diff)
			}
		})
	}
}
