package domain

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// combination is a check whether the values of one device fit together. It returns the attribute and the problem.
type combination func(value func(attribute string) string) (attribute, problem string)

// patched checks the values that the device at a path has after a change: what is declared has to fit also to what
// isn't, which is what the device has already, or its default. before are its values before the change, none for a new
// device: what didn't fit then is left alone. All values are by name.
func (c combination) patched(path string, before, after, declared Values) error {
	if c == nil {
		return nil
	}
	of := func(values Values) (attribute, problem string) {
		return c(func(name string) string { return values[name] })
	}
	attribute, problem := of(after)
	if problem == "" {
		return nil
	}
	if had, was := of(before); len(before) > 0 && had == attribute && was == problem {
		return nil
	}
	return Problem{join(path, attribute), problem + c.inherited(after, declared)}
}

// inherited says which values that aren't declared don't fit to those that are: the user doesn't see them in the
// configuration. They are those without which nothing is wrong, or else those without which it is something else, or
// else all.
func (c combination) inherited(after, declared Values) string {
	attribute, problem := c(func(name string) string { return after[name] })
	var causes, others, all []string
	rest := maps.Clone(after)
	for _, name := range sortedKeys(after) {
		if said, ok := declared[name]; ok && said != Any || after[name] == "" {
			continue
		}
		rest[name] = ""
		value := strings.ReplaceAll(strings.TrimSpace(after[name]), "\n", ", ")
		is := fmt.Sprintf("%s is %q", name, value)
		all = append(all, is)
		without := func(other string) string {
			if other == name {
				return ""
			}
			return after[other]
		}
		switch where, what := c(without); {
		case what == "":
			causes = append(causes, is)
		case where != attribute || what != problem:
			others = append(others, is)
		}
	}
	if len(causes) == 0 {
		causes = others
	}
	if _, what := c(func(name string) string { return rest[name] }); len(causes) == 0 && what == "" {
		causes = all
	}
	switch len(causes) {
	case 0:
		return ""
	case 1:
		return " Without a declaration, " + causes[0] + ": set it, too."
	default:
		return " Without a declaration, " + strings.Join(causes, " and ") + ": set them, too."
	}
}

// byName returns the group's own values, by the names of its attributes.
func (g Group) byName(values Values) Values {
	own := Values{}
	for _, a := range g.Attributes {
		if value, ok := values[g.At(a)]; ok {
			own[a.Name] = value
		}
	}
	return own
}

// checkBeside checks the devices of the groups against those of other groups, as combination does the values of one
// device.
func (d *Definition) checkBeside(was *Definition, declared Values) error {
	isDeclared := func(g Group) bool { return g.Device != "" && g.isDeclared(declared) }
	if !slices.ContainsFunc(deviceGroups, isDeclared) {
		return nil
	}
	read := func(d *Definition) Values {
		var s Spec
		for _, g := range deviceGroups {
			g.read(d, &s)
		}
		return s.Values
	}
	after := read(d)
	for _, g := range deviceGroups {
		if g.Beside == nil || !g.Has(after) {
			continue
		}
		attribute, problem := g.Beside(after)
		if problem == "" {
			continue
		}
		before := read(was)
		if had, old := g.Beside(before); !g.Has(before) || had != attribute || old != problem {
			return Problem{join(g.Path, attribute), problem}
		}
	}
	return nil
}
