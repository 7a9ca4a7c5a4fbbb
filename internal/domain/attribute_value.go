package domain

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/beevik/etree"
)

// What each kind of attribute is in a definition, and as text in Values.

// textEscapes escape the characters that separate names and texts.
var (
	textEscapes   = strings.NewReplacer(`\`, `\\`, "\n", `\n`, "=", `\e`)
	textUnescapes = strings.NewReplacer(`\\`, `\`, `\n`, "\n", `\e`, "=")
)

// ParseTexts reads the value of an attribute of kind Texts.
func ParseTexts(value string) map[string]string {
	texts := map[string]string{}
	for line := range strings.Lines(value) {
		if name, text, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "="); ok {
			texts[textUnescapes.Replace(name)] = textUnescapes.Replace(text)
		}
	}
	return texts
}

// FormatTexts is the inverse of ParseTexts.
func FormatTexts(texts map[string]string) string {
	var b strings.Builder
	for _, name := range sortedKeys(texts) {
		b.WriteString(textEscapes.Replace(name) + "=" + textEscapes.Replace(texts[name]) + "\n")
	}
	return b.String()
}

// mapTexts returns the value of an attribute of kind Texts with each text replaced by what of returns for it.
func mapTexts(value string, of func(string) string) string {
	texts := ParseTexts(value)
	for name, text := range texts {
		texts[name] = of(text)
	}
	return FormatTexts(texts)
}

// ParseNumbers reads the value of an attribute of kind Numbers.
func ParseNumbers(value string) []int64 {
	var all []int64
	for _, text := range strings.Split(value, ",") {
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			all = append(all, n)
		}
	}
	return all
}

// FormatNumbers is the inverse of ParseNumbers.
func FormatNumbers(all []int64) string {
	texts := make([]string, len(all))
	for i, n := range all {
		texts[i] = strconv.FormatInt(n, 10)
	}
	return strings.Join(texts, ",")
}

// ParseWords reads the value of an attribute of kind Words.
func ParseWords(value string) []string {
	var words []string
	if json.Unmarshal([]byte(value), &words) != nil {
		return nil // The value is "", or FormatWords didn't write it.
	}
	return words
}

// FormatWords is the inverse of ParseWords.
func FormatWords(words []string) string {
	if len(words) == 0 {
		return ""
	}
	var out strings.Builder
	writer := json.NewEncoder(&out)
	writer.SetEscapeHTML(false)
	if err := writer.Encode(words); err != nil {
		panic("writing texts to memory: " + err.Error()) // Writing a string to a buffer can't fail.
	}
	return strings.TrimSpace(out.String())
}

// normal returns the one form of values that mean the same; "" means that the attribute isn't there.
func (a Attribute) normal(value string) string {
	switch {
	case a.Kind == Table:
		return a.normalTable(value)
	case a.Kind != Texts && a.Kind != Switches:
		value = strings.TrimSpace(value)
	}
	if value == Any {
		return value
	}
	if value != "" && a.Normal != nil {
		value = a.Normal(value)
	}
	if a.Unset != "" && value == a.Unset || a.Zero && value == "0" || a.Kind == Flag && value == "no" {
		return ""
	}
	return value
}

// same says whether two values mean the same.
func (a Attribute) same(x, y string) bool {
	x, y = a.normal(x), a.normal(y)
	return x == y || a.Reset != "" && cmp.Or(x, a.Reset) == cmp.Or(y, a.Reset)
}

// switchWords returns the definition's words for a Switch.
func (a Attribute) switchWords() (on, off string) { return cmp.Or(a.On, "yes"), cmp.Or(a.Off, "no") }

// placed returns the elements that have the attributes of Place: for "vlan/tag@id", the elements with that tag.
func (a Attribute) placed(e *etree.Element) (parent []string, tag string, keys []string, found []*etree.Element) {
	path, names, _ := strings.Cut(a.Place, "@")
	parent = strings.Split(path, "/")
	tag, parent = parent[len(parent)-1], parent[:len(parent)-1]
	return parent, tag, strings.Split(names, "@"), children(child(e, parent...), tag)
}

// read reads the attribute below an element.
func (a Attribute) read(e *etree.Element) string {
	if a.Read != nil {
		return a.normal(a.Read(e))
	}
	switch a.Kind {
	case Flag:
		if elementAt(e, a.Place) != nil {
			return "yes"
		}
		return ""
	case Amount:
		bytes, ok := size(elementAt(e, a.Place))
		if !ok {
			return ""
		}
		return a.normal(strconv.FormatUint(bytes, 10))
	case Numbers:
		_, _, keys, found := a.placed(e)
		var all []int64
		for _, one := range found {
			all = append(all, ParseNumbers(attr(one, keys[0]))...)
		}
		return FormatNumbers(all)
	case Texts:
		_, _, keys, found := a.placed(e)
		texts := map[string]string{}
		for _, one := range found {
			texts[attr(one, keys[0])] = attr(one, keys[1])
		}
		return a.normal(FormatTexts(texts))
	case Table:
		return a.normal(a.readTable(e))
	case Text, Count, Switch, Words, Switches:
	}
	value := textAt(e, a.Place)
	if on, off := a.switchWords(); a.Kind == Switch && value != "" {
		value = map[string]string{on: "yes", off: "no"}[value]
	}
	return a.normal(value)
}

// put writes the attribute at a path below an element; "" removes it.
func (a Attribute) put(e *etree.Element, path, value string) error {
	if slices.Contains(a.Kept, value) {
		return Problem{path, "The value " + value + " can be kept, but not declared."}
	}
	if a.Write != nil {
		if err := a.Write(e, value); err != nil {
			return Problem{path, err.Error()}
		}
		return nil
	}
	if a.Renews {
		parent, tag, _, _ := a.placed(e)
		dropChildren(child(e, parent...), tag)
	}
	switch a.Kind {
	case Flag:
		a.putElement(e, value != "", nil)
	case Amount:
		a.putElement(e, value != "", func(e *etree.Element) {
			if bytes, err := strconv.ParseUint(value, 10, 64); err == nil {
				setSize(e, bytes)
			}
		})
	case Numbers:
		var all []string
		for _, n := range ParseNumbers(value) {
			all = append(all, strconv.FormatInt(n, 10))
		}
		return a.putAll(e, all, func(*etree.Element, string) error { return nil })
	case Texts:
		texts := ParseTexts(value)
		_, _, keys, _ := a.placed(e)
		return a.putAll(e, sortedKeys(texts), func(one *etree.Element, name string) error {
			setAttr(one, keys[1], texts[name])
			return nil
		})
	case Table:
		return a.putTable(e, path, ParseTable(value))
	case Switch:
		on, off := a.switchWords()
		setTextAt(e, a.Place, map[string]string{"yes": on, "no": off}[value])
	default:
		setTextAt(e, a.Place, value)
	}
	return nil
}

// putElement creates the element of Place and fills it, or removes it.
func (a Attribute) putElement(e *etree.Element, there bool, fill func(*etree.Element)) {
	steps := strings.Split(a.Place, "/")
	if !there {
		parent := child(e, steps[:len(steps)-1]...)
		dropChildren(parent, steps[len(steps)-1])
		dropEmpty(parent, e)
		return
	}
	for _, tag := range steps {
		e = ensure(e, tag)
	}
	if fill != nil {
		fill(e)
	}
}

// putAll makes the elements of Place match the keys, and fills each of them, of several with one key the last, which is
// the one that is read. An existing element keeps its other attributes and children.
func (a Attribute) putAll(e *etree.Element, all []string, fill func(one *etree.Element, key string) error) error {
	steps, tag, keys, found := a.placed(e)
	old := map[string]*etree.Element{}
	for _, one := range found {
		old[attr(one, keys[0])] = one
	}
	parent := e
	if len(all) > 0 {
		for _, step := range steps {
			parent = ensure(parent, step)
		}
	} else {
		parent = child(e, steps...)
	}
	for _, key := range all {
		one := old[key]
		if one == nil {
			one = element(tag, keys[0], key)
			insert(parent, one, tag)
		}
		if err := fill(one, key); err != nil {
			return err
		}
	}
	for _, one := range found {
		if !slices.Contains(all, attr(one, keys[0])) {
			drop(one)
		}
	}
	dropEmpty(parent, e)
	return nil
}

// dropEmpty removes an element that no longer says anything, and the elements around it that then say nothing.
func dropEmpty(e, root *etree.Element) {
	for e != nil && e != root && len(e.Attr) == 0 && len(e.ChildElements()) == 0 && text(e) == "" {
		around := e.Parent()
		drop(e)
		e = around
	}
}

// merged returns the entries of both maps.
func merged[V any](a, b map[string]V) map[string]V {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}
