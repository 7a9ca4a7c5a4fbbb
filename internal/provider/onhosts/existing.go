package onhosts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/hostset"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/meta"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/tfdiag"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

// NoteSaved records the object of a state that Terraform saved, for CheckNew.
func NoteSaved(data *meta.Data, req *tfprotov6.UpgradeResourceStateRequest) {
	var saved struct{ ID string }
	if data == nil || req.RawState == nil || json.Unmarshal(req.RawState.JSON, &saved) != nil || saved.ID == "" {
		return
	}
	data.Saved.Note(req.TypeName, saved.ID)
}

// CheckNew returns a warning that names the targets which have an object of the name already: Create would fail. It is
// no error: before Terraform destroys other objects, it plans to create those that its state doesn't have. It leaves
// out an object that a resource of the state has, because the plan may replace it, one that a killed run has left,
// which Create takes over, and hosts that don't answer. planned is the attribute hosts in the plan, and at is the
// attribute that names the object.
func (c Change) CheckNew(
	ctx context.Context, targets hostset.Set, planned types.Set, at path.Path,
) (diags diag.Diagnostics) {
	if Undecided(planned) || c.Data.Saved.Has(c.TypeName, c.ImportID) {
		return nil
	}
	have, ids := map[string]error{}, map[string]string{}
	for _, a := range c.ask(ctx, targets) {
		if !c.Data.Saved.Has(c.TypeName, *a.Value) {
			have[a.Host], ids[a.Host] = fmt.Errorf("%w: the host has the %s", libvirt.ErrExists, c.Noun), *a.Value
		}
	}
	if len(have) == 0 {
		return nil
	}
	// The record of one host is for the objects of all: where its creation is complete, the record is gone already.
	begun, known := c.begun(ctx, targets)
	if !known {
		return nil
	}
	maps.DeleteFunc(have, func(host string, _ error) bool { return slices.Contains(begun, ids[host]) })
	if len(have) == 0 {
		return nil
	}
	f, _ := c.existing(have)
	f.Happened = "the apply fails if it has to create it"
	return append(diags, diag.WithPath(at, f.Warning()))
}

// begun returns the UUIDs of the objects whose creation has begun by the records of the targets. known says that all
// targets answered.
func (c Change) begun(ctx context.Context, targets hostset.Set) (uuids []string, known bool) {
	answers := hostset.Ask(ctx, targets, func(ctx context.Context, h *libvirt.Host) (*string, error) {
		begun, err := c.creation().Begun(ctx, h)
		return &begun, err
	})
	for _, a := range hostset.Found(answers) {
		if *a.Value != "" {
			uuids = append(uuids, *a.Value)
		}
	}
	return uuids, len(hostset.Silent(answers)) == 0
}

// existing returns the failure of a creation on the hosts that have an object of the name already, and the errors of
// the others. f.Err is nil if no host has one.
func (c Change) existing(failed map[string]error) (f tfdiag.Failure, others map[string]error) {
	var hosts []string
	others = map[string]error{}
	for _, host := range value.Keys(failed) {
		if !errors.Is(failed[host], libvirt.ErrExists) {
			others[host] = failed[host]
			continue
		}
		hosts = append(hosts, host)
		f.Err = failed[host]
	}
	if len(hosts) > 1 {
		f.Err = fmt.Errorf("%w: each of these hosts has the %s", libvirt.ErrExists, c.Noun)
	}
	f.Verb, f.Noun, f.Host = "create", c.Noun, strings.Join(hosts, ", ")
	f.Remedy = ImportRemedy(c.TypeName, c.ImportID)
	return f, others
}
