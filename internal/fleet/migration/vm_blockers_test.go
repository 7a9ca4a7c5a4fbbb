package migration

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// facts are those of a definition with these elements, and these devices.
func facts(t *testing.T, elements, devices string) domain.Mobility {
	t.Helper()
	d, err := domain.Parse(`<domain type='kvm'><name>web</name><memory>1024</memory><os><type arch='x86_64' ` +
		`machine='pc-q35-7.2'>hvm</type></os>` + elements + `<devices>` + devices + `</devices></domain>`)
	if err != nil {
		t.Fatal(err)
	}
	return d.Mobility()
}

func reasons(blockers []Blocker) []string {
	var all []string
	for _, b := range blockers {
		all = append(all, b.Reason+" "+string(b.Status))
	}
	return all
}

func TestDomainBlockers_ofARunningVM(t *testing.T) {
	t.Parallel()
	const pci = `<hostdev mode='subsystem' type='pci'><source><address domain='0x0000' bus='0x03' slot='0x00' ` +
		`function='0x1'/></source></hostdev>`
	const reenlightened = `<features><hyperv><reenlightenment state='on'/></hyperv></features>`
	tests := map[string]struct {
		elements, devices string
		want              []string
	}{
		"nothing special": {devices: `<disk type='file'><source file='/a'/><target dev='vda'/></disk>` +
			`<interface type='bridge'><source bridge='br0'/></interface><tpm><backend type='emulator'/></tpm>`},
		"host device":         {devices: pci, want: []string{HostDeviceNotLiveMigratable}},
		"two of them":         {devices: pci + pci, want: []string{HostDeviceNotLiveMigratable, HostDeviceNotLiveMigratable}},
		"mediated device":     {devices: `<hostdev type='mdev'/>`, want: []string{HostDeviceNotLiveMigratable}},
		"passthrough network": {devices: `<interface type='hostdev'/>`, want: []string{HostDeviceNotLiveMigratable}},
		"a network device for itself": {
			devices: `<interface type='direct'><source dev='eth0' mode='passthrough'/></interface>`,
			want:    []string{InterfaceNotLiveMigratable},
		},
		"a shared network device": {devices: `<interface type='direct'><source dev='eth0' mode='bridge'/></interface>`},
		"transient disk": {
			devices: `<disk type='file'><source file='/a'/><target dev='vda'/><transient/></disk>`,
			want:    []string{DisksNotLiveMigratable},
		},
		"an image that QEMU can't hand over": {
			devices: `<disk type='file'><driver type='vmdk'/><source file='/a'/><target dev='vda'/></disk>`,
			want:    []string{QEMUNotLiveMigratable},
		},
		"a base that QEMU can't hand over": {
			devices: `<disk type='file'><driver type='qcow2'/><source file='/a'/><backingStore type='file'>` +
				`<format type='vhdx'/><source file='/b'/></backingStore><target dev='vda'/></disk>`,
			want: []string{QEMUNotLiveMigratable},
		},
		"images that QEMU can": {
			devices: `<disk type='file'><driver type='qed'/><source file='/a'/><target dev='vda'/></disk>`,
		},
		"with a failover": {
			devices: `<interface type='hostdev'><teaming type='transient' persistent='ua-net-a'/></interface>`,
		},
		"vDPA": {devices: `<interface type='vdpa'/>`, want: []string{HostDeviceNotLiveMigratable}},
		"TPM of the host": {
			devices: `<tpm><backend type='passthrough'/></tpm>`, want: []string{HostDeviceNotLiveMigratable},
		},
		"NVMe": {
			devices: `<disk type='nvme'><target dev='vda'/></disk>`, want: []string{HostDeviceNotLiveMigratable},
		},
		"SEV":              {elements: `<launchSecurity type='sev'/>`, want: []string{SEVNotLiveMigratable}},
		"SEV-SNP":          {elements: `<launchSecurity type='sev-snp'/>`, want: []string{SEVNotLiveMigratable}},
		"TDX":              {elements: `<launchSecurity type='tdx'/>`, want: []string{TDXNotLiveMigratable}},
		"secure execution": {elements: `<launchSecurity type='s390-pv'/>`, want: []string{SecureExecutionNotLiveMigratable}},
		"reenlightenment":  {elements: reenlightened, want: []string{NoTSCFrequencyNotLiveMigratable}},
		"reenlightenment with a fixed frequency": {
			elements: reenlightened + `<clock><timer name='tsc' frequency='3000000000'/></clock>`,
		},
		"invtsc": {
			elements: reenlightened + `<cpu><feature policy='require' name='invtsc'/></cpu>`,
			want:     []string{NoTSCFrequencyNotLiveMigratable},
		},
		"invtsc with a fixed frequency": {
			elements: `<cpu><feature policy='require' name='invtsc'/></cpu><clock><timer name='tsc' frequency='3000000000'/>` +
				`</clock>`,
		},
		"whatever the host's CPU has": {
			elements: `<cpu mode='host-passthrough' migratable='off'/>`,
			want:     []string{NoTSCFrequencyNotLiveMigratable + " Unknown"},
		},
		"reenlightenment with invtsc turned off": {
			elements: reenlightened + `<cpu><feature policy='disable' name='invtsc'/></cpu>`,
			want:     []string{NoTSCFrequencyNotLiveMigratable},
		},
		"Hyper-V passthrough": {
			elements: `<features><hyperv mode='passthrough'/></features>`, want: []string{HypervPassthroughNotLiveMigratable},
		},
		"virtiofs": {
			devices: `<filesystem><driver type='virtiofs'/><target dir='data'/></filesystem>`,
			want:    []string{VirtIOFSNotLiveMigratable},
		},
		"shared memory": {
			devices: `<shmem name='a'/><shmem name='b' role='master'/>`, want: []string{QEMUNotLiveMigratable},
		},
		"sound over USB":    {devices: `<sound model='ac97'/><sound model='usb'/>`, want: []string{QEMUNotLiveMigratable}},
		"sound over virtio": {devices: `<sound model='virtio'/>`, want: []string{QEMUNotLiveMigratable + " Unknown"}},
		"network card on USB": {
			devices: `<interface type='user'><model type='usb-net'/></interface>`, want: []string{QEMUNotLiveMigratable},
		},
		"disk on the bus nvme": {
			devices: `<disk type='file'><source file='/a'/><target dev='nvme0' bus='nvme'/></disk>`,
			want:    []string{QEMUNotLiveMigratable},
		},
		"input device of its host": {
			devices: `<input type='passthrough' bus='virtio'><source evdev='/dev/input/event1'/></input>`,
			want:    []string{QEMUNotLiveMigratable},
		},
		"IOMMU of AMD":   {devices: `<iommu model='amd'/>`, want: []string{QEMUNotLiveMigratable + " Unknown"}},
		"IOMMU of Intel": {devices: `<iommu model='intel'/>`},
		"3D acceleration": {
			devices: `<video><model type='virtio'><acceleration accel3d='yes'/></model></video>`,
			want:    []string{QEMUNotLiveMigratable},
		},
		"3D acceleration of a second card": {
			devices: `<video><model type='qxl'/></video>` +
				`<video><model type='virtio'><acceleration accel3d='yes'/></model></video>`,
			want: []string{QEMUNotLiveMigratable},
		},
		"graphics card in another process": {
			devices: `<video><driver name='vhostuser'/><model type='virtio'/></video>`, want: []string{QEMUNotLiveMigratable},
		},
		"graphics card with blobs": {
			devices: `<video><model type='virtio' blob='on'/></video>`, want: []string{QEMUNotLiveMigratable + " Unknown"},
		},
		"keyboard of the host": {
			devices: `<input type='evdev'><source dev='/dev/input/event1' grab='all'/></input>`,
			want:    []string{HostDeviceNotLiveMigratable},
		},
		"NVDIMM": {
			devices: `<memory model='nvdimm'><source><path>/n</path></source><target><size>1</size></target></memory>`,
			want:    []string{DisksNotLiveMigratable + " Unknown"},
		},
		"virtio-pmem": {
			devices: `<memory model='virtio-pmem'><source><path>/n</path></source></memory>`,
			want:    []string{QEMUNotLiveMigratable, DisksNotLiveMigratable + " Unknown"},
		},
		"SGX":                   {devices: `<memory model='sgx-epc'/>`, want: []string{QEMUNotLiveMigratable}},
		"DIMM":                  {devices: `<memory model='dimm'><target><size>1</size></target></memory>`},
		"memory with tags":      {elements: `<features><mte state='on'/></features>`, want: []string{QEMUNotLiveMigratable}},
		"memory without tags":   {elements: `<features><mte state='off'/></features>`},
		"smartcard of the host": {devices: `<smartcard mode='host'/>`, want: []string{HostDeviceNotLiveMigratable}},
		"smartcard of a client": {devices: `<smartcard mode='passthrough' type='spicevmc'/>`},
		"9p, which only counts while it is mounted": {
			devices: `<filesystem><target dir='data'/></filesystem>`, want: []string{VirtIOFSNotLiveMigratable + " Unknown"},
		},
		"reservations": {
			devices: `<disk type='block'><source dev='/dev/sdb'><reservations managed='yes'/></source>` +
				`<target dev='sda'/></disk>`,
			want: []string{PersistentReservationNotLiveMigratable},
		},
		"all at once": {
			elements: `<launchSecurity type='sev'/><features><hyperv mode='passthrough'/></features>`, devices: pci,
			want: []string{HostDeviceNotLiveMigratable, SEVNotLiveMigratable, HypervPassthroughNotLiveMigratable},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var want []string
			for _, reason := range tt.want {
				if !strings.Contains(reason, " ") {
					reason += " False"
				}
				want = append(want, reason)
			}
			blockers := DomainBlockers(VM{State: libvirt.Running, Mobility: facts(t, tt.elements, tt.devices)})
			if diff := cmp.Diff(want, reasons(blockers)); diff != "" {
				t.Errorf("blockers differ (-want +got):\n%s", diff)
			}
			for _, b := range blockers {
				if b.Message == "" || b.Remedy == "" {
					t.Errorf("%+v has no message or no remedy", b)
				}
			}
		})
	}
}

