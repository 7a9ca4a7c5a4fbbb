package virtualmachine

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/firstboot"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

func ptr[T any](v T) *T { return &v }

func TestModel_toFleet(t *testing.T) {
	t.Parallel()
	got := modelOf(t, full).toFleet(nil)
	want := fleet.Desired{
		Spec: domain.Spec{
			Name: "web", Type: "qemu", Machine: "q35", Arch: "x86_64",
			CPU: domain.CPU{
				Sockets: ptr(1), Cores: ptr(2), Threads: ptr(1), MaxSockets: ptr(4), Mode: ptr("host-model"),
			},
			Memory:   domain.Memory{Size: ptr(uint64(1 << 30)), MaxSize: ptr(uint64(4 << 30))},
			Firmware: domain.Firmware{Type: ptr("efi"), SecureBoot: ptr(true)},
			Kernel:   &domain.Kernel{Path: "/boot/vmlinuz", Initrd: "/boot/initrd", Cmdline: "quiet"},
			Disks: map[string]domain.Disk{
				"root": {
					Source: domain.DiskSource{File: "/images/web.qcow2"}, Bus: "virtio", Format: "qcow2", BootOrder: ptr(1),
					Values: domain.Values{"iothread": "1", "io_tune.total_iops_sec": "100"},
				},
				"data": {Source: domain.DiskSource{Network: &domain.NetworkSource{
					Protocol: "nbd", Name: "d", Hosts: []string{"10.0.0.1:10809"}, Values: domain.Values{"tls": "yes"},
				}}, Cache: "none"},
				"raw": {Source: domain.DiskSource{Block: "/dev/sdb"}, Serial: ptr("S1")},
				"iso": {
					Source: domain.DiskSource{File: "/iso/debian.iso"}, Device: "cdrom", Bus: "sata", ReadOnly: ptr(true),
				},
			},
			Medium:   &domain.DiskSource{File: domain.UnknownFile},
			Ignition: ptr(knownSource),
			Interfaces: map[string]domain.Interface{
				"lan": {
					Network: "default", Model: "virtio", MAC: "52:54:00:00:00:01", LinkUp: ptr(true),
					Values: domain.Values{"filter.name": "clean-traffic", "filter.parameters": "IP=10.0.0.1\n"},
				},
				"dmz": {
					Bridge: "br0", BootOrder: ptr(2),
					Values: domain.Values{"vlan.tags": "42", "vlan.trunk": "no", "mtu": "9000"},
				},
				"tap":  {Direct: "eth0", DirectMode: "bridge"},
				"user": {User: true, Values: domain.Values{"backend.type": "passt"}},
				"fast": {
					HostDevice: "0000:03:00.1", MAC: "52:54:00:00:00:02",
					Values: domain.Values{"teaming.type": "transient", "teaming.persistent": "slow"},
				},
				"slow": {
					Network: "default", MAC: "52:54:00:00:00:02",
					Values: domain.Values{
						"teaming.type": "persistent", "driver.name": "qemu", "driver.rx_queue_size": "1024",
						"driver.host_offloads": "gso=no\n",
					},
				},
				"vdpa":   {VDPA: "/dev/vhost-vdpa-0"},
				"switch": {VHostUser: "/run/switch.sock", VHostUserMode: "server"},
			},
			GuestAgent: ptr(true), SerialConsole: ptr(false),
			Inputs:       map[string]domain.Row{"tablet": {"type": "tablet", "bus": "usb"}},
			Channels:     map[string]domain.Row{"spice": {"type": "spicevmc", "name": "com.redhat.spice.0"}},
			ExtraDevices: map[string]string{"shared": `<shmem name="a"><size unit="M">4</size></shmem>`},
			Values: domain.Values{
				"qemu_commandline.args": `["-name","b"]`, "qemu_commandline.env": "A=b\n",
				"title": "Web", "description": "Serves the web.", "platform.events.on_crash": "preserve",
				"platform.iothreads": "2", "cpu.dies": "2", "cpu.shares": "2048", "cpu.features": "aes=require\n",
				"cpu.numa":        "0.cpus=0-7\n0.memory=1073741824\n0.memory_access=shared\n",
				"firmware.loader": "/code.fd", "firmware.nvram": "/vars.fd", "firmware.nvram_template": "/template.fd",
				"firmware.boot_menu.enabled": "yes", "firmware.boot_menu.timeout": "3000",
				"platform.fw_cfg": "opt/a=1\n", "platform.fw_cfg_files": "opt/b=/b\n",
				"platform.smbios.mode": "sysinfo", "platform.smbios.system": "serial=S1\n",
				"memory.numatune.mode": "strict", "memory.numatune.nodeset": "0",
				"memory.huge_pages_by_cell": "0=1Gi\n",
				"memory.numatune.cells":     "0.mode=strict\n0.nodeset=0\n",
				"cpu.pin":                   "0=0-1\n", "memory.hard_limit": "8589934592", "memory.huge_pages": "2Mi",
				"memory.locked":     "yes",
				"devices.tpm.model": "tpm-crb", "devices.rng.rate_bytes": "1024", "devices.watchdog.action": "pause",
				"platform.clock.offset": "localtime", "platform.clock.hpet": "no", "platform.features.acpi": "yes",
				"platform.hyperv.relaxed": "yes", "platform.hyperv.spinlocks": "8191",
			},
		},
		Metadata: domain.Metadata{
			Labels: map[string]string{"app": "web"}, RunStrategy: "Always", Host: "kvm1",
			TerminationGracePeriod: ptr(time.Minute), DeletionProtection: ptr(false),
			EvictionStrategy: "LiveMigrate", Kept: []string{"managed_save", "nvram", "tpm_state"},
			ExtraDevices: map[string]string{"shared": `<shmem name="a"><size unit="M">4</size></shmem>`},
		},
		Volumes: map[string]string{"root": "/images/web.qcow2"},
		OwnDisks: map[string]domain.OwnDisk{
			domain.MediumKey:   {Pool: "vms", Content: firstBootDigest(cloudInitAttributes, modelOf(t, full).CloudInit)},
			domain.IgnitionKey: {Pool: "vms", Content: firstBootDigest(ignitionAttributes, modelOf(t, full).Ignition)},
		},
		Ignition: &firstboot.Ignition{Config: `{"ignition": {"version": "3.4.0"}}`},
		CloudInit: &firstboot.NoCloud{
			InstanceID: "i-1", Hostname: "web", UserData: "#cloud-config\npassword: hunter2\n", MetaData: "a: b",
			NetworkConfig: "version: 2",
		},
		Files: map[string]string{
			"firmware.loader": "/code.fd", "firmware.nvram_template": "/template.fd", "platform.fw_cfg_files.opt/b": "/b",
			"disks.raw.block": "/dev/sdb", "disks.iso.file": "/iso/debian.iso", "kernel.path": "/boot/vmlinuz",
			"kernel.initrd": "/boot/initrd",
		},
		Placement: fleet.Placement{
			HostLabels:   map[string]string{"zone": "a"},
			AntiAffinity: &fleet.AntiAffinity{Labels: map[string]string{"app": "web"}, Required: true},
		},
		UpdatePolicy: "Restart", LeavesHeld: true, GraphicsPassword: ptr("geheim"),
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(fleet.Desired{})); diff != "" {
		t.Errorf("toFleet (-want +got):\n%s", diff)
	}
}

