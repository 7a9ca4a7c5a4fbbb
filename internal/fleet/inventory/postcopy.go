package inventory

import (
	"context"
	"strings"
	"sync"
	"time"
)

// UserFaults is the kernel's setting that lets a QEMU which doesn't run as root take a guest's memory page by page:
// post-copy is refused without it.
const UserFaults = "/proc/sys/vm/unprivileged_userfaultfd"

// postCopyAge is how long it is remembered what a host's kernel lets QEMU do.
const postCopyAge = 5 * time.Minute

// postCopy is what a host was seen to let QEMU do.
type postCopy struct {
	sync.Mutex

	at      time.Time
	refused bool
}

// RefusesPostCopy says that QEMU on the host is known not to be let receive a guest in post-copy. Newer versions of
// QEMU have another way to ask for it.
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
		return false // Older kernels don't have it, and let every user.
	}

	h.postCopy.at, h.postCopy.refused = time.Now(), strings.TrimSpace(string(setting)) == "0"

	return h.postCopy.refused
}
