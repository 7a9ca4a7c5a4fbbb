package migration

import (
	"path"
	"testing"
	"testing/synctest"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// silentHost is a host that doesn't answer.
func silentHost(t *testing.T) *libvirt.Host {
	t.Helper()
	return openSocket(t, "kvm1", path.Join(t.TempDir(), "none"))
}

// Once the run's time is over, a migration in post-copy gets the whole time in which it may copy nothing, however long
// ago it last brought memory, and gets it again whenever it brings some.
func TestWaitsInVain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		stopped := make(chan struct{})
		r := &run{stopped: stopped, progressed: time.Now(), switchedOver: true}
		expect := func(want bool, when string) {
			t.Helper()
			if got := r.postCopyStalled(); got != want {
				t.Errorf("%s: %v", when, got)
			}
		}
		<-time.After(time.Hour)
		expect(false, "there is time left")
		close(stopped)
		expect(false, "the time is over now")
		<-time.After(standstill)
		expect(false, "the time has been over for as long as it may copy nothing")
		<-time.After(pollInterval)
		expect(true, "longer than that")
		r.progressed = time.Now()
		<-time.After(standstill)
		expect(false, "memory came since")
		<-time.After(pollInterval)
		expect(true, "and no more came")
		r.switchedOver = false
		expect(false, "the guest is at the source, and the migration can be aborted")
	})
}
