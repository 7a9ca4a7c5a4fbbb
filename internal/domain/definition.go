package domain

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/beevik/etree"
)

// Definition is one domain XML document: a persistent or a live definition. A live one has the id of the running
// domain.
type Definition struct {
	doc *etree.Document
	// fixedVirtualPorts is Spec.FixedVirtualPorts.
	fixedVirtualPorts bool
	// mended is what Mended returns.
	mended bool
	// empty are, in the definition of a new VM, the keys of the disks that are created without data.
	empty []string
}

// Parse reads a domain XML document. It returns an error only if the text isn't a domain XML document; unknown content
// is kept, except disks that can't be there, see Mended.
func Parse(xml string) (*Definition, error) {
	doc := newDocument()
	doc.ReadSettings.PreserveCData = strings.Contains(xml, "<![CDATA[") // Otherwise it only takes time.
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
	d := &Definition{doc: doc}
	if strings.Contains(xml, UnknownFile) {
		d.dropUnknownDisks()
	}
	return d, nil
}

// dropUnknownDisks removes the disks whose file is UnknownFile, which hosts were given by mistake: no VM starts with
// such a disk. To all readers the definition has lost it, so that it gets the disk again.
func (d *Definition) dropUnknownDisks() {
	for _, e := range d.devices("disk") {
		if readSource(e).File == UnknownFile {
			drop(e)
			d.mended = true
		}
	}
}

// Mended reports whether Parse has left out disks without which the definition is to be defined again.
func (d *Definition) Mended() bool { return d.mended }

// XML returns the document.
func (d *Definition) XML() (string, error) {
	return d.doc.WriteToString()
}

// Clone returns an independent copy.
func (d *Definition) Clone() *Definition {
	return &Definition{doc: d.doc.Copy(), fixedVirtualPorts: d.fixedVirtualPorts, mended: d.mended, empty: d.empty}
}

// FixVirtualPorts returns a copy of a live definition whose Spec has FixedVirtualPorts.
func (d *Definition) FixVirtualPorts() *Definition {
	fixed := d.Clone()
	fixed.fixedVirtualPorts = true
	return fixed
}

// UUID returns the domain's UUID, "" if the document has none.
func (d *Definition) UUID() string { return text(child(d.root(), "uuid")) }

// Name returns the domain's name.
func (d *Definition) Name() string { return text(child(d.root(), "name")) }

// Live reports whether this is the definition of a running domain.
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

// addDevice adds a device after the others of its kind.
func (d *Definition) addDevice(e *etree.Element) {
	insert(ensure(d.root(), "devices"), e, e.Tag)
}

// Canonical returns the definition's meaning as text: attributes are sorted, layout and comments left out, and
// namespaces resolved. Two definitions with equal text have the same meaning.
func (d *Definition) Canonical() string {
	var out strings.Builder
	writeCanonical(&out, d.root(), 0)
	return out.String()
}

func writeCanonical(out *strings.Builder, e *etree.Element, depth int) {
	indent := strings.Repeat(" ", depth)
	attrs := make([]string, 0, len(e.Attr))
	for _, a := range e.Attr {
		if a.Space == "xmlns" || a.Space == "" && a.Key == "xmlns" {
			continue // Prefixes are resolved, so declarations of prefixes have no meaning of their own.
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
		writeCanonical(out, c, depth+1)
	}
}
