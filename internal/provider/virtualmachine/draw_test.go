package virtualmachine

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"pgregory.net/rapid"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain/domaintest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/evacuation"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/placement"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/storage"
)

// Configurations that are drawn from the schema: what has a value in it is drawn, rows among them.

// drawnTexts are what users write for the texts of the schema that no row describes.
var drawnTexts = map[string][]any{
	"name": {"web", "other"}, "type": {"qemu", ""}, "machine_type": {"q35", "pc-q35-7.2", ""}, "arch": {"x86_64", ""},
	"cpu.mode": values(domain.CPUModes), "cpu.model": {"Nehalem", "Haswell", ""},
	"firmware.type": values(domain.FirmwareTypes), "kernel.path": {"/boot/vmlinuz", "/boot/other", ""},
	"kernel.initrd": {"/boot/initrd", ""}, "kernel.cmdline": {"quiet", "a  b \n", ""},
	"disks.*.file": {"/images/a.qcow2", "/images/b.img", ""}, "disks.*.block": {"/dev/sdc", ""},
	"disks.*.volume": {"vms/a", "/images/v.img", ""}, "disks.*.network.protocol": {"nbd"},
	"disks.*.network.name": {"a", "b"}, "disks.*.network.hosts": {[]string{"a:10809"}, []string{"a"}},
	"disks.*.pool": {"vms"}, "disks.*.image": {"vms/debian"}, "disks.*.clone": values(domain.CloneModes),
	"disks.*.preallocation": values(storage.Preallocations()),
	"disks.*.on_destroy":    values(domain.OnDestroyModes), "disks.*.other": {""},
	"disks.*.device": values(domain.DiskDevices), "disks.*.bus": values(domain.DiskBuses),
	"disks.*.format": values(domain.DiskFormats), "disks.*.cache": values(domain.DiskCaches),
	"disks.*.serial": {"a", " a ", ""}, "interfaces.*.network": {"default", "lan", ""}, "interfaces.*.bridge": {"br0", ""},
	"interfaces.*.other": {""}, "interfaces.*.model": values(domain.InterfaceModels),
	"interfaces.*.mac":           {"52:54:00:00:00:0a", "52:54:00:00:00:0B", ""},
	"interfaces.*.direct.device": {"eth0"}, "interfaces.*.direct.mode": values(domain.DirectModes),
	"interfaces.*.hostdev": {"0000:65:00.1"}, "interfaces.*.vdpa": {"/dev/vhost-vdpa-0"},
	"interfaces.*.vhostuser.path": {"/run/a.sock"}, "interfaces.*.vhostuser.mode": {"client", "server"},
	"disks.*.network.auth.username": {"admin"},
	"disks.*.network.auth.secret":   {"6a9ae2dc-22f3-4d0c-a8d8-0a9b2f1dca11"},
	"memory.max_size":               {"4Gi", "0"}, "profile": values(domain.ProfileNames()),
	"cloud_init.user_data": {"#cloud-config\n"}, "cloud_init.vendor_data": {"#cloud-config\n"},
	"cloud_init.user_data_wo": {"#cloud-config\n"}, "cloud_init.vendor_data_wo": {"#cloud-config\n"},
	"cloud_init.meta_data": {"a: b"}, "cloud_init.network_config": {"version: 2"},
	"cloud_init.network_config_wo": {"version: 2"}, "cloud_init.instance_id": {"i-2"}, "cloud_init.meta_data_wo": {"a: b"},
	"cloud_init.user_data_wo_version": {"1", "2"}, "cloud_init.vendor_data_wo_version": {"1", "2"},
	"cloud_init.meta_data_wo_version": {"1", "2"}, "cloud_init.network_config_wo_version": {"1", "2"},
	"cloud_init.pool": {"vms", "other"}, "ignition.config": {`{"ignition": {"version": "3.4.0"}}`},
	"ignition.config_wo": {`{"ignition": {"version": "3.4.0"}}`}, "ignition.config_wo_version": {"1", "2"},
	"ignition.pool": {"vms", "other"}, "graphics_access.password_wo": {"geheim", "more than eight"},
	"graphics_access.password_wo_version": {"1", "2"}, "host": {"kvm1", "kvm2", ""},
	"extra_device_xml":      {in{}, in{"hub": "<hub type='usb'/>"}, in{"hub": nil}},
	"placement.host_labels": {in{"zone": "a"}}, "placement.anti_affinity.labels": {in{"a": "b"}},
	"labels": {in{}, in{"a": "b"}, in{"a": nil}}, "run_strategy": values(status.RunStrategies),
	"wait_for.ip_address": {"lan", "a"}, "update_policy": values(placement.UpdatePolicies),
	"on_destroy.nvram":                     values(domain.OnDestroyModes),
	"on_destroy.tpm_state":                 values(domain.OnDestroyModes),
	"on_destroy.managed_save":              values(domain.OnDestroyModes),
	"on_destroy.snapshots":                 values(domain.OnDestroyModes),
	"on_destroy.checkpoints":               values(domain.OnDestroyModes),
	"eviction_strategy":                    values(evacuation.Strategies),
	"migration_options.transport":          values(migration.Transports),
	"migration_options.compression":        values(migration.Compressions),
	"migration_options.copy_storage":       values(migration.CopyModes),
	"migration_options.on_irrecoverable":   values(migration.OnIrrecoverables),
	"migration_options.shared_filesystems": {[]string{"/srv"}},
}

