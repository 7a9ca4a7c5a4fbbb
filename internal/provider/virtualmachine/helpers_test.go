package virtualmachine

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// unknownMark stands for a string that is known after apply.
const unknownMark = "(unknown)"

// in is a configuration as a user writes it.
type in map[string]any

func (i in) with(changes in) in {
	out := in{}
	for _, m := range []in{i, changes} {
		for k, v := range m {
			out[k] = v
		}
	}
	return out
}

func (i in) without(names ...string) in {
	out := i.with(nil)
	for _, name := range names {
		delete(out, name)
	}
	return out
}

// modelOf makes the model of a configuration, as the provider does of what Terraform sends.
func modelOf(t *testing.T, i in) *model {
	t.Helper()
	data, err := json.Marshal(i)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := tfprotov6.RawState{JSON: data}.Unmarshal(wireType)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(data, []byte(unknownMark)) {
		raw = withUnknowns(t, raw)
	}
	wire, err := tfprotov6.NewDynamicValue(wireType, raw)
	if err != nil {
		t.Fatal(err)
	}
	m, err := decodeWire(t.Context(), &wire)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// withUnknowns makes each unknownMark of a value unknown.
func withUnknowns(t *testing.T, raw tftypes.Value) tftypes.Value {
	t.Helper()
	raw, err := tftypes.Transform(raw, func(_ *tftypes.AttributePath, v tftypes.Value) (tftypes.Value, error) {
		if v.Type().Is(tftypes.String) && v.IsKnown() && !v.IsNull() {
			var s string
			if err := v.As(&s); err == nil && s == unknownMark {
				return tftypes.NewValue(tftypes.String, tftypes.UnknownValue), nil
			}
		}
		return v, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// minimal is the least that a VM needs.
var minimal = in{"name": "web", "memory": in{"size": "1Gi"}}

// full says something about everything.
var full = in{
	"name": "web", "type": "qemu", "machine_type": "q35", "arch": "x86_64",
	"cpu": in{
		"sockets": 1, "cores": 2, "threads": 1, "max_sockets": 4, "mode": "host-model", "dies": 2, "shares": 2048,
		"features": in{"aes": "require"}, "pin": in{"0": "0-1"},
		"numa": in{"0": in{"cpus": "0-7", "memory": "1Gi", "memory_access": "shared"}},
	},
	"memory": in{
		"size": "1Gi", "max_size": "4Gi", "hard_limit": "8Gi", "huge_pages": "2Mi", "locked": true,
		"huge_pages_by_cell": in{"0": "1Gi"},
		"numatune":           in{"mode": "strict", "nodeset": "0", "cells": in{"0": in{"mode": "strict", "nodeset": "0"}}},
	},
	"firmware": in{
		"type": "efi", "secure_boot": true, "loader": "/code.fd", "nvram": "/vars.fd", "nvram_template": "/template.fd",
		"boot_menu": in{"enabled": true, "timeout": 3000},
	},
	"kernel": in{"path": "/boot/vmlinuz", "initrd": "/boot/initrd", "cmdline": "quiet"},
	"disks": in{
		"root": in{
			"volume": "/images/web.qcow2", "bus": "virtio", "format": "qcow2", "boot_order": 1,
			"iothread": 1, "io_tune": in{"total_iops_sec": 100},
		},
		"data": in{
			"network": in{"protocol": "nbd", "name": "d", "hosts": []string{"10.0.0.1:10809"}, "tls": true},
			"cache":   "none",
		},
		"raw": in{"block": "/dev/sdb", "serial": "S1"},
		"iso": in{"file": "/iso/debian.iso", "device": "cdrom", "bus": "sata", "read_only": true},
	},
	"interfaces": in{
		"lan": in{
			"network": "default", "model": "virtio", "mac": "52:54:00:00:00:01", "link_up": true,
			"filter": in{"parameters": in{"IP": "10.0.0.1"}, "name": "clean-traffic"},
		},
		"dmz":  in{"bridge": "br0", "boot_order": 2, "vlan": in{"tags": []int{42}, "trunk": false}, "mtu": 9000},
		"tap":  in{"direct": in{"device": "eth0", "mode": "bridge"}},
		"user": in{"user": true, "backend": in{"type": "passt"}},
		"fast": in{
			"hostdev": "0000:03:00.1", "mac": "52:54:00:00:00:02", "teaming": in{"type": "transient", "persistent": "slow"},
		},
		"slow": in{
			"network": "default", "mac": "52:54:00:00:00:02", "teaming": in{"type": "persistent"},
			"driver": in{"name": "qemu", "rx_queue_size": 1024, "host_offloads": in{"gso": false}},
		},
		"vdpa":   in{"vdpa": "/dev/vhost-vdpa-0"},
		"switch": in{"vhostuser": in{"path": "/run/switch.sock", "mode": "server"}},
	},
	"guest_agent": in{"enabled": true}, "serial_console": in{"enabled": false},
	"title": "Web", "description": "Serves the web.",
	"platform": in{
		"iothreads": 2, "events": in{"on_crash": "preserve"},
		"clock": in{"offset": "localtime", "hpet": false}, "hyperv": in{"relaxed": true, "spinlocks": 8191},
		"features": in{"acpi": true}, "fw_cfg": in{"opt/a": "1"}, "fw_cfg_files": in{"opt/b": "/b"},
		"smbios": in{"mode": "sysinfo", "system": in{"serial": "S1"}},
	},
	"qemu_commandline": in{"args": []any{"-name", "b"}, "env": in{"A": "b"}},
	"extra_device_xml": in{"shared": `<shmem name="a"><size unit="M">4</size></shmem>`},
	"devices": in{
		"tpm": in{"model": "tpm-crb"}, "rng": in{"rate_bytes": 1024}, "watchdog": in{"action": "pause"},
		"inputs":   in{"tablet": in{"type": "tablet", "bus": "usb"}},
		"channels": in{"spice": in{"type": "spicevmc", "name": "com.redhat.spice.0"}},
	},
	"cloud_init": in{
		"pool": "vms", "user_data_wo": "#cloud-config\npassword: hunter2\n", "user_data_wo_version": "1",
		"instance_id": "i-1",
		"meta_data":   "a: b", "network_config": "version: 2",
	},
	"graphics_access": in{"password_wo": "geheim", "password_wo_version": "1"},
	"ignition":        in{"pool": "vms", "config_wo": `{"ignition": {"version": "3.4.0"}}`, "config_wo_version": "1"},
	"host":            "kvm1",
	"placement": in{
		"host_labels": in{"zone": "a"}, "anti_affinity": in{"labels": in{"app": "web"}, "required": true},
	},
	"labels": in{"app": "web"}, "run_strategy": "Always",
	"wait_for":      in{"guest_agent": true, "ip_address": "lan", "timeout": "90s"},
	"update_policy": "Restart", "termination_grace_period": "60s", "deletion_protection": false, "profile": "linux",
	"on_destroy":        in{"nvram": "keep", "tpm_state": "keep", "managed_save": "keep", "snapshots": "delete"},
	"eviction_strategy": "LiveMigrate", "migration_options": in{"bandwidth": "1Gi"},
	"timeouts": in{"create": "5m"},
}

// vmAfterApply is the observed VM that a configuration gives when it is applied.
func vmAfterApply(t *testing.T, i in) *fleet.VM {
	t.Helper()
	return mustMake(t, modelOf(t, i))
}

func mustMake(t *testing.T, config *model) *fleet.VM {
	t.Helper()
	vm, err := makeVM(config)
	if err != nil {
		t.Fatal(err)
	}
	return vm
}

// makeVM is the VM that is made by a configuration.
func makeVM(config *model) (*fleet.VM, error) {
	d, desired, err := definitionOf(config)
	if err != nil {
		return nil, err
	}
	persistent, live := readSpec(d, desired), readSpec(d, desired)
	metadata := desired.Stamp()
	metadata.OwnDisks = desired.OwnDisks
	for key, o := range desired.OwnDisks {
		o.Volume, o.Path = key, persistent.Disks[key].Source.File
		if key == domain.IgnitionKey {
			o.Path = *persistent.Ignition
		}
		desired.OwnDisks[key] = o
	}
	return &fleet.VM{
		UUID: d.UUID(), Name: persistent.Name, Host: "kvm1", HostUUID: "8d1f1d4e-0000-4000-8000-000000000001",
		State: libvirt.Running, Reason: "Booted", Active: true, Persistent: true, Autostart: true,
		PersistentSpec: &persistent, LiveSpec: &live, Metadata: metadata, AgentConnected: true,
	}, nil
}

// definitionOf is the definition that a configuration makes, and what it asks of the fleet.
func definitionOf(config *model) (*domain.Definition, fleet.Desired, error) {
	desired := config.withProfile().toFleet(nil)
	spec := desired.Spec
	if spec.Type == "" {
		spec.Type = "qemu"
	}
	d, err := domain.New(giveDevices(spec, spec.DeviceClasses()), "6a9ae2dc-22f3-4d0c-a8d8-0a9b2f1dca10")
	return d, desired, err
}

// readSpec is what is read of a definition: the classes of devices are recorded apart from it.
func readSpec(d *domain.Definition, desired fleet.Desired) domain.Spec {
	spec := d.Spec()
	for key, class := range desired.Spec.DeviceClasses() {
		spec.HostDevices[key]["class"] = class
	}
	return spec
}

// giveDevices gives the VM a device for each that it asks for by class, as its host does.
func giveDevices(spec domain.Spec, classes map[string]string) domain.Spec {
	spec.HostDevices = maps.Clone(spec.HostDevices)
	for i, key := range slices.Sorted(maps.Keys(classes)) {
		part := domain.HostPart{Kind: domain.PCIDevice, ID: fmt.Sprintf("0000:65:00.%d", i)}
		spec.HostDevices[key] = part.Assign(spec.HostDevices[key])
		spec.HostDevices[key]["class"] = classes[key]
	}
	return spec
}

// stateAfterApply is the state after a configuration was applied.
func stateAfterApply(t *testing.T, i in) *model {
	t.Helper()
	config := modelOf(t, i)
	o := planning{config: config.withProfile()}.plan()
	seen := observation{vm: mustMake(t, config), addresses: map[string][]string{"lan": {"10.0.0.2"}}}
	return stateAfterCreate(seen, &o.planned)
}

// diagText are diagnostics for searching.
func diagText(diags diag.Diagnostics) string {
	var b strings.Builder
	for _, d := range diags {
		b.WriteString(d.Severity().String() + ": " + d.Summary() + ": " + d.Detail())
		if p, ok := d.(diag.DiagnosticWithPath); ok {
			b.WriteString(" @" + p.Path().String())
		}
		b.WriteString("\n")
	}
	return b.String()
}