func TestDomainBlockers_ofWhatItDoes(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		machine VM
		want    string
	}{
		"running":         {VM{State: libvirt.Running}, ""},
		"paused by a man": {VM{State: libvirt.Paused, Reason: "User"}, ""},
		"I/O error":       {VM{State: libvirt.Paused, Reason: "IOError"}, StateNotMigratable},
		"asleep":          {VM{State: libvirt.PMSuspended}, StateNotMigratable},
		"shutting down":   {VM{State: libvirt.ShuttingDown}, StateNotMigratable},
		"being backed up": {VM{State: libvirt.Running, Job: "Backup"}, StateNotMigratable},
		"snapshots":       {VM{State: libvirt.Running, Snapshots: 2}, SnapshotsNotMigratable},
		"block job":       {VM{State: libvirt.Running, BlockJobs: []string{"vda"}}, BlockJobsNotLiveMigratable},
		"off":             {VM{State: libvirt.Shutoff}, ""},
		"off, snapshots":  {VM{State: libvirt.Shutoff, Snapshots: 1}, SnapshotsNotMigratable},
		"off, saved":      {VM{State: libvirt.Shutoff, ManagedSave: true}, ManagedSaveNotMigratable},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var want []string
			if tt.want != "" {
				want = []string{tt.want + " False"}
			}
			if diff := cmp.Diff(want, reasons(DomainBlockers(tt.machine))); diff != "" {
				t.Errorf("blockers differ (-want +got):\n%s", diff)
			}
		})
	}
}

