package virtualmachine

import (
	"fmt"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
)

// vmWithProfile is a VM with one device of each kind that profiles say something about.
func vmWithProfile(profile string) in {
	return minimal.with(in{
		"profile": profile,
		"disks": in{
			"root": in{"file": "/images/root.qcow2"},
			"iso":  in{"file": "/iso/windows.iso", "device": "cdrom"},
		},
		"interfaces": in{"lan": in{"network": "default"}},
	})
}

// TestProfile_isWhatIsPlanned: each profile is planned, makes a definition, and leaves nothing to do.
func TestProfile_isWhatIsPlanned(t *testing.T) {
	t.Parallel()
	for _, profile := range domain.Profiles {
		t.Run(profile.Name, func(t *testing.T) {
			t.Parallel()
			config := vmWithProfile(profile.Name)
			p := planning{config: modelOf(t, config).withProfile()}
			o := p.plan()
			if diags := p.validatePlanned(&o.planned); len(diags) > 0 {
				t.Error(diagText(diags))
			}
			state := stateAfterApply(t, config)
			for _, s := range profile.Settings {
				at := strings.NewReplacer("disks.*", "disks.root", "interfaces.*", "interfaces.lan").Replace(s.Path)
				for name, m := range map[string]*model{"plan": &o.planned, "state": state} {
					v := m.lookUp(at)
					if got := strings.Trim(fmt.Sprint(v), `"`); got != fmt.Sprint(s.Value) && !strings.HasPrefix(got, "pc-") {
						t.Errorf("%s of the %s is %v, want %v", at, name, v, s.Value)
					}
				}
			}
			if bus := o.planned.lookUp("disks.iso.bus"); bus == nil || !bus.IsUnknown() {
				t.Errorf("the bus of a drive is planned to be %v", bus)
			}
			planCase{before: config, config: config}.run(t)
		})
	}
}

// TestProfile_declaredGenerator: a random number generator that is declared without its model isn't left out.
func TestProfile_declaredGenerator(t *testing.T) {
	t.Parallel()
	config := vmWithProfile("linux-legacy").with(in{"devices": in{"rng": in{"rate_bytes": 1024}}})
	if got := fmt.Sprint(stateAfterApply(t, config).lookUp("devices.rng.model")); got != `"virtio"` {
		t.Errorf("the model is %s", got)
	}
	planCase{before: config, config: config}.run(t)
}

