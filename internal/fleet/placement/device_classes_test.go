package placement

import (
	"maps"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
)

// A device that no VM has is picked before one of a VM that is off. One that another VM has is left to a VM that stays
// off. A shortage says who has what, and whether it would be there without them.
func TestDeviceChoice(t *testing.T) {
	t.Parallel()

	part := func(id string) domain.HostPart { return domain.HostPart{Kind: domain.PCIDevice, ID: id} }
	held, resting, own, gone, free := part("held"), part("resting"), part("own"), part("gone"), part("free")
	choice := deviceChoice{
		lacks:   func(p domain.HostPart) bool { return p == gone },
		holders: map[domain.HostPart]string{held: "x"}, resting: map[domain.HostPart]bool{resting: true},
		own: map[domain.HostPart]bool{own: true}, starts: true,
	}

	type class = []domain.HostPart

	for name, tt := range map[string]struct {
		class   class
		want    domain.HostPart
		rests   domain.HostPart // what a VM that stays off gets
		taken   bool
		message string
	}{
		"a free one":      {class{held, resting, gone, own, free}, free, free, false, ""},
		"of a VM at rest": {class{held, resting}, resting, resting, false, ""},
		"none is left": {
			class{own, held, gone},
			domain.HostPart{},
			held, true, `has no free device of class "gpu": pci device own is another device of this VM, ` +
				`pci device held is given to VM "x", pci device gone isn't there`,
		},
		"none is there": {
			class{gone},
			domain.HostPart{},
			domain.HostPart{},
			false, `has no free device of class "gpu": pci device gone isn't there`,
		},
		"no class": {nil, domain.HostPart{}, domain.HostPart{}, false, `has no devices of class "gpu"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			if got, ok := choice.pick(tt.class); got != tt.want || ok != (tt.message == "") {
				t.Errorf("picked %v", got)
			}

			off := choice
			off.starts = false

			if got, _ := off.pick(tt.class); got != tt.rests {
				t.Errorf("a VM that stays off gets %v", got)
			}

			unusable := choice
			unusable.noIOMMU = true

			if got, ok := unusable.pick(tt.class); ok {
				t.Errorf("without an IOMMU it picks %v", got)
			}

			if resting, off := tt.rests, unusable; resting != (domain.HostPart{}) {
				off.starts = false
				if got, _ := off.pick(tt.class); got != resting {
					t.Errorf("without an IOMMU a VM that stays off gets %v", got)
				}
			}

			short := choice.shortage("a", "gpu", tt.class)
			if lacked := unusable.shortage("a", "gpu", []domain.HostPart{free}); lacked.Message !=
				`has no free device of class "gpu": pci device free can't be given to a VM, because its kernel uses no IOMMU` ||
				lacked.remedy == "" {
				t.Errorf("without an IOMMU it says %+v", lacked)
			}

			if tt.message != "" && (short.Message != tt.message || (short.reason == migration.HostResourcesTaken) != tt.taken) {
				t.Errorf("it says %q, %s", short.Message, short.reason)
			}
		})
	}
}

// Devices of all kinds are given out by class. An IOMMU is needed for PCI devices only.
func TestDeviceChoice_kinds(t *testing.T) {
	t.Parallel()

	const uuid = "5a9fc181-957e-5c32-9e5a-2de5e9673531"

	for listed, want := range map[string]domain.Row{
		"pci:0000:65:00.0": {"class": "c", "type": "pci", "address": "0000:65:00.0"},
		"usb:1234:abcd":    {"class": "c", "type": "usb", "address": "1234:abcd"},
		"scsi:0:0:1:0":     {"class": "c", "type": "scsi", "address": "0:0:1:0"},
		"mdev:" + uuid:     {"class": "c", "type": "mdev", "address": uuid},
	} {
		part, ok := domain.ParseHostDevice(listed)
		if !ok {
			t.Fatalf("%q is no device", listed)
		}

		spec := domain.Spec{HostDevices: map[string]domain.Row{"a": {"class": "c"}, "b": {"class": "c"}}}
		choice := deviceChoice{
			lacks: func(domain.HostPart) bool { return false }, own: map[domain.HostPart]bool{}, starts: true, noIOMMU: true,
		}

		if _, picked := choice.pick([]domain.HostPart{part}); picked != (want["type"] != "pci") {
			t.Errorf("without an IOMMU, %s is picked: %t", listed, picked)
		}

		choice.noIOMMU = false

		got, picked := choice.pick([]domain.HostPart{part})
		if !picked {
			t.Fatalf("%s isn't picked", listed)
		}

		choice.assign(spec, "a", got)

		if again, twice := choice.pick([]domain.HostPart{part}); twice {
			t.Errorf("%v is given out twice", again)
		}

		if !maps.Equal(spec.HostDevices["a"], want) || spec.HostUse().Alone[part] == "" {
			t.Errorf("the VM is given %v, want %v", spec.HostDevices["a"], want)
		}

		holder := deviceChoice{
			lacks: choice.lacks, holders: map[domain.HostPart]string{part: "x"}, starts: true,
		}
		if _, taken := holder.pick([]domain.HostPart{part}); taken {
			t.Errorf("%s is picked, and another VM has it", listed)
		}
	}
}