// A VM that is off takes its files along. What is no file of its host's stays, and so does the VM.
func TestDomainBlockers_ofAStoppedVM(t *testing.T) {
	t.Parallel()
	m := VM{UUID: "u", State: libvirt.Shutoff, Mobility: facts(t, "",
		`<hostdev type='pci'/><tpm><backend type='emulator'/></tpm>`+
			`<disk type='network'><source protocol='nbd'/><target dev='vda'/></disk>`+
			`<disk type='file' device='cdrom'><target dev='sda'/></disk>`+
			`<disk type='file'><source file='/a'/><target dev='vdb'/></disk>`+
			`<disk type='file'><source file='/b'/><target dev='vdc'/><shareable/></disk>`)}
	m.Mobility.NVRAM = "/n"
	if got := DomainBlockers(m); len(got) > 0 {
		t.Errorf("blockers: %+v", got)
	}
	copied, shared := Options{}.splitLocalFiles(m)
	if diff := cmp.Diff([]string{"/a", "/n", "/var/lib/libvirt/swtpm/u"}, pathsOf(copied)); diff != "" {
		t.Errorf("what it takes along differs (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"/b"}, pathsOf(shared)); diff != "" {
		t.Errorf("what it needs to find there differs (-want +got):\n%s", diff)
	}

	m = VM{State: libvirt.Shutoff, ManagedSave: true, Mobility: facts(t, "",
		`<tpm><backend type='emulator'><encryption secret='s'/></backend></tpm>`+
			`<disk type='block'><source dev='/dev/sdb'/><target dev='vda'/></disk>`+
			`<disk type='volume'><source pool='p' volume='v'/><target dev='vdb'/></disk>`)}
	m.Mobility.NVRAMOther = "block"
	session := VM{Session: true, State: libvirt.Shutoff, Mobility: facts(t, "", `<tpm><backend type='emulator'/></tpm>`)}
	session.Mobility.NVRAMUnnamed = true
	if got := reasons(DomainBlockers(session)); len(got) != 2 {
		t.Errorf("of a user's daemon: %v", got)
	}
	got := DomainBlockers(m)
	want := []string{
		ManagedSaveNotMigratable + " False", NVRAMNotMigratable + " False", TPMNotMigratable + " False",
		DisksNotLiveMigratable + " False", DisksNotLiveMigratable + " False",
	}
	if diff := cmp.Diff(want, reasons(got)); diff != "" {
		t.Errorf("blockers differ (-want +got):\n%s", diff)
	}
	if i := slices.IndexFunc(got, func(b Blocker) bool { return b.Attribute == "disks.vda" }); i < 0 {
		t.Errorf("no blocker of disk vda: %+v", got)
	}
}

// What a stopped VM keeps in persistent memory stays behind, unless the hosts share the file.
func TestCheckPersistentMemory(t *testing.T) {
	t.Parallel()
	m := VM{State: libvirt.Shutoff, Mobility: facts(t, "",
		`<memory model='nvdimm'><source><path>/srv/n</path></source></memory><memory model='dimm'/>`)}
	var apart, shared blockerList
	preflight{vm: m}.checkPersistentMemory(&apart)
	preflight{vm: m, options: Options{SharedFilesystems: []string{"/srv"}}}.checkPersistentMemory(&shared)
	if got := reasons(apart); !slices.Equal(got, []string{DisksNotLiveMigratable + " False"}) || len(shared) > 0 {
		t.Errorf("apart: %v, shared: %v", got, reasons(shared))
	}
}

// A blocker names the attribute that declares the device, so that a plan shows where to change it.
func TestDomainBlockers_attributes(t *testing.T) {
	t.Parallel()
	blockers := DomainBlockers(VM{State: libvirt.Running, Mobility: facts(t,
		`<features><hyperv mode='passthrough'/></features>`, `<hostdev mode='subsystem' type='usb'><source>`+
			`<vendor id='0x1234'/><product id='0xbeef'/></source><alias name='ua-host-device-key'/></hostdev>`+
			`<interface type='vdpa'><source dev='/dev/v'/><alias name='ua-net-fast'/></interface>`+
			`<disk type='nvme'><target dev='vda'/><alias name='ua-disk-root'/></disk><smartcard mode='host'/>`+
			`<input type='evdev'><source dev='/dev/input/event1'/><alias name='ua-input-keys'/></input>`+
			`<tpm><backend type='passthrough'/></tpm>`+
			`<filesystem><driver type='virtiofs'/><target dir='a'/><alias name='ua-filesystem-fast'/></filesystem>`+
			`<filesystem><target dir='b'/><alias name='ua-filesystem-slow'/></filesystem>`+
			`<memory model='nvdimm'><source><path>/n</path></source><alias name='ua-nvdimm-store'/></memory>`+
			`<memory model='virtio-pmem'><source><path>/p</path></source><alias name='ua-extra-log'/></memory>`)})
	var got []string
	for _, b := range blockers {
		got = append(got, b.Attribute)
	}
	slices.Sort(got)
	want := []string{
		"devices.filesystems.fast", "devices.filesystems.slow", "devices.host_devices.key", "devices.inputs.keys",
		"devices.nvdimms.store", "devices.smartcard", "devices.tpm", "disks.root", "extra_device_xml.log",
		"extra_device_xml.log", "interfaces.fast", "platform.hyperv.mode",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("attributes differ (-want +got):\n%s", diff)
	}
}

// What QEMU says comes along with what the definition says, in its own words; what it can't say is a doubt.
func TestDomainBlockers_ofQEMU(t *testing.T) {
	t.Parallel()
	m := VM{State: libvirt.Running, BlockedReasons: []string{"device 'a' can't.", "nor can 'b'"}}
	blockers := DomainBlockers(m)
	want := []string{QEMUNotLiveMigratable + " False", QEMUNotLiveMigratable + " False"}
	diff := cmp.Diff(want, reasons(blockers))
	if diff != "" || !strings.HasSuffix(blockers[0].Message, ": device 'a' can't") {
		t.Errorf("%+v %s", blockers, diff)
	}
	m = VM{State: libvirt.Running, BlockedReasonsError: libvirt.ErrBusy}
	if got := reasons(DomainBlockers(m)); !slices.Equal(got, []string{QEMUNotLiveMigratable + " Unknown"}) {
		t.Errorf("%q", got)
	}
}

// Of a file that no storage pool shows, only what runs tells what it is based on. A chain is not copied.
func TestCheckUnlistedFile_chains(t *testing.T) {
	t.Parallel()
	source, err := libvirt.Open(libvirt.Config{Name: "kvm1", URI: "test:///default"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := source.Close(); err != nil {
			t.Error(err)
		}
	})
	disk := func(format string, backing ...domain.BackingImage) domain.Mobility {
		return domain.Mobility{Disks: []domain.MobileDisk{{Key: "root", Path: "/srv/root", Format: format, Backing: backing}}}
	}
	base := domain.BackingImage{Path: "/srv/base", Format: "qcow2"}
	turnedOff := func(backing ...domain.BackingImage) VM {
		return VM{State: libvirt.Running, Mobility: disk("qcow2", backing...)}.TurnedOff(disk("qcow2"))
	}
	for name, tt := range map[string]struct {
		vm   VM
		want []string
	}{
		"raw":                  {VM{Mobility: disk("raw")}, nil},
		"off":                  {VM{Mobility: disk("qcow2")}, []string{DisksNotLiveMigratable + " Unknown"}},
		"ran":                  {turnedOff(), nil},
		"ran, on a file":       {turnedOff(base), []string{DisksNotLiveMigratable + " False"}},
		"ran, on another kind": {turnedOff(domain.BackingImage{}), []string{DisksNotLiveMigratable + " False"}},
	} {
		var found blockerList
		fits := preflight{vm: tt.vm, source: source}.checkUnlistedFile(&found, tt.vm.localFiles()[0])
		if got := reasons(found); !slices.Equal(got, tt.want) || fits != (len(Blocking(found)) == 0) {
			t.Errorf("%s: %t, %q, want %q", name, fits, got, tt.want)
		}
	}
}
