package network

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/beevik/etree"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// TestLab_filterFields: a host's libvirt keeps each protocol and each field that rules may have.
func TestLab_filterFields(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	h, err := libvirt.Open(libvirt.Config{Name: "kvm1", URI: l.Host("kvm1").SocketURI()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = h.Close() }()
	name := lab.Name(t)
	var want Filter
	for _, protocol := range slices.Sorted(maps.Keys(filterFields)) {
		for _, field := range filterFields[protocol] {
			match := map[string]string{field: "$V"}
			switch ip := protocol == "ip" || protocol == "ipv6"; {
			case field == "comment":
				match[field] = "a comment"
			case ip && (field == "protocol" || strings.Contains(field, "port")):
				match["protocol"] = "tcp"
			case ip && (strings.HasPrefix(field, "type") || strings.HasPrefix(field, "code")):
				match["protocol"] = "icmpv6"
			}
			want.Rules = append(want.Rules, FilterRule{
				Action: "drop", Direction: "in", Protocol: protocol, Match: match,
			})
		}
	}
	state, err := PutFilter(t.Context(), h, name, "", want)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := h.UndefineNWFilter(t.Context(), name); err != nil {
			t.Error(err)
		}
	}()
	document := etree.NewDocument()
	if err := document.ReadFromString(state.XML); err != nil {
		t.Fatal(err)
	}
	got := document.Root().SelectElements("rule")
	if len(got) != len(want.Rules) {
		t.Fatalf("libvirt has %d rules, not %d", len(got), len(want.Rules))
	}
	for i, rule := range want.Rules {
		protocol := got[i].SelectElement(rule.Protocol)
		for field, value := range rule.Match {
			if protocol == nil || protocol.SelectAttrValue(field, "") != value {
				t.Errorf("libvirt doesn't keep field %q of protocol %q", field, rule.Protocol)
			}
		}
	}
}

// What libvirt would ignore is refused, in rules and in XML, and so are ports and addresses that it refuses.
func TestFilter_unknownFields(t *testing.T) {
	t.Parallel()
	for want, f := range map[string]Filter{
		`no protocol "tpc"`: {Rules: []FilterRule{{Action: "accept", Direction: "in", Protocol: "tpc"}}},
		`rule 2: libvirt knows no field "dstportstrt" of protocol "tcp"`: {Rules: []FilterRule{
			{Action: "accept", Direction: "in", Protocol: "all"},
			{Action: "accept", Direction: "in", Protocol: "tcp", Match: map[string]string{"dstportstrt": "22"}},
		}},
		`rule 1: libvirt drops ipset`: {Rules: []FilterRule{
			{Action: "accept", Direction: "in", Protocol: "tcp", Match: map[string]string{"ipset": "a", "ipsetflags": "dst"}},
		}},
		`rule 1: dstportstart of protocol "tcp" is "http", which isn't a port from 0 to 65535`: {Rules: []FilterRule{
			{Action: "accept", Direction: "in", Protocol: "tcp", Match: map[string]string{"dstportstart": "http"}},
		}},
		`srcportend of protocol "udp-ipv6" is "65536"`: {Rules: []FilterRule{
			{Action: "accept", Direction: "in", Protocol: "udp-ipv6", Match: map[string]string{"srcportend": "65536"}},
		}},
		`srcipaddr of protocol "ip" is "gateway", which isn't an IP address`: {
			XML: `<filter><rule action="accept" direction="in"><ip srcipaddr="gateway"/></rule></filter>`,
		},
		`no field "DSTPORTSTART"`: {
			XML: `<filter><rule action="accept" direction="in"><tcp DSTPORTSTART="22"/></rule></filter>`,
		},
	} {
		if _, err := f.Document("f"); err == nil || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("want %s, got %v", want, err)
		}
	}
	f := Filter{XML: `<filter><rule action="accept" direction="in"><tcp match="no" dstportstart="22" dstportend="$PORT[1]"
		srcipaddr="192.0.2.1" srcipmask="24"/></rule></filter>`}
	if _, err := f.Document("f"); err != nil {
		t.Error(err)
	}
}
