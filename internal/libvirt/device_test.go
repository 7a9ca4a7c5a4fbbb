package libvirt

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	golibvirt "libvirt.org/go/libvirt"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

// labHost opens one of the lab's shared hosts through a relay, as over SSH but without the SSH.
func TestDevices_areAttachedAndDetached(t *testing.T) {
	t.Parallel()
	h, l, machine := labHost(t)
	// A guest that is busy may take longer to let go of a device than there is by default.
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	path := l.Image(t, machine.Name, lab.Name(t)+".img", "raw", 1<<20)
	uuid, _ := startGuest(t, h, l, "")
	disk := fmt.Sprintf(`<disk type='file' device='disk'><driver name='qemu' type='raw'/><source file='%s'/>`+
		`<target dev='vdb' bus='virtio'/><alias name='ua-disk-data'/></disk>`, path)
	const both = AffectLive | AffectConfig
	has := func() (live, persistent bool) {
		d, err := h.Domain(ctx, uuid)
		must(t, err)
		return strings.Contains(d.LiveXML, path), strings.Contains(d.PersistentXML, path)
	}
	must(t, h.AttachDevice(ctx, uuid, disk, both))
	if live, persistent := has(); !live || !persistent {
		t.Fatalf("attached to live %t, persistent %t", live, persistent)
	}
	want(t, h.AttachDevice(ctx, uuid, disk, AffectLive), ErrUnsupported)
	must(t, h.DetachDevice(ctx, uuid, disk, both))
	if live, persistent := has(); live || persistent {
		t.Fatalf("still in live %t, persistent %t", live, persistent)
	}
	must(t, h.DetachDevice(ctx, uuid, disk, both))

	// A paused guest can't let go.
	must(t, h.AttachDevice(ctx, uuid, disk, AffectLive))
	must(t, h.SuspendDomain(ctx, uuid))
	looked := func() int { return h.Calls()["virDomainGetXMLDesc"] }
	before := looked()
	short, expire := expires(t)
	result := make(chan error, 1)
	go func() { result <- h.DetachDevice(short, uuid, disk, AffectLive) }()
	// It is looked for once before the guest is asked, and then again and again.
	eventually(t, "it to be awaited", func() bool { return looked() > before+1 })
	expire()
	err := <-result
	want(t, err, ErrNotReleased)
	want(t, err, context.DeadlineExceeded)
	must(t, h.ResumeDomain(ctx, uuid))
	must(t, h.DetachDevice(ctx, uuid, disk, AffectLive))
}

// TestDevices_mediumOfALockedDrive: a guest that has its drive locked is asked again, until it lets the tray open.
func TestDevices_mediumOfALockedDrive(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	machine := l.StartHost(t)
	h := open(t, Config{Name: machine.Name, URI: machine.URI(), Dial: linkTo(machine).Dial})
	first := l.Image(t, machine.Name, lab.Name(t)+"-1.img", "raw", 1<<20)
	second := l.Image(t, machine.Name, lab.Name(t)+"-2.img", "raw", 1<<20)
	drive := func(path string) string {
		return fmt.Sprintf(`<disk type='file' device='cdrom'><driver name='qemu' type='raw'/><source file='%s'/>`+
			`<target dev='sda' bus='scsi'/><readonly/></disk>`, path)
	}
	uuid, name := startGuest(t, h, l, "<controller type='scsi' model='virtio-scsi'/>"+drive(first))
	holds := func(path string) bool {
		d, err := h.Domain(t.Context(), uuid)
		must(t, err)
		return strings.Contains(d.LiveXML, path)
	}
	// A program that has the drive open keeps it locked. The guest finds the drive after its agent has started, and may
	// refuse to open it until it knows what is in it.
	lock := func() {
		_, err := h.AgentCommand(t.Context(), uuid, `{"execute":"guest-exec","arguments":{"path":"/bin/sh",`+
			`"arg":["-c","until (exec 4</dev/sr0; : >/run/locked; while [ -e /run/locked ]; do sleep 1; done); `+
			`do sleep 1; done"]}}`)
		must(t, err)
		eventually(t, "the drive to be open in the guest", func() bool { return runs(t, h, uuid, "test -e /run/locked") })
	}
	lock()

	asked := func() int { return h.Calls()["virDomainUpdateDeviceFlags"] }
	short, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() { result <- h.ChangeMedium(short, uuid, drive(second)) }()
	eventually(t, "it to be asked twice", func() bool { return asked() > 1 })
	// While libvirt waits for the tray, it says that the new medium is in the drive.
	eventually(t, "the second medium to be there", func() bool { return holds(second) })
	settled, err := h.SettledDomain(t.Context(), uuid)
	must(t, err)
	if !strings.Contains(settled.LiveXML, first) {
		t.Errorf("the guest still has the first medium; read was %s", settled.LiveXML)
	}
	cancel()
	if err := <-result; err == nil {
		t.Fatal("a locked drive took another medium")
	}
	must(t, h.AwaitChanges(t.Context(), uuid))
	if !holds(first) {
		t.Error("the drive lacks the first medium")
	}

	before := asked()
	go func() { result <- h.ChangeMedium(t.Context(), uuid, drive(second)) }()
	eventually(t, "it to be asked again", func() bool { return asked() > before+1 })
	runs(t, h, uuid, "rm /run/locked")
	must(t, <-result)
	if !holds(second) {
		t.Error("the drive lacks the second medium")
	}

	// Its process ends while it is awaited. A domain that is off is settled.
	lock()
	short, cancel = context.WithCancel(t.Context())
	defer cancel()
	go func() { result <- h.ChangeMedium(short, uuid, drive(first)) }()
	eventually(t, "the first medium to be there", func() bool { return holds(first) })
	awaited := func() int { return h.Calls()["virDomainGetDiskErrors"] }
	calls := awaited()
	off := make(chan error, 1)
	go func() {
		d, err := h.SettledDomain(t.Context(), uuid)
		if err == nil && d.Active() {
			err = fmt.Errorf("it is %s", d.State)
		}
		off <- err
	}()
	eventually(t, "it to be awaited", func() bool { return awaited() > calls })
	cancel()
	must(t, machine.FreezeQEMU(t.Context(), name))
	eventually(t, "the process to be asked", func() bool {
		now, err := onDomain(t.Context(), h, readCall("looking at the domain"), uuid,
			func(c *conn, d *golibvirt.Domain) (control, error) { return c.control(d), nil })
		must(t, err)
		return now == occupied || now == hangs
	})
	must(t, machine.KillQEMU(t.Context(), name))
	must(t, <-off)
}