// TestModel_toFleetLeavesOutWhatIsNotKnown: an unknown value must not reach the fleet as if a user had written "".
func TestModel_toFleetLeavesOutWhatIsNotKnown(t *testing.T) {
	t.Parallel()
	got := modelOf(t, in{
		"name": unknownMark, "type": unknownMark, "host": unknownMark, "cpu": in{"mode": unknownMark},
		"memory": in{"size": unknownMark}, "termination_grace_period": unknownMark,
		"disks":      in{"root": in{"volume": unknownMark, "bus": unknownMark}},
		"interfaces": in{"lan": in{"network": unknownMark}},
	}).toFleet(nil)
	want := fleet.Desired{
		Spec: domain.Spec{
			// Not a drive without a medium, nor an interface that is connected to nothing.
			Disks:      map[string]domain.Disk{"root": {Source: domain.DiskSource{File: domain.UnknownFile}}},
			Interfaces: map[string]domain.Interface{"lan": {User: true}},

			ExtraDevices: map[string]string{},
		},
		Metadata: domain.Metadata{RunStrategy: "Always", ExtraDevices: map[string]string{}},
		Volumes:  map[string]string{}, Files: map[string]string{}, UpdatePolicy: "Live",
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(fleet.Desired{})); diff != "" {
		t.Errorf("toFleet (-want +got):\n%s", diff)
	}
}

// TestModel_roundTrip: what is read back from a VM declares that very VM.
func TestModel_roundTrip(t *testing.T) {
	t.Parallel()
	for name, config := range map[string]in{"minimal": minimal, "full": full} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			vm := vmAfterApply(t, config)
			var state model
			state.fromFleet(observation{vm: vm}, &model{})
			got := state.spec(nil)
			want := *vm.PersistentSpec
			delete(want.Disks, domain.MediumKey) // It isn't among the disks.
			want.Ignition = nil
			// Observed only.
			want.UUID, want.FreeSlots, want.ConventionalSlots, want.Buses = "", nil, 0, nil
			want.BusyIOThread = 0
			want.Memory.Installed, want.Memory.Fixed = nil, false
			for key, d := range want.Disks {
				d.Target = ""
				want.Disks[key] = d
			}
			for key, i := range want.Interfaces {
				i.Target = ""
				want.Interfaces[key] = i
			}
			// A kind of devices that isn't declared and of which there are none isn't in the state.
			if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("spec (-want +got):\n%s", diff)
			}
		})
	}
}

