package migration

import (
	"errors"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

func TestLab_tlsTakesCertificates(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	source, target := l.StartHost(t), l.StartHost(t)
	b := newBenchOn(t, l, source, target, "")
	refused := func(when string) {
		t.Helper()
		state, err := b.run(t.Context(), t, Options{Transport: TransportTLS}, nil)
		if !errors.Is(err, ErrNoTLS) || state.FailurePlane != PlaneControl || state.Transport != TransportTLS {
			t.Errorf("%s: state %+v: %v", when, state, err)
		}
		b.runsOnlyOn(t, b.source, b.target)
	}
	refused("without certificates")
	a := lab.NewAuthority(t)
	a.Equip(t, l, target, source.Address)
	refused("without one at the source")
	a.Equip(t, l, source, source.Address)
	refused("with one for another address")
	a.Equip(t, l, target, target.Address)
	state, err := b.run(t.Context(), t, Options{Transport: TransportTLS}, nil)
	if err != nil || state.Transport != TransportTLS {
		t.Fatalf("state %+v: %v", state, err)
	}
	b.runsOnlyOn(t, b.target, b.source)
}
