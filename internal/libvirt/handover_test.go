package libvirt

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

// The target's daemon is frozen when it is asked to start a guest whose memory has all come. Later it does so.
// Libvirt's client would let the guest continue at the source when it loses the target: it would run twice. So the
// source loses its client first, and its guest stays stopped.
func TestMigrate_neverRunsTwice(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	own := func() side {
		machine := l.StartHost(t)
		way := linkTo(machine)
		return side{open(t, Config{Name: machine.Name, URI: machine.URI(), Dial: way.Dial}), way, machine}
	}
	a, b := own(), own()
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	uuid, err := a.DefineDomain(t.Context(), fmt.Sprintf(`<domain type="qemu"><name>%s</name><memory unit="MiB">32</memory>
		<os><type arch="x86_64">hvm</type></os></domain>`, name))
	must(t, err)
	must(t, a.StartDomain(t.Context(), uuid))

	result := begin(t.Context(), uuid, a, b, Migration{Bandwidth: slowly})
	awaitJob(t, a, uuid, "memory to be on its way", copying)
	must(t, b.machine.FreezeLibvirtd(t.Context()))
	must(t, a.SetMigrationBandwidth(t.Context(), uuid, 8<<30, false))
	err = <-result
	want(t, err, ErrUnreachable)
	if e, ok := errors.AsType[*Error](err); !ok || e.Host != b.Name() {
		t.Errorf("it doesn't name the target: %v", err)
	}
	stopped := func() {
		t.Helper()
		if d, err := a.Domain(t.Context(), uuid); err != nil || d.State != Paused || d.Reason != ReasonMigration {
			t.Errorf("the source has it as %+v, %v", d, err)
		}
	}
	stopped()
	must(t, b.machine.ThawLibvirtd(t.Context()))
	eventually(t, "the target to start the guest", func() bool {
		d, err := b.Domain(t.Context(), uuid)
		return err == nil && d.State == Running
	})
	<-time.After(settled)
	stopped()
}

// settled is longer than a daemon takes to notice that a client has left.
const settled = 2 * time.Second