func values[V any](all []V) []any {
	out := make([]any, len(all))
	for i, v := range all {
		out[i] = v
	}
	return out
}

// leafValues are what a user may write for an attribute.
func leafValues(at string, a schema.Attribute) []any {
	if row, ok := rows[at]; ok {
		var all []any
		for _, fact := range domaintest.Values(row) {
			all = append(all, asWritten(row.Kind, fact))
		}
		if row.Kind == domain.Text {
			all = append(all, "")
		}
		if model := at[:max(strings.LastIndexByte(at, '.'), 0)]; deviceModels[model] == row.Name {
			all = append(all, domain.None)
		}
		return all
	}
	if all, ok := drawnTexts[at]; ok {
		return all
	}
	switch a := a.(type) {
	case schema.BoolAttribute:
		return []any{true, false}
	case schema.Int64Attribute:
		return []any{1, 2, 0}
	case schema.StringAttribute:
		switch a.CustomType {
		case value.QuantityType, value.WholeKiBType:
			return []any{"1Gi", "2048Mi", "2Gi"}
		case value.DurationType:
			return []any{"1m", "60s"}
		}
	}
	if strings.HasPrefix(at, "timeouts.") {
		return []any{"5m"}
	}
	return nil
}

// asWritten is a fact as a user writes it.
func asWritten(kind domain.AttributeKind, fact string) any {
	switch kind {
	case domain.Count:
		n, _ := strconv.Atoi(fact)
		return n
	case domain.Switch, domain.Flag:
		return fact == "yes"
	case domain.Numbers:
		return domain.ParseNumbers(fact)
	case domain.Words:
		return domain.ParseWords(fact)
	case domain.Texts:
		return domain.ParseTexts(fact)
	case domain.Switches:
		all := map[string]bool{}
		for name, text := range domain.ParseTexts(fact) {
			all[name] = text == "yes"
		}
		return all
	default:
		return fact
	}
}

// leaves are the attributes that users write, by path.
var leaves = func() map[string]schema.Attribute {
	all := map[string]schema.Attribute{}
	walkSchema("", vmSchema.Attributes, func(at string, a schema.Attribute) {
		switch a.(type) {
		case schema.SingleNestedAttribute, schema.MapNestedAttribute:
			return
		}
		if a.IsOptional() || a.IsRequired() {
			all[at] = a
		}
	})
	return all
}()

// TestDraw_everythingIsDrawn: what has no value here would be drawn by no test.
func TestDraw_everythingIsDrawn(t *testing.T) {
	t.Parallel()
	for at, a := range leaves {
		if len(leafValues(at, a)) == 0 {
			t.Errorf("%s has no values: say in drawnTexts what users write", at)
		}
	}
}

// clone copies a configuration with all that is nested in it.
func (i in) clone() in {
	out := in{}
	for name, v := range i {
		if inner, ok := v.(in); ok {
			v = inner.clone()
		}
		out[name] = v
	}
	return out
}

// put writes a value below steps, and removes what is there if it is nil.
func (i in) put(steps []string, v any) {
	if len(steps) == 1 {
		if i[steps[0]] = v; v == nil {
			delete(i, steps[0])
		}
		return
	}
	inner, ok := i[steps[0]].(in)
	if !ok {
		if v == nil {
			return
		}
		inner = in{}
		i[steps[0]] = inner
	}
	inner.put(steps[1:], v)
}

