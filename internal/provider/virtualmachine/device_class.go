package virtualmachine

import (
	"maps"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/attrpath"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

// Devices of the host that are declared by class. The fleet chooses them during the apply, among those that are free
// then. So a plan knows a device only if the VM already has it, or if the class has only one device on its host.

// hostDevices is the name of the attribute for host devices.
const hostDevices = "host_devices"

// deviceClasses returns the devices of a host of the provider by class, and nil if the host is unknown.
func (r *Resource) deviceClasses(host string) map[string][]domain.HostPart {
	if r.Data.Unknown {
		return nil
	}
	if h := r.Data.Fleet.Host(host); h != nil {
		return h.Config.Devices
	}
	return nil
}

// declaredClasses returns the classes that the configuration asks for, by the key of the device.
func (m *model) declaredClasses() map[string]string {
	all, _ := open(m.Devices)[hostDevices].(types.Map)
	declared := map[string]string{}
	for key, o := range elements(all) {
		if class := text(open(o).string("class")); class != "" {
			declared[key] = class
		}
	}
	return declared
}

// validateDeviceClasses returns an error for each empty type or address of a device that is declared by class. The
// apply sets both, which Terraform allows only for attributes that are left out.
func (m *model) validateDeviceClasses() diag.Diagnostics {
	var diags diag.Diagnostics
	all, _ := open(m.Devices)[hostDevices].(types.Map)
	devices := elements(all)
	for _, key := range value.Keys(m.declaredClasses()) {
		for _, name := range []string{"type", "address"} {
			if v := open(devices[key]).string(name); isSet(v) && v.ValueString() == "" {
				diags.Append(attrpath.Error(path.Root("devices").AtName(hostDevices).AtMapKey(key).AtName(name), invalid,
					"The "+name+" of a device is chosen by its class. Remove this attribute, or set it to null."))
			}
		}
	}
	return diags
}

// hostDevice returns the host's device that the model has under a key, and the zero value if there is none.
func (m *model) hostDevice(key string) domain.HostPart {
	if m == nil {
		return domain.HostPart{}
	}
	all, _ := open(m.Devices)[hostDevices].(types.Map)
	device := open(elements(all)[key])
	return domain.Row{"type": text(device.string("type")), "address": text(device.string("address"))}.HostDevice()
}

// hostAfter returns the host that the VM is on after the apply, "" if that is unknown.
func (p planning) hostAfter() string {
	switch {
	case p.config.Host.IsUnknown():
		return ""
	case text(p.config.Host) != "" || p.state == nil:
		return text(p.config.Host)
	default:
		return text(p.state.CurrentHost)
	}
}

// deviceOf returns the device that the VM has for a class after the apply, and the zero value if that is unknown before
// the apply. moved says that the device may differ from the one in the state.
func (p planning) deviceOf(key, class string) (device domain.HostPart, moved bool) {
	has, host := p.state.hostDevice(key), p.hostAfter()
	if !slices.Contains(p.hosts, host) || p.classes == nil {
		return has, false
	}
	choice := p.classes(host)[class]
	switch {
	case p.moveTarget() == "" && slices.Contains(choice, has):
		return has, false
	case len(choice) == 1:
		return choice[0], choice[0] != has
	default:
		return domain.HostPart{}, true
	}
}

// planDevices plans the devices that are declared by class.
func (p planning) planDevices(m *model) {
	declared := p.config.declaredClasses()
	if len(declared) == 0 {
		return
	}
	held := open(m.Devices)
	all, _ := held[hostDevices].(types.Map)
	if !isSet(all) {
		return
	}
	planned := all.Elements()
	for key, class := range declared {
		o, ok := planned[key].(types.Object)
		if !ok {
			continue
		}
		a := open(o)
		a["type"], a["address"] = types.StringUnknown(), types.StringUnknown()
		if device, _ := p.deviceOf(key, class); device != (domain.HostPart{}) {
			row := device.Assign(nil)
			a["type"], a["address"] = types.StringValue(row["type"]), types.StringValue(row["address"])
		}
		planned[key] = types.ObjectValueMust(attributeTypes(o), a)
	}
	held[hostDevices] = types.MapValueMust(elementType(all), planned)
	m.Devices = types.ObjectValueMust(attributeTypes(m.Devices), held)
}

// replacedDevices returns the spec with a different device for each key whose device in the state will be replaced, so
// that the change is classified.
func (p planning) replacedDevices(want domain.Spec) domain.Spec {
	want.HostDevices = maps.Clone(want.HostDevices)
	for key, class := range want.DeviceClasses() {
		if device, moved := p.deviceOf(key, class); moved && p.state.hostDevice(key) != (domain.HostPart{}) {
			want.HostDevices[key] = domain.Row{"class": class, "address": device.ID}
		}
	}
	return want
}
