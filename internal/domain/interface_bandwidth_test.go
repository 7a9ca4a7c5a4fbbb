package domain

import (
	"maps"
	"strings"
	"testing"
)

const floorDomain = `<domain id="1"><name>web</name><devices><interface type="network">` +
	`<mac address="52:54:00:00:00:01"/><source network="n"/>%s<model type="virtio"/><alias name="ua-net-lan"/>` +
	`</interface></devices></domain>`

// A guarantee stands on its own, and the other limits need an average. Only a network guarantees bandwidth.
func TestFloor_applied(t *testing.T) {
	t.Parallel()
	lan := func(i Interface) Spec { return Spec{Interfaces: map[string]Interface{"lan": i}} }
	values := func(v Values) Spec { return lan(Interface{Network: "n", Values: v}) }
	const limits = `<bandwidth><inbound average="500" peak="600" floor="800"/></bandwidth>`
	for name, test := range map[string]struct {
		have string
		want Spec
		has  string
	}{
		"added": {"", values(Values{inboundFloor: "300"}), `<inbound floor="300"/>`},
		"raised": {
			limits, values(Values{inboundFloor: "900"}), `<inbound average="500" peak="600" floor="900"/>`,
		},
		"removed":             {limits, values(Values{inboundFloor: "0"}), `<inbound average="500" peak="600"/>`},
		"without the average": {limits, values(Values{"bandwidth.inbound.average": "0"}), `<inbound floor="800"/>`},
		"all removed":         {limits, values(Values{"bandwidth.inbound.average": "0", inboundFloor: "0"}), ""},
		"another network":     {limits, lan(Interface{Network: "m"}), `<inbound average="500" peak="600" floor="800"/>`},
		"a bridge":            {limits, lan(Interface{Bridge: "b"}), `<inbound average="500" peak="600"/>`},
	} {
		d := parse(t, strings.Replace(strings.Replace(floorDomain, "%s", test.have, 1), ` id="1"`, "", 1))
		if err := d.Apply(test.want); err != nil {
			t.Fatal(err)
		}
		xml, err := d.XML()
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(xml, test.has) || strings.Contains(xml, "<bandwidth") != (test.has != "") {
			t.Errorf("%s: %s; want %s", name, xml, test.has)
		}
		if left := Changes(d.Spec(), test.want); len(left) > 0 {
			t.Errorf("%s: after the apply, the plan still has %v", name, left)
		}
	}
}

// A network guarantees the sum of what the interfaces of a VM ask for. A change asks it for everything again if the sum
// grows.
func TestFloor_sum(t *testing.T) {
	t.Parallel()
	floor := func(network, kb string) Interface {
		return Interface{Network: network, Values: Values{inboundFloor: kb}}
	}
	use := func(all map[string]Interface) HostUse { return Spec{Interfaces: all}.HostUse() }
	has := use(map[string]Interface{
		"a": floor("n", "300"), "b": floor("n", "500"), "c": floor("m", "70"), "d": floor("m", "0"), "e": {Network: "n"},
		"f": {Bridge: "n", Values: Values{inboundFloor: "9"}},
	})
	if want := (map[string]NetworkFloor{"n": {800, "b"}, "m": {70, "c"}}); !maps.Equal(has.Floors, want) {
		t.Errorf("the floors are %v; want %v", has.Floors, want)
	}
	for name, test := range map[string]struct{ a, want string }{
		"the same": {"300", ""}, "lowered": {"1", ""}, "raised": {"301", "interfaces.b.bandwidth.inbound.floor"},
	} {
		more := use(map[string]Interface{"a": floor("n", test.a), "b": floor("n", "500")}).Without(has).Floors
		if (len(more) > 0) != (test.want != "") || test.want != "" && more["n"].Path() != test.want {
			t.Errorf("%s: in addition to what it has, the VM asks for %v", name, more)
		}
	}
}

// libvirt connects a running interface anew for each update, before the old connection ends. So that its network hasn't
// to guarantee both, the old guarantee is taken away first.
func TestFloor_steps(t *testing.T) {
	t.Parallel()
	const limits = `<bandwidth><inbound floor="800"/></bandwidth>`
	for name, test := range map[string]struct {
		have string
		want Interface
		// floors are those of the updates, in this order.
		floors []string
	}{
		"added":           {"", Interface{Network: "n", Values: Values{inboundFloor: "800"}}, []string{"800"}},
		"raised":          {limits, Interface{Network: "n", Values: Values{inboundFloor: "900"}}, []string{"", "900"}},
		"removed":         {limits, Interface{Network: "n", Values: Values{inboundFloor: "0"}}, []string{""}},
		"another change":  {limits, Interface{Network: "n", LinkUp: new(false)}, []string{"", "800"}},
		"another network": {limits, Interface{Network: "m", Values: Values{inboundFloor: "800"}}, []string{"800"}},
	} {
		live := parse(t, strings.Replace(floorDomain, "%s", test.have, 1))
		steps, err := LiveSteps(live, nil, nil, Spec{Interfaces: map[string]Interface{"lan": test.want}})
		if err != nil {
			t.Fatal(err)
		}
		var floors []string
		for _, s := range steps {
			_, after, _ := strings.Cut(s.XML, `floor="`)
			floor, _, _ := strings.Cut(after, `"`)
			floors = append(floors, floor)
		}
		if strings.Join(floors, ",") != strings.Join(test.floors, ",") || len(floors) != len(test.floors) {
			t.Errorf("%s: %q; want %q", name, floors, test.floors)
		}
	}
}
