package placement

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/records"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// A start waits for the other run unless both may wait for each other, and never for longer than its operation has
// time.
func TestPatience(t *testing.T) {
	t.Parallel()

	here, there := &inventory.Host{Name: "here"}, &inventory.Host{Name: "there"}
	other := func(uuid string, on *inventory.Host) contender {
		return contender{on: on, entry: inventory.NewEntry(libvirt.Domain{UUID: uuid})}
	}

	for name, tt := range map[string]struct {
		room, returns bool
		other         contender
		want          time.Duration
	}{
		"the lower UUID":                     {false, false, other("c", here), rivalPatience},
		"the higher UUID":                    {false, false, other("a", here), yieldingPatience},
		"the room that the other may want":   {true, false, other("c", here), roomPatience},
		"the room of another host":           {true, false, other("c", there), rivalPatience},
		"the higher UUID, with room":         {true, false, other("a", here), yieldingPatience},
		"shut down by this run, lower UUID":  {false, true, other("c", here), returnPatience},
		"shut down by this run, higher UUID": {false, true, other("a", here), returnPatience},
	} {
		permit := StartPermit{uuid: "b", on: here, room: tt.room, returns: tt.returns}
		if got := permit.patienceFor(tt.other); got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}

	if got := inTimeOf(t.Context(), returnPatience); got > returnPatience {
		t.Errorf("%s is too long", got)
	}

	for left, most := range map[time.Duration]time.Duration{
		time.Minute: time.Minute - startReserve, time.Second: yieldingPatience, time.Hour: returnPatience,
	} {
		ctx, cancel := context.WithTimeout(t.Context(), left)
		if got := inTimeOf(ctx, returnPatience); got > most || got < most-5*time.Second {
			t.Errorf("with %s left: %s, want about %s", left, got, most)
		}

		cancel()
	}
}

// Whatever kept the other VM's lock from this run, the error names both VMs, and isn't that of a call without an
// answer: nothing was started.
func TestContender_notLocked(t *testing.T) {
	t.Parallel()

	o := contender{
		on: &inventory.Host{Name: "kvm2"}, entry: inventory.NewEntry(libvirt.Domain{Name: "other", UUID: "a"}),
		reason: "its disk is shared",
	}
	vm := &inventory.VM{UUID: "b", Host: "kvm1", On: &inventory.Host{Name: "kvm1"}, Entry: &inventory.Entry{}}
	vm.Name = "this"

	for _, tt := range []struct {
		cause  error
		detail string
		remedy string
	}{
		{
			&inventory.Error{Kind: records.ErrLocked, Err: context.DeadlineExceeded, Detail: "bob is updating it"},
			"bob is updating it", "until that run has ended",
		},
		{context.DeadlineExceeded, "not taken in time", `until host "kvm2" answers`},
		{inventory.ErrUnreachable, "not taken in time", `until host "kvm2" answers`},
	} {
		err := o.notLocked(vm, tt.cause)

		var e *inventory.Error
		if !errors.Is(err, ErrShared) || errors.Is(err, context.DeadlineExceeded) ||
			errors.Is(err, inventory.ErrUnreachable) || !errors.As(err, &e) || e.VM != "this" ||
			!strings.Contains(e.Detail, `"other"`) || !strings.Contains(e.Detail, tt.detail) ||
			!strings.Contains(e.Remedy, tt.remedy) {
			t.Errorf("%v: %+v", tt.cause, err)
		}
	}
}
