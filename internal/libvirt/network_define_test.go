package libvirt

import (
	"strings"
	"testing"
)

// TestNetwork_isDefinedStartedAndChanged with libvirt's own test driver.
func TestNetwork_isDefinedStartedAndChanged(t *testing.T) {
	t.Parallel()
	h, err := Open(Config{Name: "local", URI: "test:///default"})
	must(t, err)
	t.Cleanup(func() { _ = h.Close() })
	const name = "define-start-change"
	document := func(uuid, bridge string) string {
		return "<network><name>" + name + "</name><uuid>" + uuid + "</uuid><bridge name='" + bridge + "'/>" +
			"<ip address='192.168.77.1' prefix='24'><dhcp><range start='192.168.77.2' end='192.168.77.9'/></dhcp></ip></network>"
	}
	const uuid, other = "5d2f1c8e-3b0a-4e0e-9d7c-0c9a2b7f1a11", "5d2f1c8e-3b0a-4e0e-9d7c-0c9a2b7f1a12"
	_, err = h.Network(t.Context(), name)
	want(t, err, ErrNotFound)
	must(t, h.DefineNetwork(t.Context(), document(uuid, "virbr77")))
	want(t, h.DefineNetwork(t.Context(), document(other, "virbr78")), ErrExists)
	want(t, h.DefineNetwork(t.Context(), "<network><name>x</name><nonsense/></network>"), ErrInvalid)
	must(t, h.SetNetworkAutostart(t.Context(), name, true))
	n, err := h.Network(t.Context(), name)
	must(t, err)
	if n.Active || !n.Persistent || !n.Autostart || n.UUID != uuid || n.LiveXML != "" {
		t.Errorf("defined: %+v", n)
	}
	must(t, h.StartNetwork(t.Context(), name))
	want(t, h.StartNetwork(t.Context(), name), ErrOperationInvalid)
	must(t, h.UpdateNetwork(t.Context(), name, NetworkUpdate{
		Command: NetworkAdd, Section: NetworkDHCPHost, Parent: 0, XML: "<host mac='52:54:00:00:00:77' ip='192.168.77.5'/>",
	}, true, true))
	n, err = h.Network(t.Context(), name)
	must(t, err)
	if !n.Active || !strings.Contains(n.LiveXML, "192.168.77.5") || !strings.Contains(n.PersistentXML, "192.168.77.5") {
		t.Errorf("updated: %+v", n)
	}
	must(t, h.StopNetwork(t.Context(), name))
	must(t, h.UndefineNetwork(t.Context(), name))
	want(t, h.UndefineNetwork(t.Context(), name), ErrNotFound)
}