// TestProfile_firmwareOfAnArchitecture: the plan of a new VM on aarch64 shows the only firmware that boots its disks.
func TestProfile_firmwareOfAnArchitecture(t *testing.T) {
	t.Parallel()
	arm := minimal.with(in{"arch": "aarch64"})
	for name, test := range map[string]struct {
		config  in
		planned string
		has     string
	}{
		"nothing declared": {arm, `"efi"`, `"efi"`},
		"linux":            {arm.with(in{"profile": "linux"}), `"efi"`, `"efi"`},
		"declared":         {arm.with(in{"firmware": in{"type": "bios"}}), `"bios"`, `"bios"`},
		"kernel":           {arm.with(in{"kernel": in{"path": "/boot/vmlinuz"}}), "<unknown>", `"bios"`},
		"loader":           {arm.with(in{"firmware": in{"loader": "/efi.fd"}}), "<unknown>", `"bios"`},
		"x86":              {minimal, "<unknown>", `"bios"`},
		"i686":             {minimal.with(in{"arch": "i686"}), "<unknown>", `"bios"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := planning{config: modelOf(t, test.config).withProfile()}
			o := p.plan()
			if diags := p.validatePlanned(&o.planned); len(diags) > 0 {
				t.Error(diagText(diags))
			}
			got := "<unknown>"
			if v := o.planned.lookUp("firmware.type"); v != nil && !v.IsNull() {
				got = fmt.Sprint(v)
			}
			if got != test.planned {
				t.Errorf("planned is %s, want %s", got, test.planned)
			}
			if v := stateAfterApply(t, test.config).lookUp("firmware.type"); fmt.Sprint(v) != test.has {
				t.Errorf("the VM has %v, want %s", v, test.has)
			}
			planCase{before: test.config, config: test.config}.run(t)
		})
	}
}

// TestProfile_whatIsDeclaredStays: each single thing can be declared in another way.
func TestProfile_whatIsDeclaredStays(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change in
		want   map[string]string
	}{
		"firmware": {
			change: in{"firmware": in{"type": "bios"}},
			want: map[string]string{
				"firmware.type": `"bios"`, "firmware.secure_boot": "<unknown>", "devices.tpm.model": `"tpm-crb"`,
			},
		},
		"secure boot": {
			change: in{"firmware": in{"secure_boot": false}},
			want:   map[string]string{"firmware.type": `"efi"`, "firmware.secure_boot": "false"},
		},
		"a device": {
			change: in{"devices": in{"tpm": in{"model": "none"}}},
			want:   map[string]string{"devices.tpm.model": `"none"`, "devices.tpm.backend": "<null>"},
		},
		"a map of devices": {
			change: in{"devices": in{"inputs": in{}}},
			want:   map[string]string{"devices.inputs": "{}", "devices.tpm.model": `"tpm-crb"`},
		},
		"an enlightenment": {
			change: in{"platform": in{"hyperv": in{"vpindex": false}}},
			want:   map[string]string{"platform.hyperv.vpindex": "false", "platform.hyperv.synic": "true"},
		},
		"all enlightenments": {
			change: in{"platform": in{"hyperv": in{"mode": "passthrough"}}},
			want:   map[string]string{"platform.hyperv.mode": `"passthrough"`, "platform.hyperv.synic": "<null>"},
		},
		"emulation": {
			change: in{"type": "qemu"},
			want: map[string]string{
				"platform.hyperv": "<null>", "platform.clock.hypervclock": "<null>", "platform.clock.hpet": "false",
			},
		},
		"a disk": {
			change: in{"disks": in{
				"root": in{"file": "/images/root.qcow2", "bus": "scsi"}, "lun": in{"block": "/dev/sda", "device": "lun"},
			}},
			want: map[string]string{"disks.root.bus": `"scsi"`, "disks.lun.bus": "<unknown>"},
		},
		"a disk of an unknown kind": {
			change: in{"disks": in{"root": in{"file": "/images/root.qcow2", "device": unknownMark}}},
			want:   map[string]string{"disks.root.bus": "<unknown>"},
		},
		"an interface": {
			change: in{"interfaces": in{"lan": in{"network": "default", "model": "rtl8139"}}},
			want:   map[string]string{"interfaces.lan.model": `"rtl8139"`},
		},
		"devices of the host and of a switch": {
			change: in{"interfaces": in{
				"card": in{"hostdev": "0000:03:10.0"}, "vdpa": in{"vdpa": "/dev/vhost-vdpa-0"},
				"port": in{"vhostuser": in{"path": "/run/port.sock", "mode": "server"}}, "lan": in{"network": "default"},
			}},
			want: map[string]string{
				"interfaces.card.model": "<unknown>", "interfaces.vdpa.model": "<unknown>",
				"interfaces.port.model": "<unknown>", "interfaces.lan.model": `"e1000e"`,
			},
		},
		"a mode that is unknown": {
			change: in{"platform": in{"hyperv": in{"mode": unknownMark}}},
			want:   map[string]string{"platform.hyperv.mode": "<unknown>", "platform.hyperv.relaxed": "<unknown>"},
		},
		"serial ports": {
			change: in{"devices": in{"serials": in{"ems": in{"type": "pty"}}}},
			want:   map[string]string{"serial_console": `{"enabled":true}`, "guest_agent.enabled": "false"},
		},
		"nothing by an empty text": {
			change: in{"machine_type": "", "devices": in{"tpm": in{"model": ""}}},
			want:   map[string]string{"devices.tpm.model": `"tpm-crb"`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := planning{config: modelOf(t, vmWithProfile("windows-11").with(test.change)).withProfile()}
			o := p.plan()
			for at, want := range test.want {
				if got := fmt.Sprint(o.planned.lookUp(at)); got != want {
					t.Errorf("%s is %s, want %s", at, got, want)
				}
			}
		})
	}
}

// TestProfile_isForNewVMs: a VM that exists stays as it is, whatever profile it gets.
func TestProfile_isForNewVMs(t *testing.T) {
	t.Parallel()
	before := vmWithProfile("linux")
	runAll(t, map[string]planCase{
		"another": {
			before: before, config: before.with(in{"profile": "windows-11"}), changes: "profile",
			says: []string{"changes nothing of an existing", "windows-11"},
		},
		"none any more": {before: before, config: before.without("profile"), changes: "profile"},
		"one at last": {
			before: before.without("profile"), config: before, changes: "profile",
			says: []string{"changes nothing of an existing"},
		},
		"a device is declared": {
			before: before, config: before.with(in{"devices": in{"video": in{"model": "vga"}}}), changes: "devices",
			says: []string{"Change needs a restart", "devices.video.model"},
		},
	})
}

func TestProfile_isRefused(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		config in
		says   string
	}{
		"unknown":              {vmWithProfile(unknownMark), "must be known"},
		"another architecture": {vmWithProfile("windows-11").with(in{"arch": "aarch64"}), "for x86 only"},
		"what doesn't fit": {
			vmWithProfile("windows-11").with(in{"platform": in{"clock": in{"timezone": "Europe/Berlin"}}}), "needs offset",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := planning{config: modelOf(t, test.config).withProfile()}
			o := p.plan()
			if got := diagText(p.validatePlanned(&o.planned)); !strings.Contains(got, test.says) {
				t.Errorf("it doesn't say %q: %s", test.says, got)
			}
		})
	}
}
