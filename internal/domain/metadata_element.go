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

// ownChild returns a child in our namespace.
func ownChild(e *etree.Element, tag string) *etree.Element {
	for _, c := range e.ChildElements() {
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

// readPairs reads a list of elements with two attributes. It returns nil if the list is empty.
func readPairs(list *etree.Element, tag, key, value string) map[string]string {
	if list == nil {
		return nil
	}
	var pairs map[string]string
	for _, e := range list.ChildElements() {
		if e.Tag == tag && e.NamespaceURI() == MetadataNamespace {
			if pairs == nil {
				pairs = map[string]string{}
			}
			pairs[attr(e, key)] = attr(e, value)
		}
	}
	return pairs
}

// writePairs writes the list that readPairs reads. An empty map removes the list.
func writePairs(vm *etree.Element, listTag, tag, key, value string, pairs map[string]string) {
	if maps.Equal(readPairs(ownChild(vm, listTag), tag, key, value), pairs) {
		return
	}
	drop(ownChild(vm, listTag))
	if len(pairs) == 0 {
		return
	}
	list := addOwn(vm, listTag)
	for _, name := range slices.Sorted(maps.Keys(pairs)) {
		e := addOwn(list, tag)
		e.CreateAttr(key, name)
		e.CreateAttr(value, pairs[name])
	}
}
