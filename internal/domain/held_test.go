package domain

import (
	"slices"
	"strings"
	"testing"
)

// TestHeld_needsARestart: a device that the guest hasn't released when it was asked is pending until a restart, keeps
// its PCI slot, and isn't asked for again, unless that is forgotten.
func TestHeld_needsARestart(t *testing.T) {
	t.Parallel()
	defined := parse(t, `<domain><os><type machine="pc">hvm</type></os><devices>`+
		`<controller type="pci" index="0" model="pci-root"/></devices></domain>`)
	record := Spec{}.Holding("interfaces.lan", true).Holding("devices.rng", true).RunXML()
	metadata := "<metadata>" + strings.NewReplacer( // as libvirt writes it
		"<run>", `<r:run xmlns:r="`+RunNamespace+`">`, "</run>", "</r:run>", "<held", "<r:held",
	).Replace(record) + "</metadata>"
	live := parse(t, `<domain id="1">`+metadata+`<os><type machine="pc">hvm</type></os><devices>`+
		`<controller type="pci" index="0" model="pci-root"/><interface type="user"><mac address="52:54:00:00:00:01"/>`+
		`<model type="virtio"/><alias name="ua-net-lan"/></interface>`+
		`<rng model="virtio"><backend model="random">/dev/urandom</backend></rng></devices></domain>`)
	running := live.Spec()
	if want := []string{"interfaces.lan", "devices.rng"}; !slices.Equal(running.Held, want) {
		t.Fatalf("held are %q", running.Held)
	}
	pending := Pending(running, defined.Spec())
	for _, c := range pending {
		if c.Live || c.Why != heldWhy {
			t.Errorf("pending is %+v", c)
		}
	}
	want := Spec{
		Interfaces: map[string]Interface{}, Values: Values{"devices.rng.model": None},
		Disks: map[string]Disk{"new": {Bus: "virtio", Source: DiskSource{File: "/a"}}},
	}
	running.FreeSlots = new(0)
	got := describeChanges(Changes(running, want))
	if got != "disks.new restart, interfaces.lan restart, devices.rng restart" || len(pending) != 2 {
		t.Errorf("the changes are %s, pending are %v", got, pending)
	}
	want.Disks = nil
	for asked, d := range map[bool]*Definition{false: live, true: live.ForgetHeld()} {
		steps, err := LiveSteps(d, defined, defined, want)
		if err != nil || asked != (len(steps) == 2) {
			t.Errorf("asked again: %t, the steps are %+v, %v", asked, steps, err)
		}
	}
	if given := running.Holding("interfaces.lan", false); !slices.Equal(given.Held, []string{"devices.rng"}) {
		t.Errorf("one is given back, held are %q", given.Held)
	}
}
