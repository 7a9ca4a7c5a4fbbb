package domain

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/beevik/etree"
)

// filterValue matches what libvirt takes as the value of a variable of a network filter. It drops any other without an
// error, so that a comma can separate several values.
var filterValue = regexp.MustCompile(`^[A-Za-z0-9_.:]+$`)

// readFilterParameters reads the variables of an interface's filter. A variable with several values has an element for
// each.
func readFilterParameters(e *etree.Element) string {
	texts := map[string]string{}
	for name, all := range filterParameters(e) {
		values := make([]string, len(all))
		for i, one := range all {
			values[i] = attr(one, "value")
		}
		texts[name] = strings.Join(values, ",")
	}
	return FormatTexts(texts)
}

// filterParameters returns the elements of each variable, in order.
func filterParameters(e *etree.Element) map[string][]*etree.Element {
	all := map[string][]*etree.Element{}
	for _, one := range children(child(e, "filterref"), "parameter") {
		all[attr(one, "name")] = append(all[attr(one, "name")], one)
	}
	return all
}

func writeFilterParameters(e *etree.Element, value string) error {
	want, have := ParseTexts(value), filterParameters(e)
	filter := child(e, "filterref")
	if len(want) > 0 {
		filter = ensure(e, "filterref")
	}
	for name, all := range have {
		for i, one := range all {
			if text, declared := want[name]; !declared || i > strings.Count(text, ",") {
				drop(one)
			}
		}
	}
	for _, name := range sortedKeys(want) {
		for i, text := range strings.Split(want[name], ",") {
			if i < len(have[name]) {
				setAttr(have[name][i], "value", text)
			} else {
				insert(filter, element("parameter", "name", name, "value", text), "parameter")
			}
		}
	}
	dropEmpty(filter, e)
	return nil
}

// checkFilter checks the filter of an interface and its variables.
func (i Interface) checkFilter(c *checker, path string) {
	named, parameters := i.Values["filter.name"] != "", ParseTexts(i.Values["filter.parameters"])
	c.require(!named || keepsFilter(i.attribute()) || i.User || i.Other != "", path+".filter.name",
		"Only an interface with network or bridge has a filter.")
	path += ".filter.parameters"
	c.require(len(parameters) == 0 || named, path, "Parameters require the name of a filter.")
	for _, name := range sortedKeys(parameters) {
		c.require(filterVariable.MatchString(name), path, fmt.Sprintf(
			"%q isn't a variable of a filter: letters, digits and \"_\".", name))
		values := strings.Split(parameters[name], ",")
		c.require(!slices.ContainsFunc(values, func(v string) bool { return !filterValue.MatchString(v) }), path, fmt.Sprintf(
			"%s = %q isn't a value of a filter's variable: letters, digits, \"_\", \".\" and \":\". A comma without spaces "+
				"separates several values.", name, parameters[name]))
	}
}
