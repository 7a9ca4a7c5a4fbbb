package migration

import (
	"fmt"
	"path"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

// What no definition tells is asked of the hosts: whether a VM has snapshots and its disks are being copied, and
// whether the target has the CPU and the machine type that the guest was started with.
func TestLab_hostsTellWhatIsInTheWay(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	here, there := l.Host("kvm1"), l.Host("kvm2")
	source, target := open(t, here), open(t, there)
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	base := image(t, l, here, path.Join(images, name+".qcow2"), "qcow2", "16M")
	l.Run(t, here.Name, "qemu-io", "-f", "qcow2", "-c", "write -q -P 7 0 8M", base)
	top := image(t, l, here, path.Join(images, name+".top"), "qcow2", "-b", base, "-F", "qcow2")
	l.Define(t, here.Name, fmt.Sprintf(`<domain type='qemu'><name>%s</name><memory unit='MiB'>32</memory>
  <os><type arch='x86_64' machine='q35'>hvm</type></os><cpu mode='custom' match='exact'><model>qemu64</model></cpu>
  <devices><disk type='file' device='disk'><driver name='qemu' type='qcow2' cache='none'/><source file='%s'/>
    <target dev='vda' bus='virtio'/></disk></devices></domain>`, name, base))
	l.Virsh(t, here.Name, "start", name)
	uuid := strings.TrimSpace(l.Virsh(t, here.Name, "domuuid", name))
	blocks := func(what string, change func(*VM), want ...string) {
		t.Helper()
		m, err := Inspect(t.Context(), source, uuid, true)
		if err != nil {
			t.Fatal(err)
		}
		if change != nil {
			change(&m)
		}
		blockers, err := CheckHosts(t.Context(), m, source, target, Options{CopyStorage: CopyFull})
		if err != nil {
			t.Fatal(err)
		}
		for i := range want {
			want[i] += " False"
		}
		if diff := cmp.Diff(want, reasons(Blocking(blockers))); diff != "" {
			t.Errorf("%s: blockers differ (-want +got):\n%s\n%+v", what, diff, blockers)
		}
	}
	blocks("nothing", nil)
	blocks("a machine type of another QEMU", func(m *VM) { m.Mobility.Machine = "pc-q35-99.0" }, HypervisorNotCompatible)
	blocks("a type that is not there", func(m *VM) { m.Mobility.Type = "xen" }, HypervisorNotCompatible)
	blocks("a TPM that is not there", func(m *VM) {
		m.Mobility.Values = domain.Values{"devices.tpm.model": "tpm-spapr", "devices.tpm.backend": "emulator"}
	}, HypervisorNotCompatible)
	filtered := func(m *VM) {
		m.Mobility.Interfaces = []domain.MobileInterface{
			{Key: "lan", Type: "user", Filter: name}, {Key: "san", Type: "user", Filter: name},
		}
	}
	before := target.Calls()
	blocks("a network filter that is not there", filtered, NetworkNotAvailable, NetworkNotAvailable)
	if err := target.DefineNWFilter(t.Context(), "<filter name='"+name+"' chain='root'/>"); err != nil {
		t.Fatal(err)
	}
	blocks("a network filter that is there", filtered)
	calls := target.Calls()
	for call, want := range map[string]int{"virNWFilterLookupByName": 2, "virNWFilterGetXMLDesc": 0} {
		if n := calls[call] - before[call]; n != want {
			t.Errorf("two moves of a VM with a network filter take %d %s; want %d", n, call, want)
		}
	}
	if err := target.UndefineNWFilter(t.Context(), name); err != nil {
		t.Error(err)
	}
	blocks("a CPU that is not there", func(m *VM) {
		m.Mobility.CPU = `<cpu mode='custom' match='exact'><model>qemu64</model>` +
			`<feature policy='require' name='avx512f'/></cpu>`
	}, CPUNotCompatible)

	l.Virsh(t, here.Name, "snapshot-create-as", name, "before", "--disk-only", "--reuse-external", "--diskspec",
		"vda,file="+top)
	blocks("a snapshot", nil, SnapshotsNotMigratable)
	l.Virsh(t, here.Name, "snapshot-delete", name, "before", "--metadata")
	// So slow that it lasts until it is told to end.
	l.Virsh(t, here.Name, "blockpull", name, "vda", "--bytes", "--bandwidth", "1024")
	blocks("a copy job", nil, BlockJobsNotLiveMigratable)
	l.Virsh(t, here.Name, "blockjob", name, "vda", "--abort")
	blocks("nothing any more", nil)
}

// A disk that the definition names as a volume of a storage pool isn't copied, whatever copy_storage says: libvirt
// looks it up in the target's pool of that name. What the target lacks blocks the move, and the remedy is one that
// helps.
func TestLab_volumesOfPoolsAreLookedUpThere(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	here, there := l.Host("kvm1"), l.Host("kvm2")
	source, target := open(t, here), open(t, there)
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	file := image(t, l, here, path.Join(images, name+".qcow2"), "qcow2", "16M")
	l.Define(t, here.Name, fmt.Sprintf(`<domain type='qemu'><name>%s</name><memory unit='MiB'>32</memory>
  <os><type arch='x86_64' machine='q35'>hvm</type></os>
  <devices><disk type='volume' device='disk'><driver name='qemu' type='qcow2' cache='none'/>
    <source pool='default' volume='%s'/><target dev='vda' bus='virtio'/></disk></devices></domain>`,
		name, path.Base(file)))
	l.Virsh(t, here.Name, "start", name)
	uuid := strings.TrimSpace(l.Virsh(t, here.Name, "domuuid", name))
	check := func(what, want, message string) {
		t.Helper()
		m, err := Inspect(t.Context(), source, uuid, true)
		if err != nil {
			t.Fatal(err)
		}
		for _, copying := range []string{CopyNone, CopyFull} {
			blockers, err := CheckHosts(t.Context(), m, source, target, Options{CopyStorage: copying})
			if err != nil || len(blockers) != 1 || reasons(blockers)[0] != DisksNotLiveMigratable+" "+want ||
				!strings.Contains(blockers[0].Message, message) {
				t.Errorf("%s, copy_storage %s: %+v, %v; want %s: %s", what, copying, blockers, err, want, message)
				continue
			}
			if remedy := `disks.vda.file = "` + file + `"`; !strings.Contains(blockers[0].Remedy, remedy) {
				t.Errorf("%s: remedy %q; want %s", what, blockers[0].Remedy, remedy)
			}
		}
	}
	check("none", "False", `host "kvm2" has no such volume`)
	image(t, l, there, file, "qcow2", "8M")
	check("another size", "False", `on host "kvm2" that is another volume`)
	l.Run(t, there.Name, "qemu-img", "resize", "-q", file, "16M")
	l.RefreshPool(t, there.Name)
	check("the same size", "Unknown", `whether it is the same storage is unknown`)
}
