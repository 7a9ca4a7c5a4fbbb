package virtualmachine

import (
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

var kernelAttributes = attributes{
	"path":    optionalString("Path of the kernel on the host. `\"\"` removes it."),
	"initrd":  optionalString("Path of the initial ramdisk on the host."),
	"cmdline": optionalString("The kernel's command line."),
}

var kernelType = objectType(kernelAttributes)

// kernelToDomain fills in undeclared parts from the prior kernel, because the domain package replaces the kernel as a
// whole.
func kernelToDomain(declared, prior types.Object) *domain.Kernel {
	if !isSet(declared) {
		return nil
	}
	a, before := open(declared), open(prior)
	if path := a.string("path"); isSet(path) && path.ValueString() == "" {
		// What is declared in addition is refused: without a kernel it means nothing.
		return &domain.Kernel{Initrd: text(a.string("initrd")), Cmdline: text(a.string("cmdline"))}
	}
	either := func(name string) string {
		if v := a.string(name); v.IsNull() || v.IsUnknown() {
			return text(before.string(name))
		}
		return text(a.string(name))
	}
	return &domain.Kernel{Path: either("path"), Initrd: either("initrd"), Cmdline: either("cmdline")}
}

func kernelFromDomain(k *domain.Kernel) types.Object {
	if k == nil || *k == (domain.Kernel{}) {
		return types.ObjectNull(kernelType.AttrTypes)
	}
	return types.ObjectValueMust(kernelType.AttrTypes, map[string]attr.Value{
		"path":    value.NewStringOrNull(k.Path),
		"initrd":  value.NewStringOrNull(k.Initrd),
		"cmdline": value.NewStringOrNull(k.Cmdline),
	})
}

// planKernel plans null for the other attributes of a kernel that the configuration removes.
func planKernel(planned types.Object) types.Object {
	a := open(planned)
	if path := a.string("path"); !isSet(path) || path.ValueString() != "" {
		return planned
	}
	for _, name := range []string{"initrd", "cmdline"} {
		if text(a.string(name)) != "" || a.string(name).IsUnknown() {
			a[name] = types.StringNull()
		}
	}
	return types.ObjectValueMust(kernelType.AttrTypes, a)
}
