package status

import "testing"

// TestPlannedObjects_portGroups: a blocker for a port group goes with a network that declares it, or may.
func TestPlannedObjects_portGroups(t *testing.T) {
	t.Parallel()
	on := PlannedHosts{"kvm2": ""}
	for name, test := range map[string]struct {
		groups        []string
		declared, has bool
	}{
		"no network":  {nil, false, false},
		"the group":   {[]string{"", "eng"}, true, true},
		"another one": {[]string{"", "ops"}, true, false},
		"unknown":     {[]string{"", AnyPortGroup}, true, true},
	} {
		planned := PlannedObjects{}
		for _, group := range test.groups {
			planned[PortGroupOf("lan", group)] = on
		}
		declared, has := planned.PortGroup("kvm2", "lan", "eng")
		if declared != test.declared || has != test.has {
			t.Errorf("%s: declared %t, has %t", name, declared, has)
		}
		left := planned.Without("kvm2", []Blocker{{Lacks: PortGroupOf("lan", "eng")}})
		if (len(left) == 0) != test.has {
			t.Errorf("%s: %v", name, left)
		}
		if declared, has := planned.PortGroup("kvm1", "lan", "eng"); declared || has {
			t.Errorf("%s: it is on the other host, too", name)
		}
	}
}
