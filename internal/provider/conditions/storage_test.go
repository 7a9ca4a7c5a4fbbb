package conditions_test

import (
	"context"
	"path"
	"regexp"
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccConditions_diskIsGone: that the size of a disk can be told proves nothing. A QEMU continues with a file that
// was removed, and of a VM that is off libvirt doesn't look into the file: what isn't an image, and what an image is
// based on, only a start would find. What can't be known is unknown.
func TestAccConditions_diskIsGone(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	// On a host that others use, its pool is read again at any time.
	own := l.StartHost(t)
	host := own.Name
	define := func(devices string) *testVM {
		m := define(t, l, host, "", devices)
		m.config(acctest.Block{Lab: l, Hosts: []acctest.Host{{Of: own}, {Of: l.Host("kvm2")}}}.String(), "")
		return m
	}
	name := lab.Name(t)
	disk := func(file, format, target string) string {
		return `<disk type="file" device="disk"><driver name="qemu" type="` + format + `"/><source file="` + file +
			`"/><target dev="` + target + `" bus="virtio"/></disk>`
	}
	ready := func(m *testVM, layer string) {
		t.Helper()
		m.look().condition("DataVolumesReady", "True", "AllDVsReady", layer, "^$")
	}
	notReady := func(m *testVM, status, message string) {
		t.Helper()
		m.look().condition("DataVolumesReady", status, "NotAllDVsReady", "libvirt", message)
	}
	startFails := func(m *testVM) {
		t.Helper()
		if _, err := l.TryVirsh(t, host, "start", m.name); err == nil {
			t.Error("it starts all the same")
		}
	}

	image := l.Image(t, host, name+".qcow2", "qcow2", 8<<20)
	raw := l.Image(t, host, name+".raw", "raw", 8<<20)
	base := l.Image(t, host, name+".base", "qcow2", 8<<20)
	overlay := l.Image(t, host, name+".overlay", "qcow2", 8<<20)
	l.Run(t, host, "qemu-img", "create", "-q", "-f", "qcow2", "-F", "qcow2", "-b", path.Base(base), overlay)
	m := define(disk(image, "qcow2", "vda") + disk(raw, "raw", "vdb") + disk(overlay, "qcow2", "vdc"))
	// No pool has the kernel, so it is unknown whether other hosts have it.
	kernel := regexp.MustCompile(`(?s)<kernel>.*</cmdline>`)
	l.Define(t, host, kernel.ReplaceAllString(m.virsh("dumpxml", "--inactive", m.name), ""))
	ready(m, "libvirt")
	m.virsh("start", m.name)
	s := m.look()
	s.condition("DataVolumesReady", "True", "AllDVsReady", "qemu", "^$")
	// The files are this host's alone: it can't move without them, and with them it can.
	s.condition("LiveMigratable", "False", "DisksNotLiveMigratable", "libvirt", "vda")
	s.condition("StorageLiveMigratable", "True", "Migratable", "libvirt", "^$")
	l.Run(t, host, "rm", image, raw)
	notReady(m, "False", `^disk "vda": .*`+regexp.QuoteMeta(image)+`.*; disk "vdb": .*`+regexp.QuoteMeta(raw)+`[^;]*$`)
	m.virsh("destroy", m.name)
	startFails(m)

	m = define(disk(overlay, "qcow2", "vda"))
	l.Run(t, host, "mv", base, base+".away")
	notReady(m, "False", `^disk "vda": .*`+regexp.QuoteMeta(base))
	startFails(m)
	l.RefreshPool(t, host)
	notReady(m, "Unknown", `^disk "vda": no active storage pool .* `+regexp.QuoteMeta(base))
	l.Run(t, host, "mv", base+".away", base)
	l.RefreshPool(t, host)
	ready(m, "libvirt")

	l.Run(t, host, "dd", "if=/dev/zero", "of="+overlay, "bs=64k", "count=1")
	notReady(m, "False", `^disk "vda": .*`+regexp.QuoteMeta(overlay)+" is not a qcow2 image")
	startFails(m)

	// Where no pool is, QEMU knows that it has the file open, but not whether it is still there. Raw files libvirt
	// opens itself.
	dir := "/var/lib/libvirt/" + name
	l.Run(t, host, "mkdir", dir)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
		defer cancel()
		if _, err := l.Host(host).Run(ctx, "rm", "-r", dir); err != nil {
			t.Error(err)
		}
	})
	l.Run(t, host, "qemu-img", "create", "-q", "-f", "qcow2", dir+"/qcow2", "1M")
	l.Run(t, host, "qemu-img", "create", "-q", "-f", "raw", dir+"/raw", "1M")
	m = define(disk(dir+"/raw", "raw", "vda"))
	ready(m, "libvirt")
	m.virsh("start", m.name)
	ready(m, "qemu")
	m = define(disk(dir+"/qcow2", "qcow2", "vda"))
	m.virsh("start", m.name)
	notReady(m, "Unknown", `^disk "vda": no active storage pool .* `+dir+"/qcow2")
}
