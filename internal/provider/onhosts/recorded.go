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

// OwnRecorded returns the answers of the hosts without the objects that aren't the resource's: the UUIDs and hosts that
// are recorded in private tell them apart, by the rules of own. last are the host_states in the state. OwnRecorded
// returns them with Missing for each name that leads to another host now, and warns about each that doesn't have the
// object, in which noun names the resource. It also records the UUIDs of the objects that it returns, and which hosts
// have them.
func OwnRecorded[T any](
	ctx context.Context, noun string, hosts hostset.Set, answers []hostset.Answer[T], last types.Map,
	uuid func(T) string, private meta.Private,
) ([]hostset.Answer[T], types.Map, diag.Diagnostics) {
	last, others := sameHosts(ctx, hosts, last, private)
	uuids, diags := recorded(ctx, private)
	answers = own(answers, last, uuid, uuids...)
	found := hostset.Found(answers)
	for _, a := range found {
		uuids = append(uuids, uuid(*a.Value))
	}
	diags.Append(replacedWarning(noun, without(others, hostNames(found)), false)...)
	diags.Append(record(ctx, private, uuids)...)
	diags.Append(recordHosts(ctx, hosts, last, private)...)
	return answers, last, diags
}
