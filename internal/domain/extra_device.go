package domain

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/beevik/etree"
)

// ExtraDevices is the attribute for devices that no other attribute describes. Users write each of them as XML, as an
// element of <devices>. Its key is in its alias.
const ExtraDevices = "extra_device_xml"

var extraKind = kind{path: ExtraDevices, prefix: "ua-extra-"}

// extraPath returns the attribute that declares a device as XML, "" if none does.
func extraPath(e *etree.Element) string {
	if key := extraKind.alias(e); key != "" {
		return join(ExtraDevices, key)
	}
	return ""
}

// withoutAlias are the elements whose alias libvirt doesn't keep, so the provider couldn't find them again.
var withoutAlias = []string{"audio", "devices", "domain", "emulator", "lease", "redirfilter"}

var extraBlock = block{
	kind: &extraKind,
	rules: map[string]rule{
		ExtraDevices + ".* added":   {effect: restart, why: "The device is added when the VM starts."},
		ExtraDevices + ".* removed": {effect: restart, why: "The device is removed when the VM starts the next time."},
		ExtraDevices + ".*":         {effect: restart, why: "The device is replaced when the VM starts."},
	},
	read:     func(d *Definition, s *Spec) { s.ExtraDevices = d.readExtraDevices() },
	apply:    func(d *Definition, want Spec) error { return d.applyExtraDevices(want.ExtraDevices) },
	classify: classifyExtraDevices,
	validate: func(s Spec, c *checker) {
		for _, key := range sortedKeys(s.ExtraDevices) {
			path, problem := join(ExtraDevices, key), extraProblem(s.ExtraDevices[key])
			c.require(keyPattern.MatchString(key), path, `Keys consist of letters, digits, "-" and "_".`)
			c.require(problem == "", path, problem)
		}
	},
	normal: func(s *Spec) {
		if s.ExtraDevices == nil {
			return
		}
		s.ExtraDevices = maps.Clone(s.ExtraDevices)
		for key, xml := range s.ExtraDevices {
			s.ExtraDevices[key] = NormalDeviceXML(xml)
		}
	},
	texts: map[string]func(a, b string) bool{
		ExtraDevices + ".*": sameDevice,
	},
}

// NormalDeviceXML returns an element in one form: without comments and layout, and with its attributes in order. Text
// that isn't an element is returned unchanged.
func NormalDeviceXML(xml string) string {
	e, err := parseDevice(xml)
	if err != nil {
		return xml
	}
	return normalElement(e)
}

// sameDevice reports whether two elements say the same.
func sameDevice(a, b string) bool {
	one, errA := parseDevice(a)
	other, errB := parseDevice(b)
	return a == b || errA == nil && errB == nil && hasAll(one, other) && hasAll(other, one)
}

func normalElement(e *etree.Element) string {
	e = e.Copy()
	tidy(e)
	return render(e)
}

// tidy removes everything that has no meaning in a definition.
func tidy(e *etree.Element) {
	e.SortAttrs()
	e.Child = slices.DeleteFunc(e.Child, func(token etree.Token) bool {
		switch token := token.(type) {
		case *etree.Element:
			return false
		case *etree.CharData:
			token.Data = strings.TrimSpace(token.Data)
			return token.Data == ""
		default:
			return true
		}
	})
	e.ReindexChildren()
	for _, c := range e.ChildElements() {
		tidy(c)
	}
}

// parseDevice parses exactly one element.
func parseDevice(xml string) (*etree.Element, error) {
	doc := newDocument()
	if err := doc.ReadFromString(xml); err != nil {
		return nil, err
	}
	roots := doc.ChildElements()
	if len(roots) != 1 {
		return nil, fmt.Errorf("there are %d elements", len(roots))
	}
	for _, token := range doc.Child {
		if data, ok := token.(*etree.CharData); ok && !isLayout(data) {
			return nil, errors.New("there is text outside of the element")
		}
	}
	return roots[0], nil
}

// extraProblem says what is wrong with a device that is declared as XML, and returns "" if nothing is.
func extraProblem(xml string) string {
	e, err := parseDevice(xml)
	switch {
	case err != nil:
		return fmt.Sprintf("It isn't the XML of one element below <devices>: %v.", err)
	case e.Space != "" || attr(e, "xmlns") != "":
		return "It is an element of another namespace, which libvirt would drop."
	case child(e, "alias") != nil:
		return "It has an <alias>, which is derived from the key. Leave it out."
	case slices.Contains(withoutAlias, e.Tag):
		return fmt.Sprintf("<%s> can't be declared here: libvirt keeps no alias of it, by which it would be found again.",
			e.Tag)
	}
	if path := describedBy(e); path != "" {
		return fmt.Sprintf("<%s> has attributes of its own. Declare it with %s.", e.Tag, path)
	}
	return ""
}

