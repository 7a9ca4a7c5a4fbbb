package meta

import (
	"context"
	"encoding/json"

	"github.com/hashicorp/terraform-plugin-framework/diag"
)

// PrivateReader reads the framework's private state, whose type the framework doesn't export.
type PrivateReader interface {
	GetKey(ctx context.Context, key string) ([]byte, diag.Diagnostics)
}

// PrivateWriter writes the framework's private state.
type PrivateWriter interface {
	SetKey(ctx context.Context, key string, value []byte) diag.Diagnostics
}

// Private reads and writes the framework's private state.
type Private interface {
	PrivateReader
	PrivateWriter
}

// ReadPrivate reads one entry into v and reports whether it existed.
func ReadPrivate(ctx context.Context, from PrivateReader, key string, v any) (bool, diag.Diagnostics) {
	data, diags := from.GetKey(ctx, key)
	if diags.HasError() || len(data) == 0 {
		return false, diags
	}
	if err := json.Unmarshal(data, v); err != nil {
		// Another version wrote the entry. The next read finds out its content again.
		return false, diags
	}
	return true, diags
}

// WritePrivate writes one entry. nil removes it.
func WritePrivate(ctx context.Context, to PrivateWriter, key string, v any) diag.Diagnostics {
	if v == nil {
		return to.SetKey(ctx, key, nil)
	}
	data, err := json.Marshal(v)
	if err != nil {
		return diag.Diagnostics{diag.NewErrorDiagnostic("Unable to write private state", err.Error())}
	}
	return to.SetKey(ctx, key, data)
}
