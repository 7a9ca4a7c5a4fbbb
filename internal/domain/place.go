package domain

import (
	"slices"
	"strings"

	"github.com/beevik/etree"
)

// placeStep is an element on the way to a place: its tag, and the attribute that tells it from others, as in
// "timer[name=rtc]".
type placeStep struct{ tag, key, value string }

// parsePlace takes a place apart into the elements on the way and the attribute at its end, "" for a text.
func parsePlace(place string) (steps []placeStep, key string) {
	path, key, _ := strings.Cut(place, "@")
	for step := range strings.SplitSeq(path, "/") {
		if step == "" {
			continue
		}
		tag, condition, _ := strings.Cut(strings.TrimSuffix(step, "]"), "[")
		k, v, _ := strings.Cut(condition, "=")
		steps = append(steps, placeStep{tag, k, v})
	}
	return steps, key
}

// in returns the step's element, nil when it isn't there.
func (s placeStep) in(e *etree.Element) *etree.Element {
	for _, c := range children(e, s.tag) {
		if s.key == "" || attr(c, s.key) == s.value {
			return c
		}
	}
	return nil
}

// empty says that an element says nothing but which one it is.
func (s placeStep) empty(e *etree.Element) bool {
	return len(e.ChildElements()) == 0 && text(e) == "" &&
		!slices.ContainsFunc(e.Attr, func(a etree.Attr) bool { return a.Key != s.key })
}

// at reads a place below an element.
func at(e *etree.Element, place string) string {
	steps, key := parsePlace(place)
	for _, s := range steps {
		e = s.in(e)
	}
	if key != "" {
		return attr(e, key)
	}
	return text(e)
}

// put writes a place below an element; "" removes what is there, and the elements on the way that say nothing without
// it.
func put(e *etree.Element, place, value string) {
	if value == "" && at(e, place) == "" {
		return
	}
	steps, key := parsePlace(place)
	way := []*etree.Element{e}
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
