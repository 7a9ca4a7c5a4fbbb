package libvirt

import (
	"context"
	"fmt"
	"strings"
	"testing"

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
	asked := func() int { return h.Calls()["virDomainDetachDeviceFlags"] }
	before := asked()
	short, expire := expires(t)
	result := make(chan error, 1)
	go func() { result <- h.DetachDevice(short, uuid, disk, AffectLive) }()
	eventually(t, "it to be asked for", func() bool { return asked() > before })
	expire()
	err := <-result
	want(t, err, ErrBusy)
	want(t, err, context.DeadlineExceeded)
	must(t, h.ResumeDomain(ctx, uuid))
	must(t, h.DetachDevice(ctx, uuid, disk, AffectLive))
}
