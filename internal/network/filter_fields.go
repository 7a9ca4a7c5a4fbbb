package network

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/beevik/etree"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// The fields that the protocols of a network filter's rules share.
const (
	macFields = " srcmacaddr srcmacmask dstmacaddr dstmacmask "
	arpFields = macFields + "hwtype protocoltype opcode gratuitous arpsrcmacaddr arpdstmacaddr " +
		"arpsrcipaddr arpsrcipmask arpdstipaddr arpdstipmask "
	ipFields   = " srcipaddr srcipmask dstipaddr dstipmask "
	overIP     = ipFields + "dscp srcmacaddr srcipfrom srcipto dstipfrom dstipto connlimit-above state ipset "
	portFields = " srcportstart srcportend dstportstart dstportend "
)

// filterFields are the fields of each protocol, apart from comment, as libvirt reads them (virAttr in its
// src/conf/nwfilter_conf.c). libvirt ignores a protocol or a field that it doesn't know: the rule then is for more
// packets than it says. ipsetflags is missing: libvirt drops ipset from a rule that has both.
var filterFields = func() map[string][]string {
	fields := map[string]string{
		"mac":  macFields + "protocolid",
		"vlan": macFields + "vlanid encap-protocol",
		"stp": "srcmacaddr srcmacmask type flags root-priority root-priority-hi root-address root-address-mask root-cost " +
			"root-cost-hi sender-priority sender-priority-hi sender-address sender-address-mask port port-hi age age-hi " +
			"max-age max-age-hi hello-time hello-time-hi forward-delay forward-delay-hi",
		"arp": arpFields, "rarp": arpFields,
		"ip":   macFields + ipFields + portFields + "protocol dscp",
		"ipv6": macFields + ipFields + portFields + "protocol type typeend code codeend",
		"igmp": overIP, "icmp": overIP + "type code", "icmpv6": overIP + "type code",
		"tcp": overIP + portFields + "option flags", "tcp-ipv6": overIP + portFields + "option",
	}
	for protocol, more := range map[string]string{
		"udp": portFields, "sctp": portFields, "udplite": "", "esp": "", "ah": "", "all": "",
	} {
		fields[protocol], fields[protocol+"-ipv6"] = overIP+more, overIP+more
	}
	split := map[string][]string{}
	for protocol, names := range fields {
		split[protocol] = strings.Fields(names + " comment")
		slices.Sort(split[protocol])
	}
	return split
}()

// wantedValue says what a field has to be if libvirt refuses the value; "" if it accepts it, or if another check of
// libvirt decides. Names of ports and hosts aren't values of libvirt.
func wantedValue(field, value string) string {
	_, notPort := strconv.ParseUint(value, 10, 16)
	// How an address may be shortened is libvirt's to say.
	isName := strings.Trim(value, "0123456789abcdefABCDEFxX.:") != ""
	switch ends := func(with string) bool { return strings.HasSuffix(field, with) }; {
	case strings.HasPrefix(value, "$"): // a variable, which each VM has a value for
	case (ends("portstart") || ends("portend")) && notPort != nil:
		return "a port from 0 to 65535, nor a variable such as $PORT"
	case (ends("ipaddr") || ends("ipfrom") || ends("ipto")) && isName:
		return "an IP address, nor a variable such as $IP"
	}
	return ""
}

// verifyRules returns an error if a rule has a protocol or a field that libvirt would ignore, or a value that it
// refuses.
func verifyRules(filter *etree.Element) error {
	for i, rule := range filter.SelectElements("rule") {
		for _, protocol := range rule.ChildElements() {
			known, ok := filterFields[protocol.Tag]
			if !ok {
				return fmt.Errorf("%w: rule %d: libvirt knows no protocol %q, so that the rule would be for every packet. The "+
					"protocols are %s", libvirt.ErrInvalid, i+1, protocol.Tag,
					strings.Join(slices.Sorted(maps.Keys(filterFields)), ", "))
			}
			for _, field := range protocol.Attr {
				if field.Key == "ipsetflags" {
					return fmt.Errorf("%w: rule %d: libvirt drops ipset from a rule with ipsetflags, so that the rule would be "+
						"for every packet of the protocol. Without ipsetflags, ipset has the flag src", libvirt.ErrInvalid, i+1)
				}
				if field.Key != "match" && !slices.Contains(known, field.Key) {
					return fmt.Errorf("%w: rule %d: libvirt knows no field %q of protocol %q, and would ignore it. The fields "+
						"are %s", libvirt.ErrInvalid, i+1, field.Key, protocol.Tag, strings.Join(known, ", "))
				}
				if want := wantedValue(field.Key, field.Value); want != "" {
					return fmt.Errorf("%w: rule %d: %s of protocol %q is %q, which isn't %s", libvirt.ErrInvalid, i+1, field.Key,
						protocol.Tag, field.Value, want)
				}
			}
		}
	}
	return nil
}
