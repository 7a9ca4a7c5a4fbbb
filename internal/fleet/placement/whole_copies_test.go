package placement

import (
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// TestWholeCopies: a copy that is whole is read once for all VMs, until it changes. One that isn't is read again.
func TestWholeCopies(t *testing.T) {
	t.Parallel()

	v := libvirt.Volume{Pool: "vms", Name: "base-0123456789ab", Path: "/vms/base-0123456789ab", Changed: "1.5"}
	changed, untimed := v, v
	changed.Changed, untimed.Changed = "2.5", ""

	reads, whole := 0, false
	read := func() (bool, error) {
		reads++

		return whole, nil
	}

	var w wholeCopies

	for i, c := range []struct {
		host   string
		volume libvirt.Volume
		whole  bool
		reads  int
	}{
		{host: "kvm1", volume: v, reads: 1},
		{host: "kvm1", volume: v, whole: true, reads: 2},
		{host: "kvm1", volume: v, whole: true, reads: 2},
		{host: "kvm2", volume: v, whole: true, reads: 3},
		{host: "kvm1", volume: changed, reads: 4},
		{host: "kvm1", volume: untimed, whole: true, reads: 5},
		{host: "kvm1", volume: untimed, whole: true, reads: 6},
	} {
		whole = c.whole
		if is, err := w.check(c.host, c.volume, read); is != c.whole || err != nil || reads != c.reads {
			t.Errorf("%d: %v, %v after %d reads, want %v after %d", i, is, err, reads, c.whole, c.reads)
		}
	}
}
