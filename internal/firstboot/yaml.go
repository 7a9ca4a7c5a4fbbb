package firstboot

import (
	"errors"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// parseMapping parses YAML (or JSON, which is YAML) that must be a mapping. It returns nil for a text without content.
func parseMapping(field, text string) (*yaml.Node, *Problem) {
	node, problem := parseYAML(field, text)
	if problem != nil || node == nil {
		return nil, problem
	}
	if node.Kind != yaml.MappingNode {
		return nil, &Problem{Field: field, Line: node.Line, Reason: "it must be a YAML mapping (key: value)"}
	}
	return node, nil
}

// parseYAML parses one YAML document and returns its root; nil for a text without content.
func parseYAML(field, text string) (*yaml.Node, *Problem) {
	decoder := yaml.NewDecoder(strings.NewReader(text))
	var document, next yaml.Node
	switch err := decoder.Decode(&document); {
	case errors.Is(err, io.EOF):
		return nil, nil
	case err != nil:
		return nil, YAMLProblem(field, err)
	}
	switch err := decoder.Decode(&next); {
	case errors.Is(err, io.EOF):
	case err != nil:
		return nil, YAMLProblem(field, err)
	default:
		return nil, &Problem{
			Field: field, Line: next.Line, Reason: "it has more than one YAML document; cloud-init reads one",
		}
	}
	root := document.Content[0]
	if root.Kind == yaml.ScalarNode && root.Tag == "!!null" {
		return nil, nil
	}
	return root, nil
}

// yamlLine matches the line in an error of the parser.
var yamlLine = regexp.MustCompile(`line (\d+)`)

// yamlReasons are the parser's explanations that don't quote the content.
var yamlReasons = []string{
	"mapping values are not allowed in this context",
	"found character that cannot start any token",
	"found a tab character that violates indentation",
	"could not find expected ':'",
	"did not find expected key",
	"did not find expected '-' indicator",
	"did not find expected ',' or ']'",
	"did not find expected ',' or '}'",
	"did not find expected node content",
	"did not find expected alphabetic or numeric character",
	"did not find expected comment or line break",
	"did not find expected <document start>",
	"block sequence entries are not allowed in this context",
	"block mapping keys are not allowed in this context",
	"found unexpected end of stream",
	"found unexpected document indicator",
	"found unknown escape character",
	"found undefined tag handle",
	"unknown anchor",
	"control characters are not allowed",
	"invalid Unicode character",
	"exceeded max depth",
}

// YAMLProblem returns where YAML doesn't parse and why, without the parser's words, which may quote the content.
func YAMLProblem(field string, err error) *Problem {
	p := &Problem{Field: field, Reason: "it isn't valid YAML"}
	text := err.Error()
	if line := yamlLine.FindStringSubmatch(text); line != nil {
		p.Line, _ = strconv.Atoi(line[1])
	}
	for _, reason := range yamlReasons {
		if strings.Contains(text, reason) {
			p.Reason += ": " + reason
			break
		}
	}
	return p
}
