package exporter

import (
	"fmt"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/ops/opstest"
)

// TestLab_readOnlyAccount: monitoring needs no account that could change a host. libvirt's read-only socket, which
// every user may open, is enough for it; libvirt refuses it secrets, and they aren't asked for.
func TestLab_readOnlyAccount(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	h := l.StartHost(t)
	name := opstest.VM(t, l, h, "")
	const socket = "/run/libvirt/libvirt-sock-ro"
	l.Run(t, h.Name, "setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups",
		"virsh", "--connect", "qemu+unix:///system?socket="+socket, "domstate", name)

	// What libvirt would refuse on this socket.
	path := "qemu+unix:///system?socket=" + h.Path(socket)
	r := start(t, opstest.ConfigOf(l, l.KnownHostsFile(), map[string]string{h.Name: path}))
	all, _ := r.scrape()
	vm, node := fmt.Sprintf("name=%q", name), fmt.Sprintf("node=%q", h.Name)
	if got := all.one(t, "virtfleet_host_up", node); got != 1 {
		t.Errorf("the host is up: %v; %s", got, r.log)
	}
	all.one(t, "virtfleet_vm_condition", vm, `type="Ready"`, `status="True"`)
	all.one(t, "kubevirt_vmi_info", vm, `phase="running"`)
	all.one(t, "kubevirt_vmi_storage_iops_read_total", vm, `drive="root"`)
	all.one(t, "virtfleet_host_memory_committed_bytes", node)
	// Stopping is told by an event.
	l.Virsh(t, h.Name, "suspend", name)
	all, _ = r.scrape()
	all.one(t, "virtfleet_vm_condition", vm, `type="Paused"`, `reason="PausedByUser"`)
	if strings.Contains(r.log.String(), "level=ERROR") {
		t.Error(r.log)
	}
}
