package virtualmachine

import (
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/lifecycle"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/attrpath"
)

// graphicsAccessName is the attribute's name. It is separate from devices.graphics, because Terraform doesn't support
// write-only attributes in computed ones.
const graphicsAccessName = "graphics_access"

// maxVNCPassword is the number of characters of a password that VNC uses.
const maxVNCPassword = 8

var graphicsAccessAttributes = attributes{
	"password_wo": writeOnly("The password. It is written only to the host, neither to the state nor to the " +
		"plan."),
	"password_wo_version": writeOnlyVersion("password", "the password is then set again"),
}

var graphicsAccessType = objectType(graphicsAccessAttributes)

func graphicsAccessAttribute() schema.SingleNestedAttribute {
	return schema.SingleNestedAttribute{
		MarkdownDescription: "Password of the graphical console (`devices.graphics`). A VNC password has at most 8 " +
			"characters. A new password is set while the VM runs. Setting the first password and removing it require a restart.",
		Attributes: graphicsAccessAttributes,
		CustomType: graphicsAccessType,
		Optional:   true,
	}
}

// graphicsPassword returns the password to set: a new one, "" to remove it, or nil if the version is that of prior.
func (m *model) graphicsPassword(prior *model) *string {
	is, was := open(m.GraphicsAccess), object(nil)
	if prior != nil {
		was = open(prior.GraphicsAccess)
	}
	switch {
	case m.GraphicsAccess.IsUnknown(), is == nil && was == nil:
		return nil
	case is == nil:
		return new("")
	case was != nil && is.string("password_wo_version").Equal(was.string("password_wo_version")),
		is.string("password_wo").IsUnknown():
		return nil
	default:
		return new(text(is.string("password_wo")))
	}
}

// passwordChanges returns the changes of the password that a running VM can't take.
func (p planning) passwordChanges() []domain.Change {
	if p.live == nil || p.config.updatePolicy() == fleet.PolicyStage || p.config.GraphicsAccess.IsUnknown() ||
		isSet(p.config.GraphicsAccess) == isSet(p.state.GraphicsAccess) {
		return nil
	}
	return []domain.Change{{Path: graphicsAccessName, Why: lifecycle.PasswordWhy}}
}

// validateGraphicsAccess checks a password as far as it is known, and never shows it.
func (m *model) validateGraphicsAccess() diag.Diagnostics {
	if !isSet(m.GraphicsAccess) {
		return nil
	}
	at, a := path.Root(graphicsAccessName), open(m.GraphicsAccess)
	diags := validateWriteOnly(at, graphicsAccessAttributes, a)
	password := a.string("password_wo")
	devices, _ := m.get("devices").(types.Object)
	screen := open(open(devices).object("graphics"))
	switch spice := text(screen.string("type")) == "spice"; {
	case password.IsUnknown():
	case text(password) == "":
		diags.Append(attrpath.Error(at.AtName("password_wo"), invalid, "It is required, and not empty."))
	case !domain.Readable(text(password)):
		diags.Append(attrpath.Error(at.AtName("password_wo"), invalid,
			"It has a character that can't be written in a definition."))
	case !spice && !screen.string("type").IsUnknown() && len(text(password)) > maxVNCPassword:
		diags.Append(attrpath.Error(at.AtName("password_wo"), invalid, fmt.Sprintf(
			"VNC looks at no more than %d characters of a password.", maxVNCPassword)))
	}
	if text(screen.string("type")) == domain.None {
		diags.Append(attrpath.Error(at, invalid, "There is no screen: devices.graphics.type is \"none\"."))
	}
	return diags
}
