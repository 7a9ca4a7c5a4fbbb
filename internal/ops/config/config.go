package config

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"go.yaml.in/yaml/v3"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/firstboot"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
)

// Opener opens a fleet from a provider block in JSON. It connects to no host yet. The caller closes the fleet.
type Opener func(ctx context.Context, block []byte, logger *slog.Logger) (*fleet.Fleet, error)

// Open reads a file and opens the fleet that it describes. An empty path is an empty provider block: one host, from the
// environment.
func Open(ctx context.Context, path string, open Opener, logger *slog.Logger) (*fleet.Fleet, error) {
	block := map[string]any{}
	if path != "" {
		document, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("reading the configuration: %w", err)
		}
		var root yaml.Node
		if err := yaml.Unmarshal(document, &root); err != nil {
			return nil, firstboot.YAMLProblem(path, err)
		}
		if root.Kind == 0 {
			return nil, fmt.Errorf("%s is empty: it needs the attributes of the provider block, such as hosts", path)
		}
		if first, second := repeatedKey(&root); second > 0 {
			return nil, fmt.Errorf("%s: line %d: line %d has this key already", path, second, first)
		}
		if err := root.Decode(&block); err != nil {
			// The message would repeat the file's content, which may be a password.
			var syntax *yaml.TypeError
			if errors.As(err, &syntax) {
				return nil, fmt.Errorf("%s is not a map of attributes", path)
			}
			return nil, firstboot.YAMLProblem(path, err)
		}
	}
	data, err := json.Marshal(block)
	if err != nil {
		return nil, fmt.Errorf("%s: a key isn't text: %w", path, err)
	}
	f, err := open(ctx, data, logger)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return f, nil
}

// repeatedKey returns the lines of the first key that a map has twice, 0 if there is none.
func repeatedKey(n *yaml.Node) (first, second int) {
	lines := map[string]int{}
	for i, child := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 {
			if line, has := lines[child.Value]; has {
				return line, child.Line
			}
			lines[child.Value] = child.Line
		}
		if first, second = repeatedKey(child); second > 0 {
			return first, second
		}
	}
	return 0, 0
}
