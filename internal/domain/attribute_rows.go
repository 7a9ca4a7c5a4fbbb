package domain

import (
	"maps"

	"github.com/beevik/etree"
)

// rows are attributes below one element.
type rows []Attribute

// read reads all rows of an element.
func (r rows) read(e *etree.Element, into Values) {
	if e == nil {
		return
	}
	for i := range r {
		if value := r[i].read(e); value != "" {
			into[r[i].fact()] = value
		}
	}
}

// readValues reads all rows of a device. It returns nil if the device has none.
func (r rows) readValues(e *etree.Element) Values {
	facts := Values{}
	r.read(e, facts)
	if len(facts) == 0 {
		return nil
	}
	return facts
}

// apply patches an element so that it says what is declared of a device.
func (r rows) apply(e *etree.Element, path string, want Values) error {
	return r.patch(e, path, want, func(Attribute) bool { return true })
}

// patch patches the rows for which the function which returns true.
func (r rows) patch(e *etree.Element, path string, want Values, which func(Attribute) bool) error {
	for _, a := range r {
		if value, declared := want[a.Name]; declared && which(a) && a.read(e) != value {
			if err := a.put(e, join(path, a.Name), value); err != nil {
				return err
			}
		}
	}
	return nil
}

// normal returns the values, each in its normal form.
func (r rows) normal(facts Values) Values {
	cloned := false
	for i := range r {
		fact := r[i].fact()
		value, ok := facts[fact]
		if !ok {
			continue
		}
		normal := r[i].normal(value)
		if normal == value {
			continue
		}
		if !cloned {
			facts, cloned = maps.Clone(facts), true
		}
		facts[fact] = normal
	}
	return facts
}

// texts returns the functions that compare values by meaning, by attribute path.
func (r rows) texts(prefix string) map[string]func(a, b string) bool {
	all := map[string]func(a, b string) bool{}
	for _, a := range r {
		all[join(prefix, a.Name)] = a.same
		for _, column := range a.Columns {
			all[join(prefix, a.At(column))] = column.same
		}
	}
	return all
}

// classify classifies the differences below a prefix. key is the device's key, "" if there is none.
func (r rows) classify(c *classifier, prefix, key string, have, want Values) {
	for i := range r {
		fact := r[i].fact()
		value, ok := want[fact]
		if !ok || value == Any {
			continue
		}
		a, now := r[i], have[fact]
		if a.Left != nil {
			now = a.Left(c.have, now, c.want)
		}
		// A declared value is written, even if it is the one without a value: both definitions then have it.
		reset := a.Reset != "" && a.normal(value) == a.Reset && a.normal(now) == ""
		if (reset || !a.same(value, now)) && (a.Met == nil || !a.Met(c.have, value)) {
			c.addRow(join(prefix, a.Name), a, now, value, key)
		}
	}
}

// align removes the values that libvirt added to the live definition by itself, and those that the guest changed.
func (r rows) align(live, persistent Values) Values {
	cloned := false
	for i := range r {
		if !r[i].Echo && !r[i].Moves {
			continue
		}
		fact := r[i].fact()
		said := persistent[fact]
		if said != "" && said != Auto && !r[i].Moves || live[fact] == said {
			continue
		}
		if !cloned {
			live, cloned = maps.Clone(live), true
		}
		if delete(live, fact); said != "" {
			live[fact] = said
		}
	}
	return live
}

// complete declares as absent the values that only the live definition has.
func (r rows) complete(persistent, live Values) Values {
	cloned := false
	for i := range r {
		fact := r[i].fact()
		if live[fact] == "" {
			continue
		}
		if _, said := persistent[fact]; said {
			continue
		}
		if !cloned {
			if persistent, cloned = maps.Clone(persistent), true; persistent == nil {
				persistent = Values{}
			}
		}
		persistent[fact] = ""
	}
	return persistent
}
