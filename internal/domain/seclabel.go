package domain

import (
	"fmt"
	"regexp"
	"slices"

	"github.com/beevik/etree"
)

const (
	seclabelPath = "platform.seclabel"
	seclabelWhy  = "QEMU keeps the security label that it started with."

	labelDynamic = "dynamic"
	labelStatic  = "static"
)

// seclabelModels are the security drivers of libvirt. A host without any other driver has the driver none.
var seclabelModels = []string{"dac", "selinux", "apparmor", None}

// dacLabel is a user and a group, each by name or number.
var dacLabel = regexp.MustCompile(`^\+?[^:+\s]+:\+?[^:+\s]+$`)

// seclabelGroup sets how the VM is isolated from the rest of its host.
var seclabelGroup = Group{
	Path: "platform",
	Attributes: []Attribute{{
		Name: "seclabel", Place: "seclabel@model", Kind: Table, Why: seclabelWhy,
		Ignore: isDefaultLabel,
		Key: func(model string) string {
			if slices.Contains(seclabelModels, model) {
				return ""
			}
			return fmt.Sprintf("%q isn't one of dac, selinux, apparmor.", model)
		},
		Doc: "Security labels of QEMU and the VM's files by model: `dac` (user and group), `selinux` or `apparmor`. Other " +
			"models get a dynamic label. If you set the map, list every label. `{}` removes them.",
		Columns: []Attribute{
			{
				Name: "type", Values: []string{labelDynamic, labelStatic, None},
				Read: func(e *etree.Element) string { return attr(e, "type") }, Write: writeLabelType,
				Doc: "Required: libvirt chooses a label like `baselabel` (`dynamic`), QEMU has exactly `label` " +
					"(`static`), or QEMU isn't confined (`none`).",
			},
			{
				Name: "label", Read: labelOf("label", labelStatic), Write: writeLabel("label"),
				Doc: "Label for the type `static`, such as `64055:108` for `dac`. Every host of the VM must know it.",
			},
			{
				Name: "baselabel", Read: labelOf("baselabel", labelDynamic), Write: writeLabel("baselabel"),
				Doc: "Label that the one for the type `dynamic` is derived from.",
			},
			{
				Name: "relabel", Kind: Flag,
				Read: func(e *etree.Element) string {
					if attr(e, "type") == labelStatic && attr(e, "relabel") == "yes" {
						return "yes"
					}
					return ""
				},
				Write: func(e *etree.Element, value string) error {
					setAttr(e, "relabel", value)
					return nil
				},
				Doc: "Whether libvirt gives the VM's files the label, too, for the type `static`. With `dynamic`, it always " +
					"does.",
			},
		},
		Check: checkLabels,
	}},
}

// isDefaultLabel reports whether libvirt chooses the label, as it does for models without an element.
func isDefaultLabel(e *etree.Element) bool {
	return attr(e, "type") == labelDynamic && child(e, "baselabel") == nil
}

// writeLabelType changes the type of an element, and removes everything that depends on the old type.
func writeLabelType(e *etree.Element, value string) error {
	setAttr(e, "type", value)
	setAttr(e, "relabel", "")
	dropChildren(e)
	return nil
}

// labelOf returns a function that reads a label if the element has that type. A running VM has the label with other
// types, too.
func labelOf(tag, kind string) func(*etree.Element) string {
	return func(e *etree.Element) string {
		if attr(e, "type") != kind {
			return ""
		}
		return text(child(e, tag))
	}
}

func writeLabel(tag string) func(*etree.Element, string) error {
	return func(e *etree.Element, value string) error {
		setTextAt(e, tag, value)
		return nil
	}
}

// checkLabels checks that each label has what its type requires, and nothing else.
func checkLabels(value string) string {
	labels := ParseTable(value)
	for _, model := range sortedKeys(labels) {
		row := labels[model]
		label, base := row["label"], row["baselabel"]
		problem := ""
		switch kind := row["type"]; {
		case kind == "":
			problem = "It needs a type."
		case (label != "") != (kind == labelStatic):
			problem = "The type static has a label, and no other type has."
		case (base != "") != (kind == labelDynamic):
			problem = "The type dynamic has a baselabel, and no other type has. Without one, leave the label out."
		case row["relabel"] != "" && kind != labelStatic:
			problem = "Only the type static has relabel."
		case model == "dac" && label+base != "" && !dacLabel.MatchString(label+base):
			problem = fmt.Sprintf("%q isn't a user and a group such as 107:107.", label+base)
		}
		if problem != "" {
			return model + ": " + problem
		}
	}
	return ""
}
