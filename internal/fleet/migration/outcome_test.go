package migration

import (
	"errors"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

func TestClassify_whereTheVMIs(t *testing.T) {
	t.Parallel()
	is := func(state libvirt.DomainState, reason string) hostView {
		return hostView{domain: &libvirt.Domain{State: state, Reason: reason}}
	}
	running, paused, off := is(libvirt.Running, "Booted"), is(libvirt.Paused, "User"), is(libvirt.Shutoff, "Migrated")
	waiting, broken := is(libvirt.Paused, "Migration"), is(libvirt.Paused, "PostcopyFailed")
	defined := hostView{domain: &libvirt.Domain{State: libvirt.Shutoff, Reason: "Shutdown", Persistent: true}}
	absent, silent := hostView{}, hostView{err: errors.New("no answer")}
	tests := map[string]struct {
		source, target hostView
		want           location
	}{
		"arrived":                             {absent, running, arrived},
		"arrived, definition left behind":     {off, running, arrived},
		"arrived paused, as it was":           {absent, paused, arrived},
		"arrived, source silent":              {silent, running, arrived},
		"stayed":                              {running, absent, stayed},
		"stayed paused, as it was":            {paused, absent, stayed},
		"stayed, definition on the target":    {running, off, stayed},
		"stayed, target silent":               {running, silent, stayed},
		"shut down at the source":             {off, absent, stayed},
		"target not removed yet":              {running, waiting, undecided},
		"handed over right now":               {waiting, waiting, undecided},
		"source not resumed yet":              {waiting, absent, undecided},
		"post-copy broken":                    {broken, running, inPostCopy},
		"post-copy broken, on both":           {broken, is(libvirt.Running, "PostcopyFailed"), inPostCopy},
		"two copies":                          {running, running, onBothHosts},
		"arrived, and went off there":         {absent, defined, arrived},
		"arrived, a transient guest went off": {absent, off, gone},
		"may have arrived, source silent":     {silent, defined, unknown},
		"nowhere":                             {absent, absent, gone},
		"target waits, source silent":         {silent, waiting, unknown},
		"source waits, target silent":         {waiting, silent, unknown},
		"both silent":                         {silent, silent, unknown},
		"source gone, target silent":          {absent, silent, unknown},
		"source silent, nothing on target":    {silent, absent, unknown},
		"off at source, still on the target":  {off, waiting, undecided},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := classify(tt.source, tt.target); got != tt.want {
				t.Errorf("got %d, want %d", got, tt.want)
			}
		})
	}
}

// Only a guest that is paused at its source because it was handed over in post-copy has left.
func TestHandedOver(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		source hostView
		want   bool
	}{
		"handed over":             {hostView{domain: &libvirt.Domain{State: libvirt.Paused, Reason: "Postcopy"}}, true},
		"handed over and broken":  {hostView{domain: &libvirt.Domain{State: libvirt.Paused, Reason: "PostcopyFailed"}}, true},
		"switch not yet made":     {hostView{domain: &libvirt.Domain{State: libvirt.Running, Reason: "Booted"}}, false},
		"stopped for the switch":  {hostView{domain: &libvirt.Domain{State: libvirt.Paused, Reason: "Migration"}}, false},
		"running on its target":   {hostView{domain: &libvirt.Domain{State: libvirt.Running, Reason: "Postcopy"}}, false},
		"off":                     {hostView{domain: &libvirt.Domain{State: libvirt.Shutoff, Reason: "Migrated"}}, false},
		"absent":                  {hostView{}, false},
		"its host doesn't answer": {hostView{err: errors.New("no answer")}, false},
	} {
		if got := tt.source.switchedOver(); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
