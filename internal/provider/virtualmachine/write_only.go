package virtualmachine

import (
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/attrpath"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

// writeOnlySuffix ends the name of an attribute whose value is in no state and no plan.
const writeOnlySuffix = "_wo"

// versionSuffix follows it in the name of the attribute that says when the value changes.
const versionSuffix = "_version"

// writeOnlyAttribute returns the write-only counterpart of the attribute of that name.
func writeOnlyAttribute(name string) schema.StringAttribute {
	return writeOnly(fmt.Sprintf("Like `%s`, but written only to the host, neither to the state nor to the plan. Set at "+
		"most one of the two.", name))
}

// writeOnlyVersion returns the attribute that says when the write-only counterpart of the attribute of that name
// changes. again is what the apply then does.
func writeOnlyVersion(name, again string) schema.StringAttribute {
	return schema.StringAttribute{
		MarkdownDescription: fmt.Sprintf("Required with `%[1]s`: any text, such as `1`. Change it when `%[1]s` changes, "+
			"because Terraform can't see that; %[2]s.", name+writeOnlySuffix, again),
		Optional: true,
	}
}

func writeOnly(description string) schema.StringAttribute {
	return schema.StringAttribute{
		MarkdownDescription: description, Optional: true, WriteOnly: true, Sensitive: true,
	}
}

// plainOrWriteOnly returns the value of the attribute of that name, or of its write-only counterpart.
func plainOrWriteOnly(a object, name string) string {
	return text(a.string(name)) + text(a.string(name+writeOnlySuffix))
}

// declaredAs returns the name of the attribute that has the value: name, or that of its write-only counterpart.
func declaredAs(a object, name string) string {
	if v := a[name+writeOnlySuffix]; v != nil && !v.IsNull() {
		return name + writeOnlySuffix
	}
	return name
}

// withoutWriteOnly returns the declared values without the write-only ones, as plan and state have them.
func withoutWriteOnly(o types.Object, level attributes) types.Object {
	a := open(o)
	if a == nil {
		return o
	}
	for name, attribute := range level {
		if attribute.IsWriteOnly() {
			a[name] = types.StringNull()
		}
	}
	return types.ObjectValueMust(attributeTypes(o), a)
}

// validateWriteOnly checks that each value is declared in only one way, and that a change of a write-only value can be
// detected. Unknown values pass, because they may turn out to be null.
func validateWriteOnly(at path.Path, level attributes, a object) diag.Diagnostics {
	var diags diag.Diagnostics
	for _, name := range value.Keys(level) {
		v := a[name]
		if !level[name].IsWriteOnly() || !isSet(v) {
			continue
		}
		plain := strings.TrimSuffix(name, writeOnlySuffix)
		if isSet(a[plain]) {
			diags.Append(attrpath.Error(at.AtName(name), invalid, fmt.Sprintf(
				"Only one of %s and %s can be set.", plain, name)))
		}
		version := name + versionSuffix
		if v := a.string(version); !v.IsUnknown() && text(v) == "" {
			diags.Append(attrpath.Error(at.AtName(version), invalid, fmt.Sprintf("It is required with %s: a new "+
				"%s is what tells that the value changes.", name, version)))
		}
	}
	return diags
}
