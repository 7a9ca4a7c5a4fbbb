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
		if err := yaml.Unmarshal(document, &block); err != nil {
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
