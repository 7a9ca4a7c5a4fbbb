package domain

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/beevik/etree"
)

// qemuNamespace is the namespace of elements that libvirt passes to QEMU unchanged.
const qemuNamespace = "http://libvirt.org/schemas/domain/qemu/1.0"

const commandlineWhy = "QEMU reads its command line when it starts."

// commandlineGroup are the arguments and settings that QEMU gets in addition to those from libvirt.
var commandlineGroup = Group{
	Path: "qemu_commandline",
	Doc: "Arguments and environment variables for QEMU in addition to libvirt's. No plan can tell whether QEMU accepts " +
		"them. Memory that they use isn't counted. The state has them: **no passwords**.",
	Attributes: []Attribute{
		{
			Name: "args", Kind: Words, Why: commandlineWhy,
			Read: func(root *etree.Element) string {
				var words []string
				for _, e := range ofQEMU(commandline(root), "arg") {
					words = append(words, attr(e, "value"))
				}
				return FormatWords(words)
			},
			Write: func(root *etree.Element, value string) error {
				writeCommandline(root, "arg", ParseWords(value), func(e *etree.Element, word string) {
					e.CreateAttr("value", word)
				})
				return nil
			},
			Check: func(value string) string {
				words := ParseWords(value)
				switch {
				case words == nil:
					return "It isn't a list of texts."
				case !Readable(strings.Join(words, "")):
					return "An argument has a character that can't be written in a definition."
				default:
					return ""
				}
			},
			Doc: "Arguments in their order, such as `[\"-boot\", \"strict=on\"]`. `[]` removes all.",
		},
		{
			Name: "env", Kind: Texts, Why: commandlineWhy,
			Read: func(root *etree.Element) string {
				texts := map[string]string{}
				for _, e := range ofQEMU(commandline(root), "env") {
					texts[attr(e, "name")] = attr(e, "value")
				}
				return FormatTexts(texts)
			},
			Write: func(root *etree.Element, value string) error {
				texts := ParseTexts(value)
				writeCommandline(root, "env", sortedKeys(texts), func(e *etree.Element, name string) {
					e.CreateAttr("name", name)
					e.CreateAttr("value", texts[name])
				})
				return nil
			},
			Check: func(value string) string {
				for line := range strings.Lines(value) {
					switch name, _, _ := strings.Cut(line, "="); {
					case name == "":
						return "An environment variable needs a name."
					case !environmentName.MatchString(name):
						return fmt.Sprintf("%q isn't the name of an environment variable: letters, digits and \"_\".", name)
					}
				}
				return ""
			},
			Doc: "Environment variables by name. `{}` removes all.",
		},
	},
}

// environmentName matches the names that libvirt accepts.
var environmentName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// commandline returns the element with the arguments for QEMU, and nil if there is none.
func commandline(root *etree.Element) *etree.Element {
	if found := ofQEMU(root, "commandline"); len(found) > 0 {
		return found[0]
	}
	return nil
}

// ofQEMU returns the children with that tag in QEMU's namespace.
func ofQEMU(e *etree.Element, tag string) []*etree.Element {
	if e == nil {
		return nil
	}
	var found []*etree.Element
	for _, c := range e.ChildElements() {
		if c.Tag == tag && c.Space != "" && c.NamespaceURI() == qemuNamespace {
			found = append(found, c)
		}
	}
	return found
}

// writeCommandline replaces the elements with a tag by those of the list.
func writeCommandline(root *etree.Element, tag string, all []string, fill func(e *etree.Element, one string)) {
	holder := commandline(root)
	for _, e := range ofQEMU(holder, tag) {
		drop(e)
	}
	if holder == nil && len(all) > 0 {
		holder = add(root, "commandline")
		holder.Space = "qemu"
		holder.CreateAttr("xmlns:qemu", qemuNamespace)
	}
	for _, one := range all {
		e := add(holder, tag)
		e.Space = holder.Space
		fill(e, one)
	}
	if holder != nil && len(holder.ChildElements()) == 0 {
		drop(holder)
	}
}
