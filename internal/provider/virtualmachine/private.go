package virtualmachine

import (
	"context"
	"encoding/json"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
)

// Keys of the resource's private state: what a plan has to know that isn't a user's business.
const (
	// privateLive is the definition of the running machine, by which changes are told live or not.
	privateLive = "live"
	// privateImported says that the machine was imported and nothing of ours was written to it since.
	privateImported = "imported"
	// privateAgreed is what both definitions of the running machine said when they last agreed, as long as they don't.
	privateAgreed = "agreed"
	// privateEvicted says why a machine that is off stays so.
	privateEvicted = "evicted"
	// privateReplaced is the id of the machine that is planned, and so, when Terraform goes on to plan another one in its
	// place, of the one that is replaced.
	privateReplaced = "replaced"
)

// reader and writer are the framework's private state, whose type it doesn't export.
type reader interface {
	GetKey(ctx context.Context, key string) ([]byte, diag.Diagnostics)
}

type writer interface {
	SetKey(ctx context.Context, key string, value []byte) diag.Diagnostics
}

type readWriter interface {
	reader
	writer
}

// readPrivate reads one entry into v and tells whether it was there.
func readPrivate(ctx context.Context, from reader, key string, v any) (bool, diag.Diagnostics) {
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

// writePrivate writes one entry; nil removes it.
func writePrivate(ctx context.Context, to writer, key string, v any) diag.Diagnostics {
	if v == nil {
		return to.SetKey(ctx, key, nil)
	}
	data, err := json.Marshal(v)
	if err != nil {
		return diag.Diagnostics{diag.NewErrorDiagnostic("Unable to write private state", err.Error())}
	}
	return to.SetKey(ctx, key, data)
}

// writeLive records what runs.
func writeLive(ctx context.Context, to writer, live *domain.Spec) diag.Diagnostics {
	if live == nil {
		return writePrivate(ctx, to, privateLive, nil)
	}
	return writePrivate(ctx, to, privateLive, live)
}

// readLive returns what ran when the state was read last, nil when it didn't run.
func readLive(ctx context.Context, from reader) (*domain.Spec, diag.Diagnostics) {
	var live domain.Spec
	found, diags := readPrivate(ctx, from, privateLive, &live)
	if !found {
		return nil, diags
	}
	return &live, diags
}
