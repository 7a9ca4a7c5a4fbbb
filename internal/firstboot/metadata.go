package firstboot

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// The keys of the meta data for the fields of NoCloud.
const (
	keyInstanceID = "instance-id"
	keyHostname   = "local-hostname"
)

// metaData returns the meta data, and adds the instance id and the hostname if they are missing. If nothing has to be
// added, the user's text stays as it is, comments included.
func (n NoCloud) metaData() ([]byte, *Problem) {
	document, problem := parseMapping(FieldMetaData, n.MetaData)
	if problem != nil {
		return nil, problem
	}
	var missing []*yaml.Node
	add := func(key, value string) {
		if value != "" && valueOf(document, key) == nil {
			missing = append(missing, scalar(key), scalar(value))
		}
	}
	add(keyInstanceID, n.InstanceID)
	add(keyHostname, n.Hostname)
	if own := valueOf(document, keyInstanceID); own != nil {
		if own.Kind != yaml.ScalarNode || own.Value == "" {
			return nil, &Problem{Field: FieldMetaData, Line: own.Line, Reason: keyInstanceID + " isn't a text"}
		}
		if n.InstanceID != "" && own.Value != n.InstanceID {
			return nil, &Problem{Field: FieldMetaData, Line: own.Line, Reason: fmt.Sprintf(
				"its %s differs from the attribute instance_id; set one of them", keyInstanceID)}
		}
	}
	if len(missing) == 0 {
		return []byte(n.MetaData), nil
	}
	addition, err := yaml.Marshal(&yaml.Node{Kind: yaml.MappingNode, Content: missing})
	if err != nil {
		return nil, &Problem{Field: FieldMetaData, Reason: "it can't be written as YAML"}
	}
	if document == nil || document.Style&yaml.FlowStyle == 0 && document.Column == 1 {
		text := n.MetaData
		if text != "" && !strings.HasSuffix(text, "\n") {
			text += "\n"
		}
		return append([]byte(text), addition...), nil
	}
	// Nothing can be appended to a mapping in JSON notation.
	document.Style &^= yaml.FlowStyle
	document.Content = append(document.Content, missing...)
	text, err := yaml.Marshal(document)
	if err != nil {
		return nil, &Problem{Field: FieldMetaData, Reason: "it can't be written as YAML"}
	}
	return text, nil
}

// ownInstance returns the instance id that the meta data has, and "" if it has none.
func (n NoCloud) ownInstance() string {
	document, problem := parseMapping(FieldMetaData, n.MetaData)
	if problem != nil {
		return ""
	}
	if own := valueOf(document, keyInstanceID); own != nil {
		return own.Value
	}
	return ""
}

func scalar(text string) *yaml.Node {
	node := &yaml.Node{}
	node.SetString(text)
	return node
}

// valueOf returns the value of a key of a mapping; nil if there is none.
func valueOf(mapping *yaml.Node, key string) *yaml.Node {
	if mapping == nil {
		return nil
	}
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			return mapping.Content[i+1]
		}
	}
	return nil
}
