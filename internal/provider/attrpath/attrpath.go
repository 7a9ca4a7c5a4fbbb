package attrpath

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
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

// Line returns the path to give to Terraform for a message about p, so that the message shows the one line with the
// attribute: p's first step, and the second one as a key, which Terraform looks for in an object as in a map. By the
// name of an attribute it wouldn't: it would show the resource's first line instead, or another attribute of the
// resource that happens to have the same name. Of a first step alone it shows all lines.
func Line(p path.Path) path.Path {
	shown := path.Empty()
	for i, step := range p.Steps() {
		switch s := step.(type) {
		case path.PathStepAttributeName:
			if i > 0 {
				return shown.AtMapKey(string(s))
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

// Message adds the attribute's path to a message if the attribute is nested and the message doesn't name it, because
// Terraform then doesn't show it.
func Message(p path.Path, message string) string {
	text := Text(p)
	if len(p.Steps()) < 2 || strings.Contains(message, text) || strings.Contains(message, p.String()) {
		return message
	}
	return text + ": " + message
}

// Error returns an error about an attribute.
func Error(p path.Path, summary, message string) diag.Diagnostic {
	return diag.NewAttributeErrorDiagnostic(Line(p), summary, Message(p, message))
}

// Show changes the messages of a response as Error makes them. Validators of the framework, and AddAttributeError, give
// Terraform the whole path.
func Show(messages []*tfprotov6.Diagnostic) {
	for _, m := range messages {
		if m.Attribute == nil {
			continue
		}
		at := OfProtocol(m.Attribute)
		m.Detail = Message(at, m.Detail)
		m.Attribute = tftypes.NewAttributePath()
		for _, step := range Line(at).Steps() {
			switch s := step.(type) {
			case path.PathStepAttributeName:
				m.Attribute = m.Attribute.WithAttributeName(string(s))
			case path.PathStepElementKeyString:
				m.Attribute = m.Attribute.WithElementKeyString(string(s))
			default: // Line leaves no other step.
			}
		}
	}
}

// OfProtocol returns a path of Terraform's protocol up to its first step into a set, whose elements have no names.
func OfProtocol(p *tftypes.AttributePath) path.Path {
	at := path.Empty()
	for _, step := range p.Steps() {
		switch s := step.(type) {
		case tftypes.AttributeName:
			at = at.AtName(string(s))
		case tftypes.ElementKeyString:
			at = at.AtMapKey(string(s))
		case tftypes.ElementKeyInt:
			at = at.AtListIndex(int(s))
		default:
			return at
		}
	}
	return at
}
