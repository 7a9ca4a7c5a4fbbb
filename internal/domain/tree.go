package domain

import (
	"slices"
	"strconv"
	"strings"

	"github.com/beevik/etree"
)

// These functions wrap etree for libvirt's elements, which have no namespace: etree's own lookups also find elements in
// the namespaces of other tools. All of the functions treat a nil element as an empty one.

// child returns the first child with that tag, following the path of tags.
func child(e *etree.Element, tags ...string) *etree.Element {
	for _, tag := range tags {
		e = placeStep{tag: tag}.in(e)
	}
	return e
}

// children returns, in document order, all children with one of the tags, or all of libvirt's elements if there are no
// tags.
func children(e *etree.Element, tags ...string) []*etree.Element {
	if e == nil {
		return nil
	}
	var found []*etree.Element
	for c := range e.ChildElementsSeq() {
		if c.Space == "" && (len(tags) == 0 || slices.Contains(tags, c.Tag)) {
			found = append(found, c)
		}
	}
	return found
}

// attr returns an attribute, "" if there is none.
func attr(e *etree.Element, key string) string {
	if e == nil {
		return ""
	}
	for _, a := range e.Attr {
		if a.Space == "" && a.Key == key {
			return a.Value
		}
	}
	return ""
}

// text returns the element's text without surrounding space.
func text(e *etree.Element) string {
	if e == nil {
		return ""
	}
	return strings.TrimSpace(e.Text())
}

// number reads a non-negative integer in libvirt's form.
func number(s string) (int, bool) {
	n, err := strconv.Atoi(strings.TrimSpace(s))
	return n, err == nil && n >= 0
}

// pciNumber reads a number that libvirt writes in hex (0x0a) or decimal.
func pciNumber(s string) (int, bool) {
	n, err := strconv.ParseInt(strings.TrimSpace(s), 0, 32)
	return int(n), err == nil && n >= 0
}

// ensure returns the child. It adds the child if there is none.
func ensure(e *etree.Element, tag string, after ...string) *etree.Element {
	if c := child(e, tag); c != nil {
		return c
	}
	c := etree.NewElement(tag)
	insert(e, c, after...)
	return c
}

// insert adds a child after the last child with one of the tags, or at the end if there is none.
func insert(parent, e *etree.Element, after ...string) {
	siblings := parent.ChildElements()
	var anchor *etree.Element
	if len(after) > 0 {
		if found := children(parent, after...); len(found) > 0 {
			anchor = found[len(found)-1]
		}
	}
	if anchor == nil && len(siblings) > 0 {
		anchor = siblings[len(siblings)-1]
	}
	if anchor == nil {
		parent.AddChild(e)
		return
	}
	at := anchor.Index() + 1
	// If the neighbour has a line of its own, the new element gets one, too.
	if before := anchor.Index() - 1; before >= 0 {
		if space, ok := parent.Child[before].(*etree.CharData); ok && isLayout(space) {
			parent.InsertChildAt(at, etree.NewText(space.Data))
			at++
		}
	}
	parent.InsertChildAt(at, e)
}

// isLayout reports whether text is only white space. etree's own flag is set only for parsed text.
func isLayout(data *etree.CharData) bool {
	return !data.IsCData() && strings.TrimSpace(data.Data) == ""
}

// drop removes an element together with the layout before it.
func drop(e *etree.Element) {
	if e == nil || e.Parent() == nil {
		return
	}
	parent := e.Parent()
	if before := e.Index() - 1; before >= 0 {
		if space, ok := parent.Child[before].(*etree.CharData); ok && isLayout(space) {
			parent.RemoveChildAt(before)
		}
	}
	parent.RemoveChild(e)
}

// dropChildren removes all children with one of the tags.
func dropChildren(e *etree.Element, tags ...string) {
	for _, c := range children(e, tags...) {
		drop(c)
	}
}

// setAttr sets an attribute; "" removes it.
func setAttr(e *etree.Element, key, value string) {
	if value == "" {
		e.RemoveAttr(key)
		return
	}
	if attr(e, key) != value {
		e.CreateAttr(key, value)
	}
}

// setChild sets the text of a child; "" removes the child.
func setChild(e *etree.Element, tag, value string, after ...string) {
	if value == "" {
		dropChildren(e, tag)
		return
	}
	if c := ensure(e, tag, after...); text(c) != value {
		c.SetText(value)
	}
}

// element returns an element with attributes, given as pairs. Attributes with an empty value are left out.
func element(tag string, attrs ...string) *etree.Element {
	e := etree.NewElement(tag)
	for i := 0; i+1 < len(attrs); i += 2 {
		if attrs[i+1] != "" {
			e.CreateAttr(attrs[i], attrs[i+1])
		}
	}
	return e
}

// add adds a child to parent, see element.
func add(parent *etree.Element, tag string, attrs ...string) *etree.Element {
	e := element(tag, attrs...)
	insert(parent, e)
	return e
}

// render returns an element as a document of its own.
func render(e *etree.Element) string {
	doc := newDocument()
	doc.SetRoot(e.Copy())
	out, err := doc.WriteToString()
	if err != nil {
		panic("writing XML to memory: " + err.Error()) // Only the writer can fail, and a buffer doesn't.
	}
	return out
}

func newDocument() *etree.Document {
	doc := etree.NewDocument()
	doc.ReadSettings.PreserveCData = true
	// The canonical forms keep line breaks in attribute values and carriage returns, which XML parsers would otherwise
	// normalise.
	doc.WriteSettings.CanonicalAttrVal = true
	doc.WriteSettings.CanonicalText = true
	return doc
}
