package domain

import (
	"maps"
	"slices"

	"github.com/beevik/etree"
)

// The element that holds the metadata, and its children, as XML in our namespace.

// MetadataXML returns our element in the form that virDomainSetMetadata requires, including unknown children; "" if
// there is none. libvirt adds the namespace itself, and refuses an element that already declares it.
func (d *Definition) MetadataXML() string {
	vm := d.metadataElement()
	if vm == nil {
		return ""
	}
	// The copy has no parent, so it must declare the prefixes of its ancestors first.
	inner := vm.Copy()
	stripNamespace(vm, inner)
	return render(inner)
}

// stripNamespace removes our namespace from an element and its children, and declares others where they are used.
func stripNamespace(original, e *etree.Element) {
	uri := original.NamespaceURI()
	if uri == MetadataNamespace {
		e.Space = ""
	} else if e.Space != "" {
		e.CreateAttr("xmlns:"+e.Space, uri)
	}
	for _, a := range slices.Clone(e.Attr) {
		if (a.Space == "xmlns" || a.FullKey() == "xmlns") && a.Value == MetadataNamespace {
			e.RemoveAttr(a.FullKey())
		}
	}
	originals := original.ChildElements()
	for i, c := range e.ChildElements() {
		stripNamespace(originals[i], c)
	}
}

// metadataElement finds our element by its namespace, whatever the prefix.
func (d *Definition) metadataElement() *etree.Element {
	metadata := child(d.root(), "metadata")
	if metadata == nil {
		return nil
	}
	return ownChild(metadata, "vm")
}

// isOf reports whether an element of the <metadata> was written for this VM. Tools that copy a VM give the copy a UUID
// of its own and leave the <metadata> as it is. An element without a UUID was written by a user.
func (d *Definition) isOf(e *etree.Element) bool {
	uuid := attr(e, "uuid")
	return uuid == "" || uuid == d.UUID()
}

// ownChild returns a child in our namespace.
func ownChild(e *etree.Element, tag string) *etree.Element {
	for c := range e.ChildElementsSeq() {
		if c.Tag == tag && c.NamespaceURI() == MetadataNamespace {
			return c
		}
	}
	return nil
}

// addOwn adds a child in our namespace.
func addOwn(parent *etree.Element, tag string) *etree.Element {
	e := etree.NewElement(tag)
	e.Space = parent.Space
	insert(parent, e)
	return e
}

// setOwn sets the text of a child in our namespace; "" removes the child.
func setOwn(vm *etree.Element, tag, value string) {
	e := ownChild(vm, tag)
	switch {
	case value == "":
		drop(e)
	case e == nil:
		addOwn(vm, tag).SetText(value)
	case text(e) != value:
		e.SetText(value)
	}
}

// markOwn adds or removes an empty child that stands for true.
func markOwn(vm *etree.Element, tag string, so bool) {
	if have := ownChild(vm, tag); !so {
		drop(have)
	} else if have == nil {
		addOwn(vm, tag)
	}
}

// readKeys reads a list of elements that have a key.
func readKeys(list *etree.Element, tag string) []string {
	if list == nil {
		return nil
	}
	var keys []string
	for _, e := range list.ChildElements() {
		if e.Tag == tag && e.NamespaceURI() == MetadataNamespace {
			keys = append(keys, attr(e, "key"))
		}
	}
	return keys
}

// writeKeys is the inverse of readKeys: it replaces the list.
func writeKeys(vm *etree.Element, list, tag string, keys []string) {
	drop(ownChild(vm, list))
	if len(keys) == 0 {
		return
	}
	all := addOwn(vm, list)
	for _, key := range keys {
		addOwn(all, tag).CreateAttr("key", key)
	}
}

// pairList is a list of elements with two attributes, by which the metadata keeps a map of texts.
type pairList struct{ tag, element, key, value string }

var (
	stagedList       = pairList{"staged", "change", "path", "was"}
	unfinishedList   = pairList{"unfinished", "change", "path", "was"}
	labelList        = pairList{"labels", "label", "key", "value"}
	deviceList       = pairList{"devices", "device", "id", "key"}
	hostLabelList    = pairList{"host-labels", "label", "key", "value"}
	antiAffinityList = pairList{"anti-affinity", "label", "key", "value"}
	extraDeviceList  = pairList{"extra-devices", "device", "key", "xml"}
	deviceClassList  = pairList{"device-classes", "device", "key", "class"}
	appliedList      = pairList{"applied-sources", "disk", "key", "source"} // No attribute that counts as a use of a file.
)

// read returns nil if the list is empty.
func (l pairList) read(vm *etree.Element) map[string]string {
	list := ownChild(vm, l.tag)
	if list == nil {
		return nil
	}
	var pairs map[string]string
	for _, e := range list.ChildElements() {
		if e.Tag == l.element && e.NamespaceURI() == MetadataNamespace {
			if pairs == nil {
				pairs = map[string]string{}
			}
			pairs[attr(e, l.key)] = attr(e, l.value)
		}
	}
	return pairs
}

// write replaces the list. An empty map removes it.
func (l pairList) write(vm *etree.Element, pairs map[string]string) {
	if maps.Equal(l.read(vm), pairs) {
		return
	}
	drop(ownChild(vm, l.tag))
	if len(pairs) == 0 {
		return
	}
	list := addOwn(vm, l.tag)
	for _, name := range slices.Sorted(maps.Keys(pairs)) {
		e := addOwn(list, l.element)
		e.CreateAttr(l.key, name)
		e.CreateAttr(l.value, pairs[name])
	}
}
