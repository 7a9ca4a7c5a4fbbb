package placement

import (
	"maps"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/evacuation"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
)

// A move waits for the bandwidth that the same apply gives a network, and the remedy is that of bandwidths.
func TestShortageBlockers_bandwidth(t *testing.T) {
	t.Parallel()

	floor := domain.HostUse{Floors: map[string]domain.NetworkFloor{"lan": {Sum: 600, Interface: "a"}}}
	has := offer{guarantees: map[string]migration.Guarantee{"lan": {Limit: 1000, By: "bandwidth.inbound.average"}}}
	short := has.missingBandwidth(floor, map[string]domain.HostUse{"x": floor})

	blockers := shortageBlockers("kvm1", short, "")
	if len(blockers) != 1 || blockers[0].Remedy != short[0].remedy ||
		blockers[0].Lacks != (status.HostObject{Kind: status.NetworkBandwidth, Name: "lan"}) {
		t.Error(blockers)
	}
}

// Only a PCI device of a class has a ROM.
func TestStrayROM(t *testing.T) {
	t.Parallel()

	for kind, refused := range map[string]bool{domain.PCIDevice: false, domain.USBDevice: true, domain.MdevDevice: true} {
		row := domain.HostPart{Kind: kind, ID: "x"}.Assign(domain.Row{"class": "c", "rom_file": "/rom"})
		spec := domain.Spec{HostDevices: map[string]domain.Row{"a": row}}

		short := strayROM(spec, "a", "c")
		if (len(short) > 0) != refused || refused && short[0].Path != "devices.host_devices.a.rom_file" {
			t.Errorf("%s: %v", kind, short)
		}

		if own := spec.Unassigned().HostDevices["a"]; own["rom_file"] != "/rom" || own["class"] != "c" || len(own) != 2 {
			t.Errorf("%s: what is declared is %v", kind, own)
		}
	}
}

// What others have of a network's bandwidth and devices and of the processor's slots isn't left. A device that another
// VM has by its address isn't left either.
func TestOffer_sharesLeft(t *testing.T) {
	t.Parallel()

	lan := evacuation.Share{Kind: evacuation.Bandwidth, Of: "lan"}
	vf := evacuation.Share{Kind: evacuation.NetworkDevices, Of: "vf"}
	slots := evacuation.Share{Kind: evacuation.SecuritySlots, Of: string(domain.SlotSEV)}
	has := offer{networks: map[string][]string{"vf": {"0000:01:00.1", "0000:01:00.2", "0000:01:00.3"}}}

	left := has.sharesLeft(map[evacuation.Share]uint64{lan: 1000, vf: 3, slots: 1}, map[string]domain.HostUse{
		"x": {Floors: map[string]domain.NetworkFloor{"lan": {Sum: 600}}, Networks: map[string][]string{"vf": {"nic"}}},
		"y": {
			Alone: map[domain.HostPart]string{{Kind: domain.PCIDevice, ID: "0000:01:00.2"}: "devices.host_devices.a.address"},
			Slot:  domain.SlotSEVES,
		},
		"z": {Slot: domain.SlotSEV},
		"u": {Slot: domain.SlotSEV}, // More than there are.
	})

	if want := (map[evacuation.Share]uint64{lan: 400, vf: 1, slots: 0}); !maps.Equal(left, want) {
		t.Errorf("left %v, want %v", left, want)
	}
}
