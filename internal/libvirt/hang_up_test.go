package libvirt

import (
	"sync"
	"testing"
	"time"
)

// Without socketBridge.hangUp, this crashes the process within a second or two, in four of five runs.
func TestLab_streamEndsUnderSeveralCalls(t *testing.T) {
	t.Parallel()
	const connections, cuts, steps = 4, 200, 60
	var all sync.WaitGroup
	for range connections {
		h, _, _ := labHost(t)
		all.Go(func() {
			for i := range cuts {
				c, err := h.reserveBridged(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				cut := time.AfterFunc(time.Duration(i%steps)*100*time.Microsecond, func() { c.bridge.stop() })
				_, err = c.readInfo() // The cut may come before any of its calls, among them or after them.
				if cut.Stop() && err != nil {
					t.Error(err)
				}
				c.endCall(true)
				c.retire()
			}
		})
	}
	all.Wait()
}
