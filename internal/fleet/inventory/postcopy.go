package inventory

import (
	"context"
	"strings"
	"time"
)

// UserFaults is the kernel's setting that lets a QEMU that doesn't run as root receive a guest's memory page by page.
// Without it, post-copy is refused.
const UserFaults = "/proc/sys/vm/unprivileged_userfaultfd"

// postCopyAge is how long the kernel's setting is cached.
const postCopyAge = 5 * time.Minute

// postCopySetting is what a host's kernel says of post-copy.
type postCopySetting struct {
	at      time.Time
	refused bool
}

// RefusesPostCopy reports whether the host's kernel is known to refuse post-copy to its QEMU as the target. It returns
// false for QEMU 8.0 and newer, which has another way to request it.
func (h *Host) RefusesPostCopy(ctx context.Context) bool {
	a, err := h.Conn.Info(ctx)
	if err != nil || h.Config.ReadEnd == nil || a.Driver != "QEMU" || a.QEMUUser == "" || a.QEMUUser == "0" ||
		a.HypervisorVersion.AtLeast(8, 0, 0) {
		return false
	}

	current := func(s postCopySetting) bool { return time.Since(s.at) < postCopyAge }

	s, err := h.postCopy.getIf(ctx, "", current, func(ctx context.Context) (postCopySetting, error) {
		setting, err := h.Config.ReadEnd(ctx, UserFaults, 16)

		return postCopySetting{at: time.Now(), refused: strings.TrimSpace(string(setting)) == "0"}, err
	})

	return err == nil && s.refused // older kernels don't have it, and allow every user
}
