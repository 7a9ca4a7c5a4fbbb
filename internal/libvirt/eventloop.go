package libvirt

import (
	"log/slog"
	"sync"
	"time"

	golibvirt "libvirt.org/go/libvirt"
)

// startEventLoop starts libvirt's event loop, once per process and before the first connection is opened.
var startEventLoop = sync.OnceValue(func() error {
	if err := golibvirt.EventRegisterDefaultImpl(); err != nil {
		return err
	}
	go runEventLoop(golibvirt.EventRunDefaultImpl)
	return nil
})

// runEventLoop serves libvirt's keepalive timers and events until the process ends; libvirt can't unregister an event
// loop. Tests that look for leaked goroutines ignore this function by name.
func runEventLoop(runOnce func() error) {
	for {
		if err := runOnce(); err != nil {
			// This fails only if poll fails, for lack of memory. Wait, so as not to occupy a CPU until that passes.
			slog.Warn("libvirt's event loop failed", "error", err.Error())
			<-time.After(100 * time.Millisecond)
		}
	}
}
