package domain

import (
	"maps"
	"reflect"
	"slices"
)

// AlignKeys returns the live spec with the keys that the persistent definition uses for the same devices, and with the
// networks that lend their interfaces. The keys can differ: when a device's key changes, the running device keeps the
// alias that it was started with.
func AlignKeys(live, persistent *Spec) *Spec {
	if live == nil || persistent == nil {
		return live
	}
	aligned := *live
	for _, b := range blocks {
		if b.alignKeys != nil {
			b.alignKeys(&aligned, *persistent)
		}
	}
	return &aligned
}

// OnlyRunning returns the attributes of the devices that the running VM has and its definition lacks, such as
// disks.data, sorted. They were attached while the VM ran, and it loses them when it is off.
func OnlyRunning(live, persistent Spec) []string {
	live = alignLive(live, persistent)
	var only []string
	has, keeps := reflect.ValueOf(live), reflect.ValueOf(persistent)
	for i := range has.NumField() {
		field := has.Field(i)
		path := step(has.Type().Field(i))
		if field.Kind() != reflect.Map || path == "" {
			continue
		}
		for _, key := range field.MapKeys() {
			if !keeps.Field(i).MapIndex(key).IsValid() {
				only = append(only, join(path, key.String()))
			}
		}
	}
	for _, g := range deviceGroups {
		model := g.At(g.Attributes[0])
		if isDevice(live.Values[model]) && !isDevice(persistent.Values[model]) {
			only = append(only, g.Path)
		}
	}
	slices.Sort(only)
	return only
}

// isDevice reports whether the model of a device says that there is one.
func isDevice(model string) bool { return model != "" && model != None }

// WithoutLibvirtDefaults returns the live spec without the values that libvirt added by itself, for attributes that the
// VM is known not to set.
func WithoutLibvirtDefaults(live, known Spec) Spec {
	for _, g := range Groups {
		g.align(&live, known.Values)
	}
	return live
}

// RunningKeys returns the DeviceKeys of the live definition, with the keys that the persistent definition uses for the
// same devices. Either definition may be nil.
func RunningKeys(live, persistent *Definition) (disks map[string]string, interfaces []string) {
	switch {
	case live == nil && persistent == nil:
		return nil, nil
	case live == nil:
		return persistent.DeviceKeys()
	}
	disks, interfaces = live.DeviceKeys()
	if persistent == nil {
		return disks, interfaces
	}
	now, _ := persistent.DeviceKeys()
	for target := range disks {
		if key, there := now[target]; there {
			disks[target] = key
		}
	}
	keys, ids := map[string]string{}, interfaceKind.ids(persistent.elements(interfaceKind))
	for _, nic := range persistent.keyed(interfaceKind, persistent.recordedNames()) {
		keys[ids[nic.element]] = nic.key
	}
	ids = interfaceKind.ids(live.elements(interfaceKind))
	for i, nic := range live.keyed(interfaceKind, live.recordedNames()) {
		if key, there := keys[ids[nic.element]]; there {
			interfaces[i] = key
		}
	}
	return disks, interfaces
}

// WithRunningMACs gives declared interfaces without an address that of the running device that they are, if that device
// isn't in the persistent definition: it was detached there, but the guest didn't release it. With an address of its
// own, the definition's interface would be another one than the running device.
func (s Spec) WithRunningMACs(live, persistent Spec) Spec {
	running := AlignKeys(&live, &persistent).Interfaces
	defined := interfaces.pairDevices(persistent.Interfaces, s.Interfaces)
	all := maps.Clone(s.Interfaces)
	for key, old := range interfaces.pairDevices(running, s.Interfaces) {
		nic := all[key]
		if nic.MAC == "" && !hasKey(persistent.Interfaces, old) && !hasKey(running, defined[key]) {
			nic.MAC = running[old].MAC
			all[key] = nic
		}
	}
	s.Interfaces = all
	return s
}
