package virtualmachine

import (
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
)

// TestPlan_deviceClass: a VM keeps the device that it was given as long as its host has it in the class. Another one is
// planned where the class leaves no choice, and known after the apply where it does.
func TestPlan_deviceClass(t *testing.T) {
	t.Parallel()
	part := func(address string) domain.HostPart {
		return domain.HostPart{Kind: domain.PCIDevice, ID: address}
	}
	const first, second, third = "0000:65:00.0", "0000:66:00.0", "0000:67:00.0"
	const another = "The device is another one"
	devices := map[string]map[string][]domain.HostPart{
		"kvm1": {"gpu": {part(first), part(second)}, "one": {part(third)}},
		"kvm2": {"gpu": {part(third)}},
		"kvm3": {"gpu": {part(first), part(second)}},
	}
	with := func(changed in) in { return minimal.with(in{"update_policy": "Restart"}).with(changed) }
	device := func(attributes in) in { return in{"devices": in{"host_devices": in{"a": attributes}}} }
	byClass := func(class string) in { return with(device(in{"class": class})) }
	for name, tt := range map[string]struct {
		config  in
		isNew   bool
		off     bool
		has     string // the address that the state has; "": first
		want    string // "": known after the apply
		changes string
		says    string
	}{
		"new, and anywhere":     {config: byClass("gpu"), isNew: true},
		"new, with a choice":    {config: byClass("gpu").with(in{"host": "kvm1"}), isNew: true},
		"new, without a choice": {config: byClass("gpu").with(in{"host": "kvm2"}), isNew: true, want: third},
		"it is kept":            {config: byClass("gpu"), want: first},
		"the second is kept":    {config: byClass("gpu"), has: second, want: second},
		"it left the class":     {config: byClass("gpu"), has: third, changes: "devices", says: another},
		"another class":         {config: byClass("one"), want: third, changes: "devices", says: another},
		"moved, with a choice":  {config: byClass("gpu").with(in{"host": "kvm3"}), off: true, changes: "devices host"},
		"moved, without a choice": {
			config: byClass("gpu").with(in{"host": "kvm2"}), off: true, want: third, changes: "devices host",
		},
		"a host that isn't configured": {
			config: byClass("gpu").with(in{"host": "kvm9"}), off: true, want: first, changes: "host",
		},
		"declared by its address from now on": {
			config: with(device(in{"type": "pci", "address": first})), want: first, changes: "devices",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			has := tt.has
			if has == "" {
				has = first
			}
			before := with(device(in{"type": "pci", "address": has}))
			vm := vmAfterApply(t, before)
			vm.Active = !tt.off
			vm.PersistentSpec.HostDevices["a"]["class"], vm.LiveSpec.HostDevices["a"]["class"] = "gpu", "gpu"
			p := planning{
				config: modelOf(t, tt.config), hosts: []string{"kvm1", "kvm2", "kvm3"},
				classes: func(host string) map[string][]domain.HostPart { return devices[host] },
			}
			if diags := p.config.validate(); diags.HasError() {
				t.Fatal(diagText(diags))
			}
			if !tt.isNew {
				plan := planning{config: modelOf(t, byClass("gpu"))}.plan()
				p.state = stateAfterCreate(observation{vm: vm}, &plan.planned)
				if !tt.off {
					p.live = vm.LiveSpec
				}
			}
			o := p.plan()
			planned, _ := open(o.planned.Devices)["host_devices"].(types.Map)
			a := open(elements(planned)["a"])
			address, kind := a.string("address"), a.string("type")
			if address.IsUnknown() != (tt.want == "") || text(address) != tt.want || kind.IsUnknown() != address.IsUnknown() {
				t.Errorf("planned are %s %s, want %q", kind, address, tt.want)
			}
			if tt.isNew {
				return
			}
			got := strings.Join(changedAttributes(p.state, &o.planned), " ")
			for _, part := range strings.Fields(tt.changes) {
				if !strings.Contains(" "+got+" ", " "+part+" ") {
					t.Errorf("changes are %s", got)
				}
			}
			if o.changed != (tt.changes != "") {
				t.Errorf("changed: %s", got)
			}
			if said := diagText(o.diags); !strings.Contains(said, tt.says) || tt.says == "" && said != "" {
				t.Errorf("it says %s", said)
			}
		})
	}
	for _, name := range []string{"type", "address"} {
		diags := modelOf(t, with(device(in{"class": "gpu", name: ""}))).validate()
		if !strings.Contains(diagText(diags), "chosen by its class") {
			t.Errorf("an empty %s: %s", name, diagText(diags))
		}
	}
	for name, attributes := range map[string]in{
		"class and address": {"class": "gpu", "type": "pci", "address": first},
		"class and type":    {"class": "gpu", "type": "pci"},
	} {
		if diags := modelOf(t, with(device(attributes))).validate(); !strings.Contains(diagText(diags), "not by both") {
			t.Errorf("%s: %s", name, diagText(diags))
		}
	}
}