// runs says whether a command succeeds in the guest.
func runs(t testing.TB, h *Host, uuid, command string) bool {
	t.Helper()
	answer, err := h.AgentCommand(t.Context(), uuid, fmt.Sprintf(
		`{"execute":"guest-exec","arguments":{"path":"/bin/sh","arg":["-c",%q],"capture-output":true}}`, command))
	must(t, err)
	pid := between(answer, `"pid":`, "}")
	eventually(t, "the command to end", func() bool {
		answer, err = h.AgentCommand(t.Context(), uuid,
			`{"execute":"guest-exec-status","arguments":{"pid":`+strings.TrimSpace(pid)+`}}`)
		must(t, err)
		return strings.Contains(answer, `"exited":true`)
	})
	return strings.Contains(answer, `"exitcode":0`)
}

// TestHost_refusesPlaceholders: neither a definition nor a device gets a value that only stands for another one. A
// definition that has it already can be changed.
func TestHost_refusesPlaceholders(t *testing.T) {
	t.Parallel()
	const placeholder = "/not-known"
	document := func(file string) string {
		return strings.Replace(testDomain("web", uuidOf(1)), "</domain>", fmt.Sprintf(
			`<devices><disk type="file"><source file='%s'/><target dev="vda" bus="virtio"/></disk></devices></domain>`, file), 1)
	}
	h := testDriver(t, document(placeholder))
	h.cfg.Placeholders = []string{placeholder}
	before, err := h.CompleteXML(t.Context(), uuidOf(1))
	must(t, err)
	redefine := func(xml, present string) error {
		_, err := h.RedefineDomain(t.Context(), xml, present)
		return err
	}
	must(t, redefine(before, before))
	must(t, redefine(document("/data"), before))
	must(t, redefine(document("/srv"+placeholder), before))
	present, err := h.CompleteXML(t.Context(), uuidOf(1))
	must(t, err)
	device := `<disk type="file"><source file="` + placeholder + `"/><target dev="vdb" bus="virtio"/></disk>`
	_, err = h.DefineDomain(t.Context(), document(placeholder))
	for what, err := range map[string]error{
		"define": err, "redefine": redefine(document(placeholder), present),
		"attach": h.AttachDevice(t.Context(), uuidOf(1), device, AffectLive),
		"update": h.UpdateDevice(t.Context(), uuidOf(1), device, AffectLive),
	} {
		if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "only stands for") {
			t.Errorf("%s: %v", what, err)
		}
	}
	after, err := h.CompleteXML(t.Context(), uuidOf(1))
	if must(t, err); after != present {
		t.Errorf("it was changed to\n%s", after)
	}
}
