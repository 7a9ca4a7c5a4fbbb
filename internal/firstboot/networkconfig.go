package firstboot

import (
	"go.yaml.in/yaml/v3"
)

// validateNetworkConfig checks what every renderer of cloud-init requires: a known version, and content of that
// version.
func validateNetworkConfig(text string) []Problem {
	if text == "" {
		return nil
	}
	found := func(node *yaml.Node, reason string) []Problem {
		p := Problem{Field: FieldNetworkConfig, Reason: reason}
		if node != nil {
			p.Line = node.Line
		}
		return []Problem{p}
	}
	config, problem := parseMapping(FieldNetworkConfig, text)
	if problem != nil {
		return []Problem{*problem}
	}
	// As in the system's configuration, it may be under the key network.
	if inner := valueOf(config, "network"); inner != nil {
		if inner.Kind != yaml.MappingNode {
			return found(inner, "the value of network must be a mapping")
		}
		config = inner
	}
	content := valueOf(config, "config")
	if content != nil && content.Value == "disabled" {
		return nil
	}
	version := valueOf(config, "version")
	switch {
	case version == nil:
		return found(config, "it names no version; write \"version: 2\" (netplan's format) or \"version: 1\"")
	case version.Value == "1" && (content == nil || content.Kind != yaml.SequenceNode):
		return found(version, "version 1 has its devices in a list with the key config")
	case version.Value == "2" && content != nil:
		return found(content, "version 2 has no key config; its devices are under ethernets, bonds, bridges and vlans")
	case version.Value != "1" && version.Value != "2":
		return found(version, "it has a version that cloud-init doesn't know; versions 1 and 2 are known")
	}
	return nil
}
