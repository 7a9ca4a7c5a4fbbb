package domain

// Aligned is what runs, with the keys that the persistent definition has for the same devices: a device that runs keeps
// the alias that it was started with when its key changes.
func Aligned(live, persistent *Spec) *Spec {
	if live == nil || persistent == nil {
		return live
	}
	aligned := alignLive(*live, *persistent)
	return &aligned
}

// WithoutEchoes is what runs without what libvirt has put there by itself, where the VM is known to have nothing of its
// own.
func WithoutEchoes(live, known Spec) Spec {
	for _, g := range Groups {
		live.Values = g.rows().align(live.Values, known.Values)
	}
	return live
}

// RunningKeys is DeviceKeys of what runs, with the keys that the persistent definition has for the same devices. Either
// may be nil.
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
	for _, nic := range persistent.keyed(interfaceKind, persistent.Metadata().Devices) {
		keys[ids[nic.element]] = nic.key
	}
	ids = interfaceKind.ids(live.elements(interfaceKind))
	for i, nic := range live.keyed(interfaceKind, live.Metadata().Devices) {
		if key, there := keys[ids[nic.element]]; there {
			interfaces[i] = key
		}
	}
	return disks, interfaces
}
