package domain

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// applyCase is a change of a sample: lines of its canonical form that go and come.
type applyCase struct {
	name, sample string
	want         Spec
	gone, come   []string
	// problem is the path of the problem that it is.
	problem string
}

// lines returns the canonical form as a multiset of trimmed lines, namespaces and empty texts left out.
func lines(d *Definition) map[string]int {
	found := map[string]int{}
	for line := range strings.Lines(d.Canonical()) {
		line = strings.TrimPrefix(strings.TrimSpace(line), "{}")
		found[strings.TrimSuffix(line, ` ""`)]++
	}
	return found
}

// diffLines returns what is in a and not in b.
func diffLines(a, b map[string]int) map[string]int {
	found := map[string]int{}
	for line, n := range a {
		if n > b[line] {
			found[line] = n - b[line]
		}
	}
	return found
}

func count(list []string) map[string]int {
	found := map[string]int{}
	for _, line := range list {
		found[line]++
	}
	return found
}

func runApplyCases(t *testing.T, cases []applyCase) {
	t.Helper()
	for _, test := range cases {
		d := sample(t, test.sample)
		before := lines(d)
		err := d.Apply(test.want)
		if test.problem != "" {
			var problem Problem
			if !errors.As(err, &problem) || problem.Path != test.problem {
				t.Errorf("%s: error %v", test.name, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		after := lines(d)
		if diff := cmp.Diff(count(test.gone), diffLines(before, after)); diff != "" {
			t.Errorf("%s: what goes: -want +got:\n%s", test.name, diff)
		}
		if diff := cmp.Diff(count(test.come), diffLines(after, before)); diff != "" {
			t.Errorf("%s: what comes: -want +got:\n%s", test.name, diff)
		}
	}
}

func TestApply_identity(t *testing.T) {
	t.Parallel()
	runApplyCases(t, []applyCase{
		{
			name: "name and type", sample: "virt-install-q35", want: Spec{Name: "other", Type: "qemu"},
			gone: []string{`name "debian12"`, `domain type="kvm"`}, come: []string{`name "other"`, `domain type="qemu"`},
		},
		{name: "alias of the machine type", sample: "virt-install-q35", want: Spec{Machine: "q35"}},
		{
			name: "version of the machine type", sample: "virt-install-q35", want: Spec{Machine: "pc-q35-8.2"},
			gone: []string{`type arch="x86_64" machine="pc-q35-7.2" "hvm"`},
			come: []string{`type arch="x86_64" machine="pc-q35-8.2" "hvm"`},
		},
		{name: "other machine", sample: "virt-install-q35", want: Spec{Machine: "pc"}, problem: "machine_type"},
		{name: "other architecture", sample: "virt-install-q35", want: Spec{Arch: "aarch64"}, problem: "arch"},
		{name: "other UUID", sample: "virt-install-q35", want: Spec{UUID: "1"}, problem: "id"},
	})
}

func TestApply_cpu(t *testing.T) {
	t.Parallel()
	runApplyCases(t, []applyCase{
		{
			name: "sockets without a topology", sample: "virt-install-q35", want: Spec{CPU: CPU{Sockets: new(2)}},
			gone: []string{`vcpu placement="static" "4"`}, come: []string{`vcpu placement="static" "2"`},
		},
		{
			name: "room for sockets", sample: "virt-install-q35", want: Spec{CPU: CPU{MaxSockets: new(8)}},
			gone: []string{`vcpu placement="static" "4"`}, come: []string{`vcpu current="4" placement="static" "8"`},
		},
		{
			name: "a topology regroups", sample: "virt-install-q35", want: Spec{CPU: CPU{Cores: new(2)}},
			come: []string{`topology cores="2" sockets="2" threads="1"`},
		},
		{
			name: "sockets keep the topology", sample: "uefi-secboot", want: Spec{CPU: CPU{VCPUs: new(16)}},
			gone: []string{`vcpu placement="static" "8"`, `topology cores="4" dies="1" sockets="1" threads="2"`},
			come: []string{`vcpu placement="static" "16"`, `topology cores="4" dies="1" sockets="2" threads="2"`},
		},
		{
			name: "a number that doesn't fit", sample: "uefi-secboot", want: Spec{CPU: CPU{VCPUs: new(6)}}, problem: "cpu",
		},
		{
			name: "everything that counts follows", sample: "tuning",
			want: Spec{CPU: CPU{Sockets: new(1), Cores: new(2), Threads: new(3), MaxSockets: new(1)}},
			gone: []string{
				`vcpu cpuset="0-15" current="6" placement="static" "8"`, "vcpus",
				`vcpu enabled="yes" hotpluggable="no" id="0" order="1"`, `vcpu enabled="yes" hotpluggable="no" id="1" order="2"`,
				`vcpu enabled="yes" hotpluggable="no" id="2" order="3"`, `vcpu enabled="yes" hotpluggable="no" id="3" order="4"`,
				`vcpu enabled="yes" hotpluggable="yes" id="4" order="5"`,
				`vcpu enabled="yes" hotpluggable="yes" id="5" order="6"`,
				`vcpu enabled="no" hotpluggable="yes" id="6"`, `vcpu enabled="no" hotpluggable="yes" id="7"`,
				`vcpupin cpuset="6" vcpu="6"`, `vcpupin cpuset="7" vcpu="7"`,
				`vcpusched priority="1" scheduler="fifo" vcpus="4-7"`,
				`topology cores="1" dies="2" sockets="2" threads="2"`,
				`cell cpus="4-7" id="1" memory="4" unit="GiB"`,
			},
			come: []string{
				`vcpu cpuset="0-15" placement="static" "6"`, `vcpusched priority="1" scheduler="fifo" vcpus="4-5"`,
				`topology cores="1" dies="2" sockets="1" threads="3"`, `cell cpus="4-5" id="1" memory="4" unit="GiB"`,
			},
		},
		{
			name: "a cell without virtual CPUs", sample: "tuning",
			want: Spec{CPU: CPU{Sockets: new(1), MaxSockets: new(1)}}, problem: "cpu",
		},
		{
			name: "new virtual CPUs go to the last cell", sample: "dimm", want: Spec{CPU: CPU{MaxSockets: new(6)}},
			gone: []string{`vcpu placement="static" "4"`, `cell cpus="2-3" id="1" memory="1048576" unit="KiB"`},
			come: []string{
				`vcpu current="4" placement="static" "6"`, `cell cpus="2-5" id="1" memory="1048576" unit="KiB"`,
			},
		},
		{
			name: "mode", sample: "tuning", want: Spec{CPU: CPU{Mode: new("host-passthrough")}},
			gone: []string{
				`cpu check="partial" match="exact" mode="custom"`, `model fallback="allow" "Skylake-Server-IBRS"`, `vendor "Intel"`,
			},
			come: []string{`cpu mode="host-passthrough"`},
		},
		{
			name: "model", sample: "tuning", want: Spec{CPU: CPU{Model: new("EPYC")}},
			gone: []string{`model fallback="allow" "Skylake-Server-IBRS"`, `vendor "Intel"`},
			come: []string{`model fallback="allow" "EPYC"`},
		},
		{
			name: "model means mode custom", sample: "virt-install-q35", want: Spec{CPU: CPU{Model: new("EPYC")}},
			gone: []string{`cpu check="none" migratable="on" mode="host-passthrough"`},
			come: []string{`cpu mode="custom"`, `model "EPYC"`},
		},
		{
			name: "mode custom without a model", sample: "virt-install-q35",
			want: Spec{CPU: CPU{Mode: new("custom")}}, problem: "cpu.model",
		},
		{
			name: "sockets that aren't vcpus", sample: "virt-install-q35",
			want: Spec{CPU: CPU{VCPUs: new(3), Sockets: new(2)}}, problem: "cpu.sockets",
		},
		{
			name: "less room than sockets", sample: "virt-install-q35",
			want: Spec{CPU: CPU{MaxSockets: new(2)}}, problem: "cpu.max_sockets",
		},
	})
}

func TestApply_memory(t *testing.T) {
	t.Parallel()
	size := func(n uint64) Spec { return Spec{Memory: Memory{Size: new(n * mib)}} }
	runApplyCases(t, []applyCase{
		{
			name: "both together", sample: "virt-install-q35", want: size(2048),
			gone: []string{`memory unit="KiB" "4194304"`, `currentMemory unit="KiB" "4194304"`},
			come: []string{`memory unit="KiB" "2097152"`, `currentMemory unit="KiB" "2097152"`},
		},
		{name: "the same in another unit", sample: "uefi-secboot", want: size(8192)},
		{
			name: "within the balloon's headroom", sample: "i440fx-ide", want: size(1024),
			gone: []string{`currentMemory unit="KiB" "524288"`}, come: []string{`currentMemory unit="KiB" "1048576"`},
		},
		{
			name: "beyond it", sample: "i440fx-ide", want: size(2048),
			gone: []string{`memory unit="KiB" "1048576"`, `currentMemory unit="KiB" "524288"`},
			come: []string{`memory unit="KiB" "2097152"`, `currentMemory unit="KiB" "2097152"`},
		},
		{
			name: "memory devices and cells", sample: "dimm", want: size(4097),
			gone: []string{
				`memory unit="KiB" "3145728"`, `currentMemory unit="KiB" "3145728"`,
				`cell cpus="0-1" id="0" memory="1048576" unit="KiB"`, `cell cpus="2-3" id="1" memory="1048576" unit="KiB"`,
			},
			come: []string{
				`memory unit="KiB" "4195328"`, `currentMemory unit="KiB" "4195328"`,
				`cell cpus="0-1" id="0" memory="1572864" unit="KiB"`, `cell cpus="2-3" id="1" memory="1573888" unit="KiB"`,
			},
		},
		{name: "less than the memory devices", sample: "dimm", want: size(1024), problem: "memory.size"},
		{name: "more than the maximum", sample: "dimm", want: size(32768), problem: "memory.size"},
		{
			name: "maximum", sample: "virt-install-q35", want: Spec{Memory: Memory{MaxSize: new(uint64(8 << 30))}},
			come: []string{
				`maxMemory slots="16" unit="KiB" "8388608"`, "numa", `cell cpus="0-3" id="0" memory="4194304" unit="KiB"`,
			},
		},
		{
			name: "maximum below", sample: "virt-install-q35",
			want: Spec{Memory: Memory{MaxSize: new(uint64(2 << 30))}}, problem: "memory.max_size",
		},
		{
			name: "maximum of a VM that has one", sample: "dimm", want: Spec{Memory: Memory{MaxSize: new(uint64(8 << 30))}},
			gone: []string{`maxMemory slots="8" unit="GiB" "16"`}, come: []string{`maxMemory slots="8" unit="KiB" "8388608"`},
		},
	})
}

// Memory that only a balloon takes from the guest is removed from a definition, its NUMA cells' included, unless these
// are declared.
func TestTrimMemory(t *testing.T) {
	t.Parallel()
	const headroom = `<memory>163840</memory><currentMemory>65536</currentMemory>`
	const cell = `<cpu><numa><cell id="0" cpus="0" memory="163840"/></numa></cpu>`
	const dimm = `<devices><memory model="dimm"><target><size>98304</size></target></memory></devices>`
	declared := Spec{Values: Values{cpuNUMA: FormatTable(map[string]Row{"0": {"memory": "167772160"}})}}
	for name, c := range map[string]struct {
		has      string
		declared Spec
		come     []string
	}{
		"headroom":  {has: headroom, come: []string{`<memory unit="KiB">65536<`}},
		"none":      {has: `<memory>65536</memory><currentMemory>65536</currentMemory>`},
		"of a cell": {has: headroom + cell, come: []string{`<memory unit="KiB">65536<`, `memory="65536"`}},
		"declared":  {has: headroom + cell, declared: declared},
		"plugged":   {has: headroom + dimm},
	} {
		d, err := Parse(`<domain type="qemu"><name>vm</name>` + c.has + `</domain>`)
		if err != nil {
			t.Fatal(err)
		}
		before := d.Canonical()
		if did := d.TrimMemory(c.declared); did != (c.come != nil) {
			t.Errorf("%s: it reports %v", name, did)
		}
		xml, err := d.XML()
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range c.come {
			if !strings.Contains(xml, part) {
				t.Errorf("%s: %q isn't in %s", name, part, xml)
			}
		}
		if size := *d.Spec().Memory.Size; size != 64*mib || c.come == nil && d.Canonical() != before {
			t.Errorf("%s: its size is %d, and it was changed: %v", name, size, d.Canonical() != before)
		}
	}
}

func TestApply_firmwareAndKernel(t *testing.T) {
	t.Parallel()
	ofType := func(kind string, secure *bool) Spec {
		return Spec{Firmware: Firmware{Type: new(kind), SecureBoot: secure}}
	}
	runApplyCases(t, []applyCase{
		{name: "as it is", sample: "uefi-secboot", want: ofType("efi", new(true))},
		{name: "as it is, by feature", sample: "hostdev", want: ofType("efi", new(false))},
		{
			name: "to efi", sample: "virt-install-q35", want: ofType("efi", new(true)),
			gone: []string{"os"},
			come: []string{`os firmware="efi"`, "firmware", `feature enabled="yes" name="secure-boot"`, `smm state="on"`},
		},
		{
			name: "to bios", sample: "uefi-secboot", want: ofType("bios", nil),
			gone: []string{
				`loader readonly="yes" secure="yes" type="pflash" "/usr/share/OVMF/OVMF_CODE_4M.ms.fd"`,
				`nvram template="/usr/share/OVMF/OVMF_VARS_4M.ms.fd" "/var/lib/libvirt/qemu/nvram/win11_VARS.fd"`,
			},
		},
		{name: "secure bios", sample: "virt-install-q35", want: ofType("bios", new(true)), problem: "firmware.secure_boot"},
		{
			name: "kernel", sample: "virt-install-q35", want: Spec{Kernel: &Kernel{Path: "/k", Cmdline: "a b"}},
			come: []string{`kernel "/k"`, `cmdline "a b"`},
		},
		{
			name: "no kernel", sample: "sysinfo-nova", want: Spec{Kernel: &Kernel{}},
			gone: []string{
				`kernel "/srv/boot/vmlinuz"`, `initrd "/srv/boot/initrd"`, `cmdline "console=ttyS0 root=/dev/vda"`,
			},
		},
		{name: "initrd alone", sample: "sysinfo-nova", want: Spec{Kernel: &Kernel{Initrd: "/i"}}, problem: "kernel.path"},
	})
}

// TestFirmware_outdates: variables are of no use to another type of firmware, and to secure boot without its keys.
func TestFirmware_outdates(t *testing.T) {
	t.Parallel()
	bios, efi := Firmware{Type: new("bios"), SecureBoot: new(false)}, Firmware{Type: new("efi"), SecureBoot: new(false)}
	secure, whatever := Firmware{Type: new("efi"), SecureBoot: new(true)}, Firmware{Type: new("efi")}
	for _, tt := range []struct {
		have, want Firmware
		outdated   bool
	}{
		{bios, efi, true},
		{bios, Firmware{}, false},
		{efi, bios, false},
		{efi, efi, false},
		{efi, whatever, false},
		{efi, secure, true},
		{secure, efi, true},
		{secure, whatever, false},
		{secure, secure, false},
		{whatever, secure, true},
		{whatever, efi, false},
		{efi, Firmware{SecureBoot: new(true)}, true},
	} {
		if got := tt.have.RequiresNVRAMReset(tt.want); got != tt.outdated {
			t.Errorf("%v to %v: %v", tt.have, tt.want, got)
		}
	}
}

// TestMetadata_withFirmware: the variables fit again if the firmware that wrote them comes back before a guest runs
// with another one. Those of an unknown firmware don't.
func TestMetadata_withFirmware(t *testing.T) {
	t.Parallel()
	bios, efi := Firmware{Type: new("bios"), SecureBoot: new(false)}, Firmware{Type: new("efi"), SecureBoot: new(false)}
	secure := Firmware{Type: new("efi"), SecureBoot: new(true)}
	for name, tt := range map[string]struct {
		steps   []Firmware
		running *Firmware
		noted   Metadata
		fresh   bool
	}{
		"another":               {steps: []Firmware{efi, secure}, fresh: true},
		"back":                  {steps: []Firmware{efi, secure, efi}},
		"back to secure boot":   {steps: []Firmware{secure, efi, secure}},
		"away again":            {steps: []Firmware{efi, secure, efi, secure}, fresh: true},
		"first another type":    {steps: []Firmware{bios, efi, secure, efi}, fresh: true},
		"noted by an older run": {steps: []Firmware{secure, efi}, noted: Metadata{FreshNVRAM: true}, fresh: true},
		"while it runs":         {steps: []Firmware{secure, efi}, running: &efi, noted: Metadata{FreshNVRAM: true}},
		"staged, then off":      {steps: []Firmware{secure, efi}, noted: Metadata{FreshNVRAM: true, VariablesOf: "efi"}},
	} {
		m := tt.noted
		for i := range tt.steps[1:] {
			m = m.WithFirmware(tt.steps[i], tt.steps[i+1], tt.running)
		}
		if m.FreshNVRAM != tt.fresh {
			t.Errorf("%s: %+v", name, m)
		}
	}
}

func TestApply_characterDevices(t *testing.T) {
	t.Parallel()
	runApplyCases(t, []applyCase{
		{
			name: "agent and console", sample: "minimal", want: Spec{GuestAgent: new(true), SerialConsole: new(true)},
			come: []string{
				"devices", `channel type="unix"`, `target name="org.qemu.guest_agent.0" type="virtio"`,
				`serial type="pty"`, `console type="pty"`, `target port="0" type="serial"`,
			},
		},
		{
			name: "no agent: other channels stay", sample: "virt-install-q35", want: Spec{GuestAgent: new(false)},
			gone: []string{
				`channel type="unix"`, `target name="org.qemu.guest_agent.0" type="virtio"`,
				`address bus="0" controller="0" port="1" type="virtio-serial"`,
			},
		},
		{
			name: "console together with a log", sample: "sysinfo-nova", want: Spec{SerialConsole: new(true)},
			come: []string{`serial type="pty"`},
		},
		{
			name: "no console", sample: "s390x", want: Spec{SerialConsole: new(false)},
			gone: []string{`console type="pty"`, `target port="0" type="sclp"`},
		},
	})
}
