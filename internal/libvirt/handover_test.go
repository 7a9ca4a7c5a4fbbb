package libvirt

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

// The target's daemon is frozen when it is asked to start guests whose memory has all come. Later it does so. Libvirt's
// client would let the guests continue at the source when it loses the target: they would run twice. So the source
// loses its client first, and its guests stay stopped. All ways to the daemons on which this can be ensured are tried.
//
// A daemon that sees at the same moment that a client has left and that there is something to read, as it does on a
// unix socket when it is thawed, reads one message and no more. So the order to start the guest must be the first
// message: if a keepalive request came before it, the daemon would remove the guest instead.
func TestMigrate_neverRunsTwice(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	machines := [2]*lab.Host{l.StartHost(t), l.StartHost(t)}
	authority := lab.NewAuthority(t)
	// The target accepts clients without a certificate.
	settings, err := os.OpenFile(machines[1].Path("/etc/libvirt/libvirtd.conf"), os.O_APPEND|os.O_WRONLY, 0)
	must(t, err)
	_, err = settings.WriteString("\ntls_no_verify_certificate = 1\n")
	must(t, errors.Join(err, settings.Close()))
	for _, machine := range machines {
		l.Listen(t, machine, authority)
	}
	certificates := map[*lab.Host]string{machines[0]: authority.Client(t), machines[1]: authority.Client(t)}
	for _, file := range []string{"clientcert.pem", "clientkey.pem"} {
		must(t, os.Remove(filepath.Join(certificates[machines[1]], file)))
	}
	type guest struct {
		way, uuid string
		a, b      side
		result    <-chan error
	}
	var guests []*guest
	for way, uri := range map[string]func(*lab.Host) string{
		"ssh":  (*lab.Host).URI,
		"unix": (*lab.Host).SocketURI,
		"tcp":  func(h *lab.Host) string { return "qemu+tcp://" + h.Address + "/system" },
		"tls":  func(h *lab.Host) string { return "qemu+tls://" + h.Address + "/system?pkipath=" + certificates[h] },
	} {
		var both [2]side
		for i, machine := range machines {
			link := linkTo(machine)
			cfg := Config{Name: machine.Name, URI: uri(machine), Dial: link.Dial, quiet: machine == machines[1]}
			both[i] = side{open(t, cfg), link, machine}
		}
		g := &guest{way: way, a: both[0], b: both[1]}
		name := lab.Name(t)
		l.RemoveDomain(t, name)
		var err error
		// Much memory takes time even where there is nothing in it.
		g.uuid, err = g.a.DefineDomain(t.Context(), fmt.Sprintf(`<domain type="qemu"><name>%s</name>
			<memory unit="GiB">3</memory><os><type arch="x86_64">hvm</type></os></domain>`, name))
		must(t, err)
		must(t, g.a.StartDomain(t.Context(), g.uuid))
		guests = append(guests, g)
	}

	for _, g := range guests {
		g.result = begin(t.Context(), g.uuid, g.a, g.b, Migration{Bandwidth: slowly})
		awaitJob(t, g.a, g.uuid, "memory to be on its way", copying)
		// libvirt's slowest is not slow enough: now nothing arrives before the target is frozen.
		_, err := g.a.QMP(t.Context(), g.uuid, "migrate-set-parameters", map[string]int{"max-bandwidth": 10 << 10})
		must(t, err)
	}
	must(t, machines[1].FreezeLibvirtd(t.Context()))
	for _, g := range guests {
		must(t, g.a.SetMigrationBandwidth(t.Context(), g.uuid, 8<<30, false))
	}
	stopped := func(g *guest) {
		t.Helper()
		if d, err := g.a.Domain(t.Context(), g.uuid); err != nil || d.State != Paused || d.Reason != ReasonMigration {
			t.Errorf("%s: the source has it as %+v, %v", g.way, d, err)
		}
	}
	for _, g := range guests {
		err := <-g.result
		if e, ok := errors.AsType[*Error](err); !ok || e.Host != g.b.Name() || !errors.Is(err, ErrUnreachable) {
			t.Errorf("%s: it isn't the target that can't be reached: %v", g.way, err)
		}
		stopped(g)
	}
	must(t, machines[1].ThawLibvirtd(t.Context()))
	for _, g := range guests {
		eventually(t, "the target to start the guest: "+g.way, func() bool {
			d, err := g.b.Domain(t.Context(), g.uuid)
			return err == nil && d.State == Running
		})
	}
	<-time.After(settled)
	for _, g := range guests {
		stopped(g)
	}
}

// settled is longer than a daemon takes to notice that a client has left.
const settled = 2 * time.Second