// describedBy returns the attribute that describes such an element, and "" if there is none.
func describedBy(e *etree.Element) string {
	for _, f := range Families {
		if f.Tag == e.Tag && (f.Skip == nil || !f.Skip(e)) {
			return f.Path
		}
	}
	for _, g := range deviceGroups {
		if g.Device == e.Tag && (g.Skip == nil || !g.Skip(e)) {
			return g.Path
		}
	}
	switch {
	case e.Tag == "disk":
		return "disks"
	case e.Tag == "interface":
		return "interfaces"
	case e.Tag == "memory", e.Tag == "memballoon":
		return "memory"
	case e.Tag == "console" && !onVirtio(e):
		return "devices.serials" // libvirt derives it from a serial port.
	case e.Tag == "channel" && attr(child(e, "target"), "name") == agentChannel:
		return "guest_agent"
	default:
		return ""
	}
}

// extraElements returns the devices with our alias by key.
func (d *Definition) extraElements() map[string]*etree.Element {
	found := map[string]*etree.Element{}
	for _, list := range children(d.root(), "devices") {
		for _, e := range list.ChildElements() {
			if key := extraKind.alias(e); key != "" {
				found[key] = e
			}
		}
	}
	return found
}

// readExtraDevices returns, for each device, the declared XML if the device still has everything in it. Otherwise it
// returns the device's actual XML.
func (d *Definition) readExtraDevices() map[string]string {
	elements := d.extraElements()
	found := make(map[string]string, len(elements))
	if len(elements) == 0 {
		return found
	}
	declared := d.Metadata().ExtraDevices
	for key, e := range elements {
		if want, err := parseDevice(declared[key]); err == nil && hasAll(e, want) {
			found[key] = normalElement(want)
			continue
		}
		is := e.Copy()
		dropChildren(is, "alias", "address")
		found[key] = normalElement(is)
	}
	return found
}

// hasAll reports whether an element has everything that want has. libvirt adds values that it chose, and writes numbers
// and sizes in its own form.
func hasAll(e, want *etree.Element) bool {
	if e.Tag != want.Tag || !sameSize(e, want) && text(want) != "" && !sameWord(text(e), text(want)) {
		return false
	}
	for _, a := range want.Attr {
		if a.Key == "unit" && sameSize(e, want) {
			continue
		}
		if e.SelectAttr(a.FullKey()) == nil || !sameWord(e.SelectAttrValue(a.FullKey(), ""), a.Value) {
			return false
		}
	}
	return haveAll(e.ChildElements(), want.ChildElements())
}

// haveAll reports whether each wanted element matches a different one of the existing elements.
func haveAll(have, want []*etree.Element) bool {
	if len(want) == 0 {
		return true
	}
	for i, e := range have {
		if hasAll(e, want[0]) && haveAll(slices.Delete(slices.Clone(have), i, i+1), want[1:]) {
			return true
		}
	}
	return false
}

// sameSize reports whether both elements are sizes, and equal. The unit of a size without a unit depends on the device:
// bytes or KiB.
func sameSize(e, want *etree.Element) bool {
	is, isSize := size(e)
	declared, isDeclared := size(want)
	if !isSize || !isDeclared || attr(e, "unit") == "" {
		return false
	}
	return is == declared || attr(want, "unit") == "" && is == declared/kib
}

// sameWord reports whether two texts are equal or the same number, such as 0x1A and 26.
func sameWord(a, b string) bool {
	inA, errA := strconv.ParseUint(a, 0, 64)
	inB, errB := strconv.ParseUint(b, 0, 64)
	return a == b || errA == nil && errB == nil && inA == inB
}

// busOfExtra returns the bus that a device needs a place on of which nothing else is known. Devices of other families
// are counted with them.
func busOfExtra(e *etree.Element) bus {
	if e.Tag == "shmem" {
		return busConventional
	}
	return busNone
}

// applyExtraDevices removes, replaces and adds devices with our alias. Other devices stay as they are.
func (d *Definition) applyExtraDevices(want map[string]string) error {
	if want == nil {
		return nil
	}
	have, elements := d.readExtraDevices(), d.extraElements()
	for key, e := range elements {
		if !sameDevice(want[key], have[key]) {
			drop(e)
		}
	}
	var problems []error
	for _, key := range sortedKeys(want) {
		if _, there := have[key]; there && sameDevice(want[key], have[key]) {
			continue
		}
		e, err := parseDevice(want[key])
		if err != nil {
			problems = append(problems, Problem{join(ExtraDevices, key), extraProblem(want[key])})
			continue
		}
		e = e.Copy()
		tidy(e)
		extraKind.setAlias(e, key)
		d.addDevice(e)
	}
	return errors.Join(problems...)
}

func classifyExtraDevices(c *classifier) {
	if c.want.ExtraDevices == nil {
		return
	}
	for _, key := range sortedKeys(c.have.ExtraDevices) {
		want, stays := c.want.ExtraDevices[key]
		switch path := join(ExtraDevices, key); {
		case !stays:
			c.add(path, ExtraDevices+".* removed", key)
		case !sameDevice(want, c.have.ExtraDevices[key]):
			c.add(path, ExtraDevices+".*", key)
		}
	}
	for _, key := range sortedKeys(c.want.ExtraDevices) {
		if _, there := c.have.ExtraDevices[key]; !there {
			c.add(join(ExtraDevices, key), ExtraDevices+".* added", key)
		}
	}
}
