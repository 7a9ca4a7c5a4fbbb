package domain

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/beevik/etree"
)

// Definition is one domain XML document. Persistent or live: a live one carries the running domain's id.
type Definition struct {
	doc *etree.Document
}

// Parse reads a domain XML document. It fails only on what isn't one; unknown content is kept.
func Parse(xml string) (*Definition, error) {
	doc := newDocument()
	if err := doc.ReadFromString(xml); err != nil {
		return nil, fmt.Errorf("reading domain XML: %w", err)
	}
	root := doc.Root()
	if root == nil {
		return nil, errors.New("reading domain XML: no element in it")
	}
	if root.Space != "" || root.Tag != "domain" {
		return nil, fmt.Errorf("reading domain XML: the root element is <%s>, not <domain>", root.FullTag())
	}
	return &Definition{doc: doc}, nil
}

// XML returns the document.
func (d *Definition) XML() (string, error) {
	return d.doc.WriteToString()
}

// Clone returns an independent copy.
func (d *Definition) Clone() *Definition {
	return &Definition{doc: d.doc.Copy()}
}

// UUID returns the domain's UUID, "" when the document has none.
func (d *Definition) UUID() string { return text(child(d.root(), "uuid")) }

// Name returns the domain's name.
func (d *Definition) Name() string { return text(child(d.root(), "name")) }

// Live says whether this is the definition of a running domain.
func (d *Definition) Live() bool { return attr(d.root(), "id") != "" }

func (d *Definition) root() *etree.Element { return d.doc.Root() }

// devices returns the devices with one of the tags, in document order.
func (d *Definition) devices(tags ...string) []*etree.Element {
	var found []*etree.Element
	for _, list := range children(d.root(), "devices") {
		found = append(found, children(list, tags...)...)
	}
	return found
}

// addDevice adds a device behind the others of its kind.
func (d *Definition) addDevice(e *etree.Element) {
	insert(ensure(d.root(), "devices"), e, e.Tag)
}

// Spec reads back every modelled fact. It never fails: what can't be understood is reported as not there.
func (d *Definition) Spec() Spec {
	root := d.root()
	osType := child(root, "os", "type")
	return Spec{
		Name:          d.Name(),
		UUID:          d.UUID(),
		Type:          attr(root, "type"),
		Arch:          attr(osType, "arch"),
		Machine:       attr(osType, "machine"),
		CPU:           d.readCPU(),
		Memory:        d.readMemory(),
		Firmware:      d.readFirmware(),
		Kernel:        d.readKernel(),
		Disks:         d.readDisks(),
		Interfaces:    d.readInterfaces(),
		GuestAgent:    new(len(d.agentChannels()) > 0),
		SerialConsole: new(len(d.consoles()) > 0),
		FreeSlots:     d.freeSlots(),
	}
}

// Apply patches the definition so that it says what want declares, touching only what differs by meaning. A device that
// is declared under a new key but has the source of an undeclared one is that device, and is renamed. An error is a
// Problem, several joined, or ErrNewerMetadata, and leaves the definition as it was.
func (d *Definition) Apply(want Spec) error {
	patched := d.Clone()
	err := errors.Join(
		patched.applyIdentity(want),
		patched.applyCPU(want.CPU),
		patched.applyMemory(want.Memory),
		patched.applyFirmware(want.Firmware),
		patched.applyKernel(want.Kernel),
		patched.applyDisks(want.Disks),
		patched.applyInterfaces(want.Interfaces),
		patched.applyBootOrder(want),
	)
	if err != nil {
		return err
	}
	patched.applyGuestAgent(want.GuestAgent)
	patched.applySerialConsole(want.SerialConsole)
	d.doc = patched.doc
	return nil
}

// applyIdentity sets name, type and machine. What a VM can't become in place is refused.
func (d *Definition) applyIdentity(want Spec) error {
	have := d.Spec()
	var problems []error
	if want.UUID != "" && have.UUID != "" && !strings.EqualFold(want.UUID, have.UUID) {
		problems = append(problems, Problem{"id", "The VM has the UUID " + have.UUID + ", which can't be changed."})
	}
	c := classifier{have: have, want: want}
	c.identity()
	for _, found := range c.found {
		if found.Replace {
			problems = append(problems, Problem{found.Path, found.Why})
		}
	}
	if len(problems) > 0 {
		return errors.Join(problems...)
	}
	if want.Name != "" {
		setChild(d.root(), "name", want.Name)
	}
	if want.Type != "" {
		setAttr(d.root(), "type", want.Type)
	}
	if want.Arch != "" && want.Arch != have.Arch {
		setAttr(ensure(ensure(d.root(), "os"), "type"), "arch", want.Arch)
	}
	if !SameMachine(have.Machine, want.Machine) {
		setAttr(ensure(ensure(d.root(), "os"), "type"), "machine", want.Machine)
	}
	return nil
}

// Canonical returns the definition's meaning as text: attributes sorted, layout and comments left out, namespaces
// resolved. Two definitions with equal text are equal by meaning.
func (d *Definition) Canonical() string {
	var out strings.Builder
	canonical(&out, d.root(), 0)
	return out.String()
}

func canonical(out *strings.Builder, e *etree.Element, depth int) {
	indent := strings.Repeat(" ", depth)
	attrs := make([]string, 0, len(e.Attr))
	for _, a := range e.Attr {
		if a.Space == "xmlns" || a.Space == "" && a.Key == "xmlns" {
			continue // Prefixes are resolved, so their declarations mean nothing by themselves.
		}
		name := a.Key
		if a.Space != "" {
			name = "{" + a.NamespaceURI() + "}" + name
		}
		attrs = append(attrs, fmt.Sprintf(" %s=%q", name, a.Value))
	}
	slices.Sort(attrs)
	fmt.Fprintf(out, "%s{%s}%s%s %q\n", indent, e.NamespaceURI(), e.Tag, strings.Join(attrs, ""), text(e))
	for _, c := range e.ChildElements() {
		canonical(out, c, depth+1)
	}
}