// TestModel_readKeepsTheNotation: what is equal by meaning is no change, however it is written.
func TestModel_readKeepsTheNotation(t *testing.T) {
	t.Parallel()
	state := stateAfterApply(t, full.with(in{
		"memory": in{"size": "1024Mi", "max_size": "4Gi"}, "termination_grace_period": "1m",
		"interfaces": in{"lan": in{"network": "default", "mac": "52:54:00:AA:BB:CC", "user": false}},
	}))
	var now model
	now.fromFleet(observation{vm: vmAfterApply(t, full.with(in{
		"machine_type": "pc-q35-7.2", "interfaces": in{"lan": in{"network": "default", "mac": "52:54:00:aa:bb:cc"}},
	}))}, state)
	for _, p := range attributePairs(mergeAttributes(definitionAttributes, policyAttributes), state, &now) {
		if !p.a.Equal(p.b) {
			t.Errorf("%s was %s and is %s", p.name, p.a, p.b)
		}
	}
}

func TestModel_readSeesDrift(t *testing.T) {
	t.Parallel()
	state := stateAfterApply(t, full)
	drifted := vmAfterApply(t, full.with(in{
		"memory": in{"size": "512Mi", "max_size": "4Gi"}, "labels": in{"app": "db"}, "host": "kvm2",
		"run_strategy": "Halted",
	}))
	var now model
	now.fromFleet(observation{vm: drifted}, state)
	want := map[string]bool{"memory": true, "labels": true, "host": true, "run_strategy": true}
	got := map[string]bool{}
	for _, p := range attributePairs(mergeAttributes(definitionAttributes, policyAttributes), state, &now) {
		if !p.a.Equal(p.b) {
			got[p.name] = true
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("drift (-want +got):\n%s", diff)
	}
}

// TestModel_importTakesNoPin: an imported VM isn't pinned to where it happens to be, and its run strategy is the
// one that leaves it as it is.
func TestModel_importTakesNoPin(t *testing.T) {
	t.Parallel()
	vm := vmAfterApply(t, full.without("run_strategy", "host"))
	vm.Metadata = domain.Metadata{Host: "kvm2"}
	prior := &model{RunStrategy: observedStrategy(vm)}
	var state model
	state.fromFleet(observation{vm: vm, imported: true}, prior)
	if !state.Host.IsNull() || text(state.RunStrategy) != "Always" {
		t.Errorf("host = %s, run_strategy = %s", state.Host, state.RunStrategy)
	}
	if text(state.CurrentHost) != "kvm1" {
		t.Errorf("current_host = %s", state.CurrentHost)
	}
}

// TestModel_importReadsPlacement: an import has the placement of the VM's record, so that an apply of the same
// configuration doesn't remove it. What the state has holds, and a preference isn't recorded.
func TestModel_importReadsPlacement(t *testing.T) {
	t.Parallel()
	away := in{"labels": in{"app": "db"}, "required": true}
	for name, tt := range map[string]struct{ recorded, want in }{
		"labels of the host": {in{"host_labels": in{"zone": "a"}}, in{"host_labels": in{"zone": "a"}}},
		"other VMs":          {in{"anti_affinity": away}, in{"anti_affinity": away}},
		"CPUs of its own":    {in{"dedicated_cpus": true}, in{"dedicated_cpus": true}},
		"all": {
			in{"host_labels": in{"zone": "a"}, "anti_affinity": away, "dedicated_cpus": true},
			in{"host_labels": in{"zone": "a"}, "anti_affinity": away, "dedicated_cpus": true},
		},
		"a preference": {in{"anti_affinity": in{"labels": in{"app": "db"}}, "dedicated_cpus": false}, nil},
		"nothing":      {nil, nil},
	} {
		vm := vmAfterApply(t, minimal)
		vm.Metadata = modelOf(t, minimal.with(in{"placement": tt.recorded})).toFleet(nil).Stamp()
		want := modelOf(t, minimal.with(in{"placement": tt.want})).Placement
		var now, again model
		now.fromFleet(observation{vm: vm, imported: true}, &model{})
		if !now.Placement.Equal(want) {
			t.Errorf("%s: placement = %s, want %s", name, now.Placement, want)
		}
		again.fromFleet(observation{vm: vm, imported: true}, stateAfterApply(t, full))
		if declared := modelOf(t, full).Placement; !again.Placement.Equal(declared) {
			t.Errorf("%s: the state's placement has become %s", name, again.Placement)
		}
	}
}

// TestModel_listsKeepTheirNotation: lists that mean the same are no change: sets of virtual CPUs in another order or
// notation.
func TestModel_listsKeepTheirNotation(t *testing.T) {
	t.Parallel()
	monitored := func(sets ...string) in {
		return minimal.with(in{"type": "kvm", "cpu": in{"vcpus": 4, "cachetune": in{"0-3": in{"monitors": sets}}}})
	}
	for _, sets := range [][]string{{"3", "0-1"}, {"0,1", "3"}} {
		config := modelOf(t, monitored(sets...))
		plan := planning{config: config}.plan()
		seen := observation{vm: mustMake(t, config)}
		var now model
		now.fromFleet(seen, stateAfterCreate(seen, &plan.planned))
		if o := (planning{config: config, state: &now, live: seen.vm.LiveSpec}).plan(); o.changed || o.diags.HasError() {
			t.Errorf("%q are planned again: %v %s", sets, changedAttributes(&now, &o.planned), diagText(o.diags))
		}
		others := planning{config: modelOf(t, monitored("0-1", "2")), state: &now, live: seen.vm.LiveSpec}
		if !others.plan().changed {
			t.Errorf("instead of %q, others aren't planned", sets)
		}
	}
}

// TestModel_readsWhatIsKept: an import has what the VM's record says of its destroy, and a record that was removed is
// drift. What is to be deleted is in no record, and keeps its notation.
func TestModel_readsWhatIsKept(t *testing.T) {
	t.Parallel()
	vm := vmAfterApply(t, full)
	read := func(imported bool, prior *model, kept ...string) map[string]string {
		vm.Metadata.Kept = kept
		var now model
		now.fromFleet(observation{vm: vm, imported: imported}, prior)
		if now.OnDestroy.IsNull() {
			return nil
		}
		parts := map[string]string{}
		for name := range onDestroyAttributes {
			if part := text(open(now.OnDestroy).string(name)); part != "" {
				parts[name] = part
			}
		}
		return parts
	}
	declared, bare := stateAfterApply(t, full), stateAfterApply(t, full.without("on_destroy"))
	for name, test := range map[string]struct{ got, want map[string]string }{
		"imported": {
			read(true, &model{}, "nvram", "tpm_state"), map[string]string{"nvram": "keep", "tpm_state": "keep"},
		},
		"imported without": {read(true, &model{}), nil},
		"as declared": {
			read(false, declared, "managed_save", "nvram", "tpm_state"),
			map[string]string{"nvram": "keep", "tpm_state": "keep", "managed_save": "keep", "snapshots": "delete"},
		},
		"removed":   {read(false, declared, "nvram"), map[string]string{"nvram": "keep", "snapshots": "delete"}},
		"added":     {read(false, bare, "nvram"), map[string]string{"nvram": "keep"}},
		"not there": {read(false, bare), nil},
	} {
		if diff := cmp.Diff(test.want, test.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	empty := stateAfterApply(t, full.with(in{"on_destroy": in{}}))
	if got := read(false, empty); got == nil {
		t.Error("a block without attributes is read as none")
	}
}

// TestModel_silentGuestStaysReady: a guest that is too busy for the one question of a refresh hasn't lost its address,
// but one that stopped is not ready.
func TestModel_silentGuestStaysReady(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		addresses map[string][]string
		state     libvirt.DomainState
		want      bool
	}{
		{map[string][]string{"lan": {"10.0.0.2"}}, libvirt.Running, true},
		{nil, libvirt.Running, true},
		{map[string][]string{}, libvirt.Running, false},
		{nil, libvirt.Paused, false},
	} {
		state := stateAfterApply(t, full)
		vm := vmAfterApply(t, full)
		vm.State = tt.state
		seen := observation{vm: vm, addresses: tt.addresses}
		var now model
		now.fromFleet(seen, state)
		now.keepReady(seen, state)
		if now.Ready.ValueBool() != tt.want {
			t.Errorf("%v, %s: ready = %s", tt.addresses, tt.state, now.Ready)
		}
	}
}

// Terraform validates a configuration before it knows its variables: a host of a network disk that is one is not
// missing.
func TestValidate_leavesUnknownHostsOfADiskAlone(t *testing.T) {
	t.Parallel()
	network := object{
		"protocol": types.StringValue("nbd"), "name": types.StringValue("disk"),
		"hosts": types.ListValueMust(types.StringType, []attr.Value{types.StringUnknown()}),
		"auth":  types.ObjectNull(diskAuthType.AttrTypes),
	}
	readRows(network, "disks.*.network", rowReader{}, nil, false)
	source := diskSource(object{"network": types.ObjectValueMust(networkDiskType.AttrTypes, network)}, types.Object{})
	spec := domain.Spec{Disks: map[string]domain.Disk{"root": {Source: source}}}
	for _, p := range spec.Validate() {
		t.Errorf("%s: %s", p.Path, p.Message)
	}
}
