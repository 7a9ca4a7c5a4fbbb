package libvirt

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

// labHost opens one of the lab's shared hosts through a relay, as over SSH but without the SSH.
func TestVolumeByPath_findsPoolVolumes(t *testing.T) {
	t.Parallel()
	h, l, machine := labHost(t)
	name := lab.Name(t) + ".qcow2"
	path := l.Image(t, machine.Name, name, "qcow2", 8<<20)
	v, err := h.VolumeByPath(t.Context(), path)
	must(t, err)
	expected := Volume{
		Path: path, Name: name, Pool: "default", Type: "file", Format: "qcow2", CapacityBytes: 8 << 20,
		AllocationBytes: v.AllocationBytes, PhysicalBytes: v.PhysicalBytes, Changed: v.Changed, Modified: v.Modified,
		Mode: "0644", Owner: "0", Group: "0", PoolType: "dir",
	}
	if v.PhysicalBytes == 0 || !strings.Contains(v.Changed, ".") || !strings.Contains(v.Modified, ".") {
		t.Errorf("%d bytes long, changed at %q, modified at %q", v.PhysicalBytes, v.Changed, v.Modified)
	}
	if diff := cmp.Diff(expected, *v); diff != "" {
		t.Error(diff)
	}
	_, err = h.VolumeByPath(t.Context(), path+".absent")
	want(t, err, ErrNotFound)
}

func TestNetworks_areDescribed(t *testing.T) {
	t.Parallel()
	h, l, machine := labHost(t)
	name := lab.Name(t)
	file := machine.Path("/var/lib/libvirt/images/" + name + ".xml")
	document := fmt.Sprintf("<network><name>%s</name><forward mode='bridge'/><bridge name='%s'/></network>",
		name, lab.LANBridge)
	must(t, os.WriteFile(file, []byte(document), 0o600))
	t.Cleanup(func() { _ = os.Remove(file) })
	l.Virsh(t, machine.Name, "net-define", "/var/lib/libvirt/images/"+name+".xml")
	t.Cleanup(func() { _, _ = machine.Virsh(context.WithoutCancel(t.Context()), "net-undefine", name) })
	networks, err := h.Networks(t.Context())
	must(t, err)
	found := false
	for _, n := range networks {
		if n.Name == name {
			found = true
			expected := Network{
				Name: name, UUID: n.UUID, Bridge: lab.LANBridge, ForwardMode: "bridge",
				XML: l.Virsh(t, machine.Name, "net-dumpxml", name),
			}
			n.XML, expected.XML = strings.TrimSpace(n.XML), strings.TrimSpace(expected.XML)
			if diff := cmp.Diff(expected, n); diff != "" {
				t.Error(diff)
			}
		}
	}
	if !found {
		t.Errorf("got %v", networks)
	}
}

func TestBridgeExists_knowsTheHostsDevices(t *testing.T) {
	t.Parallel()
	h, _, _ := labHost(t)
	for name, expected := range map[string]bool{lab.LANBridge: true, "eth0": true, "nonsense0": false} {
		exists, known, err := h.BridgeExists(t.Context(), name)
		if exists != expected || !known || err != nil {
			t.Errorf("%s: got exists %t, known %t, %v", name, exists, known, err)
		}
	}
}
