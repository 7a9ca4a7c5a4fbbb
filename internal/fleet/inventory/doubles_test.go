package inventory

import (
	"fmt"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// Two running VMs of one name with one disk are two copies of one VM, although they have two UUIDs: one was created
// while the other's host was away. A copy that is off, that only has the name, or that shares its disk on purpose
// isn't one.
func TestListed_twoCopiesWithTwoUUIDs(t *testing.T) {
	t.Parallel()

	const other = "6a5d3b62-6f0e-4b6e-9d59-0a6d3c1f7a12"

	export := func(name, more string) string {
		return `<disk type='network'><source protocol='nbd' name='` + name + `'>` +
			`<host name='10.0.0.1' port='10809'/></source><target dev='vda' bus='virtio'/>` + more + `</disk>`
	}
	file := `<disk type='file'><source file='/srv/web.img'/><target dev='vda' bus='virtio'/></disk>`
	reply := func(host, uuid, name, disk string, state libvirt.DomainState) Reply {
		xml := fmt.Sprintf("<domain type='qemu'><name>%s</name><uuid>%s</uuid><devices>%s</devices></domain>",
			name, uuid, disk)

		d := libvirt.Domain{UUID: uuid, Name: name, State: state, Persistent: true, PersistentXML: xml}
		if d.Active() {
			d.LiveXML = xml
		}

		info := &libvirt.HostInfo{UUID: "uuid-of-" + host}

		return Reply{
			Host: &Host{Name: host}, Info: info, View: NewView(info, map[string]*Entry{uuid: NewEntry(d)}),
		}
	}

	for _, test := range []struct {
		what, name, disk string
		state            libvirt.DomainState
		want             status.ConditionStatus
	}{
		{"the same disk", "web", export("web", ""), libvirt.Running, status.True},
		{"paused", "web", export("web", ""), libvirt.Paused, status.True},
		{"off", "web", export("web", ""), libvirt.Shutoff, status.False},
		{"another disk", "web", export("web-2", ""), libvirt.Running, status.False},
		{"another name", "mail", export("web", ""), libvirt.Running, status.False},
		{"a disk that only one declares as shareable", "web", export("web", "<shareable/>"), libvirt.Running, status.True},
		{"a file of that path on its own host", "web", file, libvirt.Running, status.False},
	} {
		machines, _ := listed([]Reply{
			reply("kvm1", vmUUID, "web", export("web", ""), libvirt.Running),
			reply("kvm2", other, test.name, test.disk, test.state),
		}, nil)

		if len(machines) != 2 {
			t.Fatalf("%s: %d VMs", test.what, len(machines))
		}

		for _, m := range machines {
			c := status.ConditionOf(m.Facts(), status.TwoCopies)
			if c.Status != test.want {
				t.Errorf("%s: %s on %s: %+v", test.what, m.Name, m.VM.Host, c)
			}
		}
	}
}
