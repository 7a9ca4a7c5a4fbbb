package network

import (
	"slices"
	"strconv"

	"github.com/beevik/etree"
)

// children returns the children with that tag that belong to libvirt's vocabulary.
func children(e *etree.Element, tag string) []*etree.Element {
	if e == nil {
		return nil
	}
	return slices.DeleteFunc(e.SelectElements(tag), func(c *etree.Element) bool { return c.Space != "" })
}

// child returns the first child with that tag, nil if there is none.
func child(e *etree.Element, tag string) *etree.Element {
	if all := children(e, tag); len(all) > 0 {
		return all[0]
	}
	return nil
}

// ensure returns the first child with that tag, and adds one if there is none.
func ensure(e *etree.Element, tag string) *etree.Element {
	if found := child(e, tag); found != nil {
		return found
	}
	return e.CreateElement(tag)
}

// drop removes all children with that tag.
func drop(e *etree.Element, tag string) {
	for _, c := range children(e, tag) {
		e.RemoveChild(c)
	}
}

// attr returns an attribute, "" if it is missing.
func attr(e *etree.Element, key string) string {
	if e == nil {
		return ""
	}
	return e.SelectAttrValue(key, "")
}

// number returns an attribute that is a number, 0 if it is missing.
func number(e *etree.Element, key string) int {
	n, _ := strconv.Atoi(attr(e, key))
	return n
}

// set writes an attribute; "" removes it.
func set(e *etree.Element, key, value string) {
	if value == "" {
		e.RemoveAttr(key)
		return
	}
	e.CreateAttr(key, value)
}

// setNumber writes an attribute that is a number; 0 removes it.
func setNumber(e *etree.Element, key string, n int) {
	if n == 0 {
		e.RemoveAttr(key)
		return
	}
	e.CreateAttr(key, strconv.Itoa(n))
}

// setSwitch writes an attribute that is yes or no. If no is the default, it isn't written.
func setSwitch(e *etree.Element, key string, on bool) {
	if !on {
		e.RemoveAttr(key)
		return
	}
	e.CreateAttr(key, "yes")
}

// asText returns the element as XML.
func asText(e *etree.Element) string {
	document := etree.NewDocument()
	document.SetRoot(e.Copy())
	text, _ := document.WriteToString() // Writing to memory doesn't fail.
	return text
}
