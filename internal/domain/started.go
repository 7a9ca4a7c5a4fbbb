package domain

import (
	"maps"
	"slices"

	"github.com/beevik/etree"
)

// RunNamespace and RunKey are the namespace URI and the prefix of the element in the <metadata> of a running VM that is
// never in its persistent definition: it ends with the run.
const (
	RunNamespace = "urn:virtfleet:run:1"
	RunKey       = "virtfleet-run"
)

// startedWith reads Spec.Started.
func (d *Definition) startedWith() Values {
	var started Values
	for _, e := range d.ofTheRun("started") {
		if started == nil {
			started = Values{}
		}
		started[attr(e, "path")] = attr(e, "value")
	}
	return started
}

// ofTheRun returns the elements of a kind that were recorded of the running VM.
func (d *Definition) ofTheRun(tag string) []*etree.Element {
	metadata := child(d.root(), "metadata")
	if metadata == nil {
		return nil
	}
	var all []*etree.Element
	for run := range metadata.ChildElementsSeq() {
		if run.Tag != "run" || run.NamespaceURI() != RunNamespace || !d.isOf(run) {
			continue
		}
		for e := range run.ChildElementsSeq() { // libvirt gives them the prefix of the root.
			if e.Tag == tag {
				all = append(all, e)
			}
		}
	}
	return all
}

// StartedBefore returns what the running VM has to record as Spec.Started before its persistent definition gets the
// changes, which leave the running VM as it is. It returns nil if the record stays as it is.
func StartedBefore(live, persistent Spec, changes []Change) Values {
	started := Values{}
	maps.Copy(started, live.Started)
	for _, c := range changes {
		g, _, _ := GroupAttribute(c.Path)
		recordEchoes(g.rows(), "", started, live.Values, persistent.Values)
		for _, a := range g.Attributes {
			if _, recorded := started[a.fact()]; !a.Moves || recorded {
				continue
			}
			started[a.fact()] = persistent.Values[a.fact()]
		}
	}
	recordInterfaces(started, live, persistent, changes)
	if maps.Equal(started, live.Started) {
		return nil
	}
	return started
}

// RunXML returns the element that records what is known of the run alone, in the form that virDomainSetMetadata
// requires.
func (s Spec) RunXML() string {
	run := etree.NewElement("run")
	setAttr(run, "uuid", s.UUID)
	for _, path := range slices.Sorted(maps.Keys(s.Started)) {
		insert(run, element("started", "path", path, "value", s.Started[path]))
	}
	for _, path := range s.Held {
		insert(run, element("held", "path", path))
	}
	return render(run)
}
