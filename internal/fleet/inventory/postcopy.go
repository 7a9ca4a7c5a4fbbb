package inventory

import (
	"context"
	"strings"
	"sync"
	"time"
)

// UserFaults is the kernel's setting that lets a QEMU that doesn't run as root receive a guest's memory page by page.
// Without it, post-copy is refused.
const UserFaults = "/proc/sys/vm/unprivileged_userfaultfd"

// postCopyAge is how long the kernel's setting is cached.
const postCopyAge = 5 * time.Minute

// postCopy is the cached setting of a host.
type postCopy struct {
	sync.Mutex

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

	h.postCopy.Lock()
	defer h.postCopy.Unlock()

	if time.Since(h.postCopy.at) < postCopyAge {
		return h.postCopy.refused
	}

	setting, err := h.Config.ReadEnd(ctx, UserFaults, 16)
	if err != nil {
		return false // older kernels don't have it, and allow every user
	}

	h.postCopy.at, h.postCopy.refused = time.Now(), strings.TrimSpace(string(setting)) == "0"

	return h.postCopy.refused
}
