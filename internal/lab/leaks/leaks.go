// Package leaks finds goroutines that tests have left, with patience for those that are about to end.
//
// It may import the standard library and goleak, and is for tests.
package leaks

import (
	"time"

	"go.uber.org/goleak"
)

// EventLoop is libvirt's event loop, which runs as long as the process does: libvirt offers no way to end it.
var EventLoop = goleak.IgnoreAnyFunction(
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt.runEventLoop")

// patience is how long a goroutine may take to end after the tests. goleak itself gives it less than half a second,
// which on a busy machine may pass before a goroutine whose connection was closed has run again.
const patience = 30 * time.Second

// Main runs the tests of a package, and fails if they have left goroutines that don't end.
func Main(m goleak.TestingM, ignored ...goleak.Option) {
	goleak.VerifyTestMain(patient{m, ignored, patience}, ignored...)
}

// patient returns from Run once no goroutines are left, at the latest when its patience is over.
type patient struct {
	goleak.TestingM

	ignored  []goleak.Option
	patience time.Duration
}

func (p patient) Run() int {
	code := p.TestingM.Run()
	deadline := time.Now().Add(p.patience)
	for code == 0 && time.Now().Before(deadline) && goleak.Find(p.ignored...) != nil {
		continue // A look waits for a while itself.
	}
	return code
}
