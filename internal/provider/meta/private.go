package meta

import (
	"context"
	"encoding/json"

	"github.com/hashicorp/terraform-plugin-framework/diag"
)

// PrivateReader is the framework's private state, whose type it doesn't export, to those who read it.
type PrivateReader interface {
	GetKey(ctx context.Context, key string) ([]byte, diag.Diagnostics)
}

// PrivateWriter is the framework's private state to those who write it.
type PrivateWriter interface {
	SetKey(ctx context.Context, key string, value []byte) diag.Diagnostics
}

// Private is the framework's private state to those who read and write it.
type Private interface {
	PrivateReader
	PrivateWriter
}

// ReadPrivate reads one entry into v and tells whether it was there.
func ReadPrivate(ctx context.Context, from PrivateReader, key string, v any) (bool, diag.Diagnostics) {
	data, diags := from.GetKey(ctx, key)
	if diags.HasError() || len(data) == 0 {
		return false, diags
	}
	if err := json.Unmarshal(data, v); err != nil {
		// Written by another version: what it says is found out again by the next reading.
		return false, diags
	}
	return true, diags
}

// WritePrivate writes one entry; nil removes it.
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
