package domain

import (
	"iter"
	"slices"
	"strings"

	"github.com/beevik/etree"
)

// placeStep is an element on the path to a place: its tag, and the attribute that tells it from others, as in
// "timer[name=rtc]".
type placeStep struct{ tag, key, value string }

// placeSteps returns the elements on the path to a place: the part before the "@".
func placeSteps(way string) iter.Seq[placeStep] {
	return func(yield func(placeStep) bool) {
		for step := range strings.SplitSeq(way, "/") {
			if step == "" {
				continue
			}
			tag, condition, _ := strings.Cut(strings.TrimSuffix(step, "]"), "[")
			k, v, _ := strings.Cut(condition, "=")
			if !yield(placeStep{tag, k, v}) {
				return
			}
		}
	}
}

// in returns the step's element, nil if there is none.
func (s placeStep) in(e *etree.Element) *etree.Element {
	if e == nil {
		return nil
	}
	for c := range e.ChildElementsSeq() {
		if c.Space == "" && c.Tag == s.tag && (s.key == "" || attr(c, s.key) == s.value) {
			return c
		}
	}
	return nil
}

// elementAt returns the element of a place without "@", nil if there is none.
func elementAt(e *etree.Element, way string) *etree.Element {
	for s := range placeSteps(way) {
		e = s.in(e)
	}
	return e
}

// empty reports whether an element has nothing but the attribute that identifies it.
func (s placeStep) empty(e *etree.Element) bool {
	return len(e.ChildElements()) == 0 && text(e) == "" &&
		!slices.ContainsFunc(e.Attr, func(a etree.Attr) bool { return a.Key != s.key })
}

// textAt reads a place below an element.
func textAt(e *etree.Element, place string) string {
	way, key, _ := strings.Cut(place, "@")
	e = elementAt(e, way)
	if key != "" {
		return attr(e, key)
	}
	return text(e)
}

// setTextAt writes a place below an element; "" removes the value, and the elements on the path that are then empty.
func setTextAt(e *etree.Element, place, value string) {
	if value == "" && textAt(e, place) == "" {
		return
	}
	path, key, _ := strings.Cut(place, "@")
	steps, way := slices.Collect(placeSteps(path)), []*etree.Element{e}
	for _, s := range steps {
		next := s.in(e)
		if next == nil {
			next = add(e, s.tag, s.key, s.value)
		}
		e = next
		way = append(way, e)
	}
	if key != "" {
		setAttr(e, key, value)
	} else {
		e.SetText(value)
	}
	for i := len(steps) - 1; value == "" && i >= 0 && steps[i].empty(way[i+1]); i-- {
		drop(way[i+1])
	}
}
