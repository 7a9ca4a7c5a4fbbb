package network

import (
	"reflect"
	"slices"

	"github.com/beevik/etree"
)

// list is a kind of element of which there may be several, identified by a key.
type list[T any] struct {
	tag   string
	key   func(T) string
	read  func(*etree.Element) T
	write func(*etree.Element, T) // changes what T models, and leaves the rest of the element alone
	same  func(a, b T) bool       // nil means deeply equal
}

func (l list[T]) equal(a, b T) bool {
	if l.same != nil {
		return l.same(a, b)
	}
	return reflect.DeepEqual(a, b)
}

// all reads the elements of a parent, nil if there are none.
func (l list[T]) all(parent *etree.Element) []T {
	var found []T
	for _, e := range children(parent, l.tag) {
		found = append(found, l.read(e))
	}
	return found
}

// apply makes the elements of a parent the wanted ones. An element that already means the same stays as it is; in an
// element with the same key only the differences are changed.
func (l list[T]) apply(parent *etree.Element, want []T) {
	have := children(parent, l.tag)
	for _, w := range want {
		at := slices.IndexFunc(have, func(e *etree.Element) bool { return l.key(l.read(e)) == l.key(w) })
		if at < 0 {
			l.write(parent.CreateElement(l.tag), w)
			continue
		}
		if !l.equal(l.read(have[at]), w) {
			l.write(have[at], w)
		}
		have = slices.Delete(have, at, at+1)
	}
	for _, e := range have {
		parent.RemoveChild(e)
	}
}

// element returns a new element with that value, as XML.
func (l list[T]) element(value T) string {
	e := etree.NewElement(l.tag)
	l.write(e, value)
	return asText(e)
}

// difference is the difference between two lists.
type difference[T any] struct{ removed, added, changed []T }

func (d difference[T]) empty() bool { return len(d.removed)+len(d.added)+len(d.changed) == 0 }

// compare returns what turns have into want.
func (l list[T]) compare(have, want []T) (d difference[T]) {
	rest := slices.Clone(have)
	for _, w := range want {
		at := slices.IndexFunc(rest, func(h T) bool { return l.key(h) == l.key(w) })
		switch {
		case at < 0:
			d.added = append(d.added, w)
			continue
		case !l.equal(rest[at], w):
			d.changed = append(d.changed, w)
		}
		rest = slices.Delete(rest, at, at+1)
	}
	d.removed = rest
	return d
}
