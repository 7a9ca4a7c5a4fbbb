package virtualmachine

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// TestText_whatIsAcceptedConverges: modules pass "" for what they don't set, and heredocs end in a line break. Whatever
// a text of the definition is written as, it is refused or the next plan is empty.
func TestText_whatIsAcceptedConverges(t *testing.T) {
	t.Parallel()
	count := 0
	walkSchema("", definitionAttributes, func(at string, a schema.Attribute) {
		if _, ok := a.(schema.StringAttribute); !ok || !a.GetType().Equal(types.StringType) {
			return
		}
		if !a.IsRequired() && !a.IsOptional() {
			return // It can't be declared.
		}
		count++
		steps := strings.Split(at, ".")
		for _, text := range []string{"", " ", "x", "/x", " /x", "/x ", "/x\n", "x/y", "52:54:00:AA:BB:CC"} {
			i := typicalOf(steps, text)
			config := modelOf(t, i)
			if config.validate().HasError() || (planning{config: config}).validatePlanned(config).HasError() {
				continue
			}
			plan := planning{config: config}.plan()
			for name, problem := range plannedOtherwise(config, &plan.planned) {
				t.Errorf("%s = %q: %s is planned as %s", at, text, name, problem)
			}
			seen := observation{vm: mustMake(t, config), addresses: map[string][]string{"lan": {"10.0.0.2"}}}
			var now model
			now.fromFleet(seen, stateAfterCreate(seen, &plan.planned))
			o := planning{config: config, state: &now, live: seen.vm.LiveSpec}.plan()
			if o.changed || o.diags.HasError() {
				t.Errorf("%s = %q is planned again: %v %s", at, text, changedAttributes(&now, &o.planned), diagText(o.diags))
			}
		}
	})
	if count < 15 {
		t.Errorf("only %d texts were tried", count)
	}
}

// typicalOf is a VM that says text at a path, as the schema has it.
func typicalOf(steps []string, text string) in {
	i := minimal.with(in{
		"disks":      in{"root": in{"file": "/images/root.qcow2"}},
		"interfaces": in{"lan": in{"network": "default"}},
	})
	set := func(block in, name string) in { return block.with(in{name: text}) }
	switch {
	case len(steps) == 1:
		return i.with(in{steps[0]: text})
	case steps[0] == "disks" && len(steps) == 5: // disks.*.network.auth
		network := in{"protocol": "rbd", "name": "p/i", "hosts": []string{"h"}}
		auth := set(in{"username": "u", "secret": "6a9ae2dc-22f3-4d0c-a8d8-0a9b2f1dca11"}, steps[4])
		return i.with(in{"disks": in{"root": in{"network": network.with(in{steps[3]: auth})}}})
	case steps[0] == "disks" && len(steps) == 4 && steps[2] != "network":
		return i.with(in{"disks": in{"root": in{"file": "/images/root.qcow2", steps[2]: in{steps[3]: text}}}})
	case steps[0] == "disks" && len(steps) == 4:
		network := in{"protocol": "nbd", "name": "n", "hosts": []string{"h"}}
		return i.with(in{"disks": in{"root": in{"network": set(network, steps[3])}}})
	case steps[0] == "disks" && (steps[2] == "file" || steps[2] == "block" || steps[2] == "volume"):
		return i.with(in{"disks": in{"root": in{"device": "cdrom", "bus": "sata", steps[2]: text}}})
	case steps[0] == "disks":
		return i.with(in{"disks": in{"root": in{"file": "/images/root.qcow2", steps[2]: text}}})
	case steps[0] == "interfaces" && (steps[2] == "network" || steps[2] == "bridge"):
		return i.with(in{"interfaces": in{"lan": in{steps[2]: text}}})
	case steps[0] == "interfaces" && steps[2] == "direct":
		direct := in{"device": "eth0", "mode": "bridge"}.with(in{steps[3]: text})
		return i.with(in{"interfaces": in{"lan": in{"direct": direct}}})
	case steps[0] == "interfaces" && len(steps) == 4:
		return i.with(in{"interfaces": in{"lan": in{"network": "default", steps[2]: in{steps[3]: text}}}})
	case steps[0] == "interfaces":
		return i.with(in{"interfaces": in{"lan": in{"network": "default", steps[2]: text}}})
	case steps[0] == "kernel":
		return i.with(in{"kernel": in{"path": "/k", "initrd": "", "cmdline": ""}.with(in{steps[1]: text})})
	case steps[0] == "cpu" && steps[1] == "model":
		return i.with(in{"cpu": in{"mode": "custom", "model": text}})
	case steps[0] == "cpu" && len(steps) == 4 && steps[1] != "numa": // A scheduler.
		return i.with(in{"cpu": in{steps[1]: in{"0": in{steps[3]: text}}}})
	case steps[0] == "cpu" && steps[1] == "numa":
		return i.with(in{"cpu": in{"numa": in{"0": in{"cpus": "0", "memory": "1Gi"}.with(in{steps[3]: text})}}})
	case len(steps) == 5: // memory.numatune.cells
		cell := in{"mode": "strict", "nodeset": "0"}.with(in{steps[4]: text})
		return i.with(in{steps[0]: in{steps[1]: in{steps[2]: in{"0": cell}}}})
	case steps[0] == "platform" && len(steps) == 4: // platform.seclabel
		label := in{"type": "static", "label": "1:1"}.with(in{steps[3]: text})
		return i.with(in{"platform": in{steps[1]: in{"dac": label}}})
	case steps[0] == "devices" && len(steps) == 4:
		device := map[string]in{
			"inputs": {"type": "tablet"}, "serials": {"type": "file", "path": "/f"}, "channels": {"type": "unix", "name": "n"},
			"filesystems":  {"target": "t", "source": "/s"},
			"host_devices": {"type": "usb", "address": "1234:abcd"},
		}[steps[1]]
		return i.with(in{"devices": in{steps[1]: in{"a": device.with(in{steps[3]: text})}}})
	case len(steps) == 3:
		return i.with(in{steps[0]: in{steps[1]: in{steps[2]: text}}})
	default:
		return i.with(in{steps[0]: in{steps[1]: text}})
	}
}

// plannedOtherwise lists the declared texts that are planned as something else, which Terraform refuses.
func plannedOtherwise(config, planned *model) map[string]string {
	found := map[string]string{}
	var compare func(at string, c, p attr.Value)
	compare = func(at string, c, p attr.Value) {
		switch c := c.(type) {
		case types.Object:
			if o, ok := p.(types.Object); ok && isSet(c) {
				for name, v := range open(c) {
					compare(at+"."+name, v, open(o)[name])
				}
			}
		case types.Map:
			if m, ok := p.(types.Map); ok && isSet(c) {
				for key, v := range c.Elements() {
					compare(at+"."+key, v, m.Elements()[key])
				}
			}
		default:
			if isSet(c) && (p == nil || !c.Equal(p)) {
				found[at] = fmt.Sprint(p)
			}
		}
	}
	for _, p := range attributePairs(definitionAttributes, config, planned) {
		compare(p.name, p.a, p.b)
	}
	return found
}