// drawChanges draws a few changes of a configuration, as far as it stays valid: attributes that are written, and parts
// that are removed.
func drawChanges(t *testing.T, rt *rapid.T, config in) in {
	t.Helper()
	paths := value.Keys(leaves)
	for n := range rapid.IntRange(0, 8).Draw(rt, "changes") {
		at := rapid.SampledFrom(paths).Draw(rt, fmt.Sprint("attribute ", n))
		steps := strings.Split(at, ".")
		changed := config.clone()
		for i, step := range steps {
			if step != "*" {
				continue
			}
			kind := strings.Join(steps[:i], ".")
			keys := []string{"a", "b"}
			if there, ok := config[kind].(in); ok {
				keys = append(keys, value.Keys(there)...)
			}
			steps[i] = rapid.SampledFrom(keys).Draw(rt, "key")
			drawDevice(rt, changed, kind, steps[:i+1])
		}
		if !leaves[at].IsRequired() && rapid.IntRange(0, 4).Draw(rt, "is removed") == 0 {
			changed.put(steps[:rapid.IntRange(1, len(steps)).Draw(rt, "depth")], nil)
		} else {
			changed.put(steps, rapid.SampledFrom(leafValues(at, leaves[at])).Draw(rt, at))
			drawRequired(rt, changed, at, steps)
		}
		if !modelOf(t, changed).validate().HasError() {
			config = changed
		}
	}
	return config
}

// drawDevice draws a device where there is none yet.
func drawDevice(rt *rapid.T, config in, kind string, steps []string) {
	level, _ := config[kind].(in)
	if _, there := level[steps[len(steps)-1]]; there && kind == steps[0] {
		return
	}
	device := in{}
	switch kind {
	case "disks":
		device = rapid.SampledFrom([]in{
			{"file": "/a"},
			{"volume": "vms/" + steps[1]},
			{"pool": "vms"},
			{"device": "cdrom"},
			{"network": in{"protocol": "nbd", "name": "n", "hosts": []string{"h:1"}}},
			{"block": "/dev/sdd"},
			{"block": "/dev/sde", "device": "lun", "bus": "scsi"},
			{"device": "floppy"},
		}).Draw(rt, "disk").clone()
	case "interfaces":
		device = rapid.SampledFrom([]in{
			{"network": "default"},
			{"bridge": "br0"},
			{"user": true},
			{"direct": in{"device": "eth0", "mode": "bridge"}},
			{"hostdev": "0000:65:00.2"},
			{"vdpa": "/dev/vhost-vdpa-1"},
			{"vhostuser": in{"path": "/run/b.sock", "mode": "client"}},
		}).Draw(rt, "interface").clone()
	default:
		for _, a := range families[kind].Attributes {
			if rapid.Bool().Draw(rt, a.Name+" is declared") {
				device[a.Name] = asWritten(a.Kind, rapid.SampledFrom(domaintest.Values(a)).Draw(rt, a.Name))
			}
		}
	}
	config.put(slices.Clone(steps), device)
}

// drawRequired draws what an object must have, too.
func drawRequired(rt *rapid.T, config in, at string, steps []string) {
	parent := at[:strings.LastIndexByte(at, '.')+1]
	for _, other := range value.Keys(leaves) {
		name, below := strings.CutPrefix(other, parent)
		if parent != "" && below && !strings.Contains(name, ".") && leaves[other].IsRequired() && other != at {
			beside := append(slices.Clone(steps[:len(steps)-1]), name)
			config.put(beside, rapid.SampledFrom(leafValues(other, leaves[other])).Draw(rt, other))
		}
	}
}

// drawConfig draws the configuration of a new VM.
func drawConfig(t *testing.T, rt *rapid.T) in {
	t.Helper()
	base := rapid.SampledFrom([]in{minimal, full.without("kernel")}).Draw(rt, "base").clone()
	for _, name := range slices.Sorted(maps.Keys(base)) {
		if name != "name" && name != "memory" && rapid.IntRange(0, 3).Draw(rt, name+" is left out") == 0 {
			delete(base, name)
		}
	}
	if modelOf(t, base).validate().HasError() {
		base = minimal.clone()
	}
	return drawChanges(t, rt, base)
}
