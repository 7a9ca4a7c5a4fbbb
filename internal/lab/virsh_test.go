package lab

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestVirsh_keptOneAnswersAsANewOne(t *testing.T) {
	t.Parallel()
	l := Open(t)
	h := l.StartHost(t)
	l.Define(t, h.Name, fmt.Sprintf(domainXML, "looked-at", "", ""))
	long := strings.Repeat("long-", 40) + "name"
	l.Define(t, h.Name, fmt.Sprintf(domainXML, long, "", ""))
	same := func(when string) {
		t.Helper()
		for _, look := range []string{
			"domstate looked-at", "dumpxml looked-at --inactive", "list --all --name", "list", "domuuid looked-at",
			"pool-list --all", "domstate nowhere",
			"dumpxml --inactive " + long, "domstate --reason " + long,
		} {
			args := strings.Fields(look)
			want, wantErr := h.machine.run(t.Context(), "virsh", append([]string{"--quiet"}, args...)...)
			got, err := l.TryVirsh(t, h.Name, args...)
			if got != want || (err == nil) != (wantErr == nil) {
				t.Errorf("%s, %s: %q (%v), and a new virsh prints %q (%v)", look, when, got, err, want, wantErr)
			}
		}
	}
	same("at first")
	for name, state := range map[string]string{"looked-at": "shut off", long: "shut off", "looked": ""} {
		if is, has := l.State(t, h.Name, name), l.Has(t, h.Name, "list", name); is != state || has != (state != "") {
			t.Errorf("VM %s: %q, is there: %v", name, is, has)
		}
	}
	if _, err := shells.ask(t.Context(), h.SocketURI(), "dumpxml --inactive "+long); err != nil {
		t.Errorf("a long line isn't answered by the kept one: %v", err)
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() { same("four at a time") })
	}
	all.Wait()
	restart := l.KillLibvirtd(t, h)
	same("without libvirtd")
	restart()
	same("with a new libvirtd")
	shells.mu.Lock() // Tests beside this one look at their own hosts.
	kept := len(shells.idle[h.SocketURI()])
	shells.mu.Unlock()
	if kept == 0 || kept > keptShells {
		t.Errorf("%d are kept, want 1 to %d", kept, keptShells)
	}
}

func TestVirsh_endsWithItsContext(t *testing.T) {
	t.Parallel()
	l := Open(t)
	h := l.StartHost(t)
	l.Virsh(t, h.Name, "list")
	thaw := fault(t, h, "freezing libvirtd", h.FreezeLibvirtd, h.ThawLibvirtd)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if out, err := h.Virsh(ctx, "list"); err == nil || !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		t.Errorf("a frozen libvirtd answers %q (%v)", out, err)
	}
	thaw()
	l.Virsh(t, h.Name, "list")
}
