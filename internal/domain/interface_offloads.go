package domain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/beevik/etree"
)

// offloadRows are the offloads of virtio's network card, which the guest and its host agree on.
var offloadRows = []Attribute{
	offloads("host_offloads", "host", []string{"csum", "gso", "tso4", "tso6", "ecn", "ufo", "mrg_rxbuf"},
		"Offloads of packets from the guest, by name: `csum`, `gso`, `tso4`, `tso6`, `ecn`, `ufo`, and `mrg_rxbuf`. "+
			"`{ tso4 = false }` switches one off."),
	offloads("guest_offloads", "guest", []string{"csum", "tso4", "tso6", "ecn", "ufo"},
		"Offloads of packets to the guest, by name: `csum`, `tso4`, `tso6`, `ecn`, `ufo`."),
}

// offloads returns the attribute for the offloads with these names, which are attributes of one element of the driver.
func offloads(name, tag string, names []string, doc string) Attribute {
	return Attribute{
		Name: "driver." + name, Kind: Switches, Why: whenPlugged, Doc: doc,
		DefaultDoc: "QEMU's, which is on for each",
		Read: func(e *etree.Element) string {
			all := map[string]string{}
			for _, offload := range names {
				if value := attr(child(e, "driver", tag), offload); value != "" {
					all[offload] = map[bool]string{true: "yes", false: "no"}[value == "on"]
				}
			}
			return FormatTexts(all)
		},
		Write: func(e *etree.Element, value string) error {
			all, one := ParseTexts(value), child(e, "driver", tag)
			if len(all) > 0 {
				one = ensure(ensure(e, "driver"), tag)
			}
			if one == nil {
				return nil
			}
			for _, offload := range names {
				setAttr(one, offload, map[string]string{"yes": "on", "no": "off"}[all[offload]])
			}
			dropEmpty(one, e)
			return nil
		},
		Check: func(value string) string {
			for _, offload := range sortedKeys(ParseTexts(value)) {
				if !slices.Contains(names, offload) {
					return fmt.Sprintf("%q isn't one of %s.", offload, strings.Join(names, ", "))
				}
			}
			return ""
		},
	}
}
