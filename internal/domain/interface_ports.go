package domain

import (
	"cmp"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"github.com/beevik/etree"
)

// portRows are the ports of the host that passt forwards to the guest: one <portForward> for each text, in the order
// of the texts.
var portRows = []Attribute{forwarded("tcp"), forwarded("udp")}

// forwarded returns the attribute with the forwarded ports of a protocol.
func forwarded(protocol string) Attribute {
	return Attribute{
		Name: "backend." + protocol + "_ports", Kind: Words, Since: "9.0.0", Why: whenPlugged,
		Normal: func(value string) string {
			all := ParseWords(value)
			for i, one := range all {
				if forward, err := parseForward(one); err == nil {
					all[i] = forward.String()
				}
			}
			return FormatWords(all)
		},
		Read: func(e *etree.Element) string {
			if attr(e, "type") != "user" || attr(child(e, "backend"), "type") != "passt" {
				return "" // libvirt keeps the element there, too, and ignores it.
			}
			var all []string
			for _, one := range forwards(e, protocol) {
				all = append(all, readForward(one).String())
			}
			return FormatWords(all)
		},
		Write: func(e *etree.Element, value string) error {
			for _, one := range forwards(e, protocol) {
				drop(one)
			}
			for _, text := range ParseWords(value) {
				forward, err := parseForward(text)
				if err != nil {
					return err
				}
				forward.write(add(e, "portForward", "proto", protocol))
			}
			return nil
		},
		Check: func(value string) string {
			for _, text := range ParseWords(value) {
				if _, err := parseForward(text); err != nil {
					return err.Error()
				}
			}
			return ""
		},
		Doc: strings.ToUpper(protocol) + " ports of the host that passt forwards, as `[address][%device]/ports`: " +
			"`2022:22`, `5000-5020:6000,~5010`, `192.0.2.7/80`, `%eth0/all`. `~` excludes. Each must be free on the host.",
	}
}

// forward says which ports of the host are forwarded to the guest.
type forward struct {
	// address and device are where the host listens; "": everywhere.
	address, device string
	// ranges are the ports; none: all.
	ranges []portRange
}

// portRange is one range as libvirt has it, as texts; "" is not said.
type portRange struct {
	start, end, to string
	exclude        bool
}

var rangePattern = regexp.MustCompile(`^(~?)([0-9]+)(?:-([0-9]+))?(?::([0-9]+))?$`)

// parseForward reads what String writes.
func parseForward(text string) (forward, error) {
	wrong := func(what string) (forward, error) { return forward{}, fmt.Errorf("%q %s", text, what) }
	var f forward
	where, ports, there := strings.Cut(text, "/")
	if !there {
		where, ports = "", text
	}
	if address, device, _ := strings.Cut(where, "%"); where != "" {
		if f.device = device; address != "" {
			parsed, err := netip.ParseAddr(address)
			if err != nil {
				return wrong("has no IP address before the /.")
			}
			f.address = parsed.String()
		}
	}
	if ports == "all" {
		return f, nil
	}
	for _, one := range strings.Split(ports, ",") {
		parts := rangePattern.FindStringSubmatch(one)
		if parts == nil {
			return wrong("isn't ports such as 2022:22, 5000-5020:6000,~5010 or all.")
		}
		r := portRange{start: parts[2], end: parts[3], to: parts[4], exclude: parts[1] != ""}
		for _, port := range []string{r.start, cmp.Or(r.end, r.start), cmp.Or(r.to, r.start)} {
			if n, ok := number(port); !ok || n < 1 || n > 65535 {
				return wrong("has a port that isn't a number from 1 to 65535.")
			}
		}
		start, _ := number(r.start)
		end, _ := number(cmp.Or(r.end, r.start))
		to, _ := number(cmp.Or(r.to, r.start))
		switch {
		case end < start:
			return wrong("has a range that ends before it begins.")
		case to+end-start > 65535:
			return wrong("forwards to ports above 65535.")
		case r.exclude && r.to != "":
			return wrong("excludes ports and says where they go.")
		}
		f.ranges = append(f.ranges, r)
	}
	return f, nil
}

// String returns the forwarded ports as users declare them.
func (f forward) String() string {
	where := f.address
	if f.device != "" {
		where += "%" + f.device
	}
	if where != "" {
		where += "/"
	}
	if len(f.ranges) == 0 {
		return where + "all"
	}
	all := make([]string, len(f.ranges))
	for i, r := range f.ranges {
		if all[i] = r.start; r.exclude {
			all[i] = "~" + r.start
		}
		if r.end != "" {
			all[i] += "-" + r.end
		}
		if r.to != "" {
			all[i] += ":" + r.to
		}
	}
	return where + strings.Join(all, ",")
}

// forwards returns the elements that forward ports of a protocol.
func forwards(e *etree.Element, protocol string) []*etree.Element {
	return slices.DeleteFunc(children(e, "portForward"), func(one *etree.Element) bool {
		return attr(one, "proto") != protocol
	})
}

func readForward(e *etree.Element) forward {
	f := forward{address: attr(e, "address"), device: attr(e, "dev")}
	for _, r := range children(e, "range") {
		f.ranges = append(f.ranges, portRange{
			start: attr(r, "start"), end: attr(r, "end"), to: attr(r, "to"), exclude: attr(r, "exclude") == "yes",
		})
	}
	return f
}

func (f forward) write(e *etree.Element) {
	setAttr(e, "address", f.address)
	setAttr(e, "dev", f.device)
	for _, r := range f.ranges {
		one := add(e, "range", "start", r.start)
		setAttr(one, "end", r.end)
		setAttr(one, "to", r.to)
		if r.exclude {
			setAttr(one, "exclude", "yes")
		}
	}
}
