package provider

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/image"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/meta"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/network"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/networkdhcphost"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/networkfilter"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/secret"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/storagepool"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/virtualmachine"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/volume"
)

// destroyedWithOther are the resources whose objects a destroy removes although another resource has them.
var destroyedWithOther = map[string]bool{
	virtualmachine.TypeName: true, volume.TypeName: true, network.TypeName: true, storagepool.TypeName: true,
	networkfilter.TypeName: true, secret.TypeName: true, image.TypeName: true, networkdhcphost.TypeName: true,
}

// wireObject is an object as Terraform sends it.
type wireObject map[string]msgpack.RawMessage

func openObject(d *tfprotov6.DynamicValue) (o wireObject) {
	if d == nil || msgpack.Unmarshal(d.MsgPack, &o) != nil {
		return nil
	}
	return o
}

// text returns a text attribute, "" if it is null or unknown.
func (o wireObject) text(attribute string) (s string) {
	if raw, ok := o[attribute]; !ok || msgpack.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

// hosts returns the hosts that have the object, according to the state.
func (o wireObject) hosts(typeName string) []string {
	switch typeName {
	case virtualmachine.TypeName: // The state may not know yet where it has moved.
		return nil
	case volume.TypeName:
		return slices.DeleteFunc([]string{o.text("current_host")}, func(host string) bool { return host == "" })
	}
	var states map[string]string
	if raw, ok := o["host_states"]; !ok || msgpack.Unmarshal(raw, &states) != nil {
		return nil
	}
	return slices.Sorted(maps.Keys(states))
}

// name returns what is unique among objects of that type on a host, "" if it isn't known yet. It is the id, except that
// a secret's id is a UUID, which a new one doesn't have yet.
func (o wireObject) name(typeName string) string {
	parts := map[string][]string{
		network.TypeName: {"name"}, networkfilter.TypeName: {"name"}, storagepool.TypeName: {"name"},
		volume.TypeName: {"pool", "name"}, secret.TypeName: {"usage", "usage_id"},
	}[typeName]
	var names []string
	for _, part := range parts {
		if o.text(part) == "" {
			return o.text("id")
		}
		names = append(names, o.text(part))
	}
	return cmp.Or(strings.Join(names, "/"), o.text("id"))
}

// plannedTwice returns an error if the planned object is destroyed while the same plan keeps it for another resource,
// or creates one of its name for it, or the other way round. A creation fails or follows the loss of the object,
// whichever Terraform does first.
func plannedTwice(
	ctx context.Context, data *meta.Data, req *tfprotov6.PlanResourceChangeRequest,
) *tfprotov6.Diagnostic {
	if data == nil || data.Unknown || !destroyedWithOther[req.TypeName] || data.Applies.Load() {
		return nil
	}
	prior, planned := openObject(req.PriorState), openObject(req.ProposedNewState)
	object, is := prior, meta.Sighting{Plan: meta.Keep, Hosts: prior.hosts(req.TypeName)}
	switch {
	case planned == nil:
		is.Plan = meta.Destroy
	case prior == nil:
		hosts, _ := planned.plannedHosts()
		object, is = planned, meta.Sighting{Plan: meta.Create, Hosts: hosts}
	}
	name := object.name(req.TypeName)
	if name == "" {
		return nil
	}
	for _, other := range data.Sightings.Add(req.TypeName+"/"+name, is) {
		if is.Shares(other) || req.TypeName == volume.TypeName &&
			data.Storage().SamePool(ctx, object.text("pool"), is.Hosts[0], other.Hosts[0]) {
			d := meta.FormerAddressError(req.TypeName, name, is.Plan == meta.Create || other.Plan == meta.Create)
			return &tfprotov6.Diagnostic{
				Severity: tfprotov6.DiagnosticSeverityError, Summary: d.Summary(), Detail: d.Detail(),
			}
		}
	}
	return nil
}

// plannedHosts returns the hosts that an object is declared for, nil if it is declared for all, and whether they are
// known.
func (o wireObject) plannedHosts() (hosts []string, known bool) {
	if host := o.text("host"); host != "" {
		return []string{host}, true
	}
	raw, ok := o["hosts"]
	if ok && msgpack.Unmarshal(raw, &hosts) != nil {
		return nil, false
	}
	return hosts, true
}
