package provider

import (
	"encoding/json"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/meta"
)

// unknown stands for a value that isn't known before apply.
const unknown = "${unknown}"

// block is a provider block as a test writes it.
type block = map[string]any

// served is a provider that is spoken to as Terraform does.
type served struct {
	*Provider
	server tfprotov6.ProviderServer
}

func serve(t *testing.T) *served {
	t.Helper()
	p := New("test")
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Errorf("closing the provider: %v", err)
		}
	})
	return &served{Provider: p, server: p.Server()}
}

// dynamic encodes a block for the wire.
func (s *served) dynamic(t *testing.T, b block) *tfprotov6.DynamicValue {
	t.Helper()
	schemas, err := s.server.GetProviderSchema(t.Context(), &tfprotov6.GetProviderSchemaRequest{})
	if err != nil {
		t.Fatal(err)
	}
	typ := schemas.Provider.ValueType()
	raw, err := json.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	v, err := tftypes.ValueFromJSON(raw, typ) //nolint:staticcheck // There is no other way to write values down briefly.
	if err != nil {
		t.Fatal(err)
	}
	v, err = tftypes.Transform(v, func(_ *tftypes.AttributePath, v tftypes.Value) (tftypes.Value, error) {
		var s string
		if v.Type().Is(tftypes.String) && v.IsKnown() && !v.IsNull() && v.As(&s) == nil && s == unknown {
			return tftypes.NewValue(tftypes.String, tftypes.UnknownValue), nil
		}
		return v, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	d, err := tfprotov6.NewDynamicValue(typ, v)
	if err != nil {
		t.Fatal(err)
	}
	return &d
}

// validate is what terraform validate does.
func (s *served) validate(t *testing.T, b block) []*tfprotov6.Diagnostic {
	t.Helper()
	resp, err := s.server.ValidateProviderConfig(t.Context(),
		&tfprotov6.ValidateProviderConfigRequest{Config: s.dynamic(t, b)})
	if err != nil {
		t.Fatal(err)
	}
	return resp.Diagnostics
}

// configure is what the first step of a plan does.
func (s *served) configure(t *testing.T, b block) []*tfprotov6.Diagnostic {
	t.Helper()
	resp, err := s.server.ConfigureProvider(t.Context(), &tfprotov6.ConfigureProviderRequest{Config: s.dynamic(t, b)})
	if err != nil {
		t.Fatal(err)
	}
	return resp.Diagnostics
}

// data is what resources got.
func (s *served) data(t *testing.T) *meta.Data {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.configured == nil {
		t.Fatal("the provider isn't configured")
	}
	return s.configured
}
