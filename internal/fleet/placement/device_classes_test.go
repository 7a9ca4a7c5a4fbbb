package placement

import (
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
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

			if tt.message != "" && (short.Message != tt.message || short.taken != tt.taken) {
				t.Errorf("it says %q, %t", short.Message, short.taken)
			}
		})
	}
}
