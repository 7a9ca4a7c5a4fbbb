package provider

import (
	"context"
	"fmt"
	"regexp"

	"github.com/hashicorp/terraform-plugin-framework-validators/listvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/mapvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/provider/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

// classNames matches the names of device classes, which VMs refer to.
var classNames = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// devicesAttribute returns the attribute that lists a host's devices by class.
func devicesAttribute() schema.MapAttribute {
	return schema.MapAttribute{
		Optional: true, ElementType: types.ListType{ElemType: types.StringType},
		MarkdownDescription: "Devices of the host for the exclusive use of VMs, by class, in the order in which VMs get " +
			"them: `{ gpu = [\"pci:0000:65:00.0\"] }`. Also `usb:<vendor>:<product>`, `scsi:<host>:<channel>:<target>:<lun>`, " +
			"`mdev:<uuid>`. See [Huge pages and devices](guides/host-capacity.md#huge-pages-and-devices).",
		Validators: []validator.Map{
			mapvalidator.KeysAre(stringvalidator.RegexMatches(classNames,
				"a class's name is made of letters, digits, \"-\" and \"_\"")),
			mapvalidator.ValueListsAre(listvalidator.UniqueValues(), listvalidator.ValueStringsAre(deviceValidator{})),
		},
	}
}

// deviceValidator refuses texts that don't name a device of a host.
type deviceValidator struct{}

// Description says what the validator accepts.
func (deviceValidator) Description(context.Context) string {
	return `a device of the host: "pci:0000:65:00.0", "usb:1234:abcd", "scsi:0:0:1:0", or "mdev:" and its UUID in ` +
		`small letters`
}

// MarkdownDescription is Description.
func (v deviceValidator) MarkdownDescription(ctx context.Context) string { return v.Description(ctx) }

// ValidateString refuses texts that don't name a device of a host.
func (v deviceValidator) ValidateString(
	ctx context.Context, req validator.StringRequest, resp *validator.StringResponse,
) {
	if req.ConfigValue.IsNull() || req.ConfigValue.IsUnknown() {
		return
	}
	if _, ok := domain.ParseHostDevice(req.ConfigValue.ValueString()); !ok {
		resp.Diagnostics.AddAttributeError(req.Path, "Invalid device of a host",
			fmt.Sprintf("%q isn't %s.", req.ConfigValue.ValueString(), v.Description(ctx)))
	}
}

// deviceClasses returns a host's devices by class.
func deviceClasses(m types.Map) map[string][]domain.HostPart {
	classes := make(map[string][]domain.HostPart, len(m.Elements()))
	for class, listed := range m.Elements() {
		list, ok := listed.(types.List)
		if !ok {
			continue
		}
		for _, address := range value.StringList(list) {
			if part, ok := domain.ParseHostDevice(address); ok {
				classes[class] = append(classes[class], part)
			}
		}
	}
	return classes
}
