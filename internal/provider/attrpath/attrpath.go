package attrpath

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
)

// Text returns a path with dots: disks.root.bus.
func Text(p path.Path) string {
	var steps []string
	for _, step := range p.Steps() {
		switch s := step.(type) {
		case path.PathStepAttributeName:
			steps = append(steps, string(s))
		case path.PathStepElementKeyString:
			steps = append(steps, string(s))
		case path.PathStepElementKeyInt:
			steps = append(steps, fmt.Sprint(int64(s)))
		default:
			steps = append(steps, step.String())
		}
	}
	return strings.Join(steps, ".")
}

// Parse parses a path that Text wrote. A step after one of maps is a key of that map.
func Parse(text string, maps ...string) path.Path {
	steps := strings.Split(text, ".")
	at := path.Root(steps[0])
	for i, step := range steps[1:] {
		if slices.Contains(maps, strings.Join(steps[:i+1], ".")) {
			at = at.AtMapKey(step)
			continue
		}
		at = at.AtName(step)
	}
	return at
}

// Line returns the path to give to Terraform for a message about p, so that the message shows the line with the
// attribute: p's first step, and the key if that step is a map. Terraform doesn't find deeper attributes in the source.
// It would show the resource's first line instead, or another attribute of the resource that happens to have the same
// name.
func Line(p path.Path) path.Path {
	steps := p.Steps()
	shown := path.Empty()
	for i, step := range steps {
		switch s := step.(type) {
		case path.PathStepAttributeName:
			if i > 0 {
				return shown
			}
			shown = shown.AtName(string(s))
		case path.PathStepElementKeyString:
			return shown.AtMapKey(string(s))
		default:
			return shown
		}
	}
	return shown
}

// Message adds the attribute's path to a message if the attribute is nested, because Terraform then doesn't show it.
func Message(p path.Path, message string) string {
	text := Text(p)
	if len(p.Steps()) < 2 || strings.Contains(message, text) {
		return message
	}
	return text + ": " + message
}

// Error returns an error about an attribute.
func Error(p path.Path, summary, message string) diag.Diagnostic {
	return diag.NewAttributeErrorDiagnostic(Line(p), summary, Message(p, message))
}
