package provider

import (
	"context"
	"maps"
	"slices"

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

// plannedTwice returns an error if the planned object is destroyed while the same plan keeps it for another resource,
// or the other way round. Of a volume, which may be created under the name of the one that is destroyed, it also
// returns one for that: the creation fails or follows the loss of the data, whichever Terraform does first.
func plannedTwice(
	ctx context.Context, data *meta.Data, req *tfprotov6.PlanResourceChangeRequest,
) *tfprotov6.Diagnostic {
	if data == nil || data.Unknown || !destroyedWithOther[req.TypeName] || data.Applies.Load() {
		return nil
	}
	prior, is := openObject(req.PriorState), meta.Sighting{Plan: meta.Keep}
	id := prior.text("id")
	switch planned := openObject(req.ProposedNewState); {
	case prior == nil && req.TypeName == volume.TypeName && planned.text("pool") != "" && planned.text("name") != "":
		id, is.Plan = planned.text("pool")+"/"+planned.text("name"), meta.Create
		is.Hosts = slices.DeleteFunc([]string{planned.text("host")}, func(host string) bool { return host == "" })
	case planned == nil:
		is.Plan = meta.Destroy
	}
	if is.Plan != meta.Create {
		is.Hosts = prior.hosts(req.TypeName)
	}
	if id == "" {
		return nil
	}
	for _, other := range data.Sightings.Add(req.TypeName+"/"+id, is) {
		if is.Shares(other) || req.TypeName == volume.TypeName &&
			data.Storage().SamePool(ctx, prior.pool(req), is.Hosts[0], other.Hosts[0]) {
			d := meta.FormerAddressError(req.TypeName, id, is.Plan == meta.Create || other.Plan == meta.Create)
			return &tfprotov6.Diagnostic{
				Severity: tfprotov6.DiagnosticSeverityError, Summary: d.Summary(), Detail: d.Detail(),
			}
		}
	}
	return nil
}

// pool returns the storage pool of the volume that is planned.
func (o wireObject) pool(req *tfprotov6.PlanResourceChangeRequest) string {
	if o == nil {
		o = openObject(req.ProposedNewState)
	}
	return o.text("pool")
}
