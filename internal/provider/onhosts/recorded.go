package onhosts

import (
	"context"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/hostset"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/meta"
)

// uuidsKey is the key of the private state's list of the UUIDs of a resource's objects, on whichever host. By them the
// objects are known if the keys of hosts change, and also those of hosts that don't answer.
const uuidsKey = "uuids"

// recorded returns the UUIDs in private: none if an earlier version wrote it.
func recorded(ctx context.Context, private meta.PrivateReader) (uuids []string, diags diag.Diagnostics) {
	_, diags = meta.ReadPrivate(ctx, private, uuidsKey, &uuids)
	return uuids, diags
}

// record records the UUIDs in private, if there are both. The first stays the first: hosts that join get it.
func record(ctx context.Context, private meta.PrivateWriter, uuids []string) diag.Diagnostics {
	var once []string
	for _, uuid := range uuids {
		if !slices.Contains(once, uuid) {
			once = append(once, uuid)
		}
	}
	if private == nil || len(once) == 0 {
		return nil
	}
	return meta.WritePrivate(ctx, private, uuidsKey, once)
}

// OwnRecorded returns the answers without the objects that aren't the resource's. The UUIDs that are recorded in
// private tell them apart, by the rules of own. It also records the UUIDs of the objects that it returns.
func OwnRecorded[T any](
	ctx context.Context, answers []hostset.Answer[T], last types.Map, uuid func(T) string, private meta.Private,
) ([]hostset.Answer[T], diag.Diagnostics) {
	uuids, diags := recorded(ctx, private)
	answers = own(answers, last, uuid, uuids...)
	for _, a := range hostset.Found(answers) {
		uuids = append(uuids, uuid(*a.Value))
	}
	diags.Append(record(ctx, private, uuids)...)
	return answers, diags
}
