package observe

import (
	"errors"
	"maps"
	"reflect"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// TestHosts_askWhatIsAskedFor: what costs a host further questions is asked only of those hosts, and only for those
// parts, that the question names.
func TestHosts_askWhatIsAskedFor(t *testing.T) {
	t.Parallel()

	ob := observer(t, map[string]inventory.HostConfig{
		"local": {URI: "test:///default", Labels: map[string]string{"zone": "a"}},
	})

	asked := func(q HostQuestion) map[string]int {
		t.Helper()

		before := ob.hosts.Configured[0].Conn.Calls()

		if _, err := ob.Hosts(t.Context(), q); err != nil {
			t.Fatal(err)
		}

		calls := ob.hosts.Configured[0].Conn.Calls()
		maps.DeleteFunc(calls, func(name string, n int) bool { return n == before[name] })

		return calls
	}
	costly := []string{
		"virNodeGetCellsFreeMemory", "virNodeGetFreePages", "virConnectGetDomainCapabilities", "virConnectGetSysinfo",
		"virConnectListAllNodeDevices",
	}

	calls := asked(HostQuestion{Parts: []string{PartVirtualMachines}})
	for _, name := range costly {
		if calls[name] > 0 {
			t.Errorf("%s was called without a request", name)
		}
	}

	if calls := asked(HostQuestion{Labels: map[string]string{"zone": "b"}, Parts: HostParts}); len(calls) > 0 {
		t.Errorf("a host that the question leaves out was asked: %v", calls)
	}

	calls = asked(HostQuestion{Name: "local", Parts: HostParts})
	for _, name := range costly {
		if calls[name] == 0 {
			t.Errorf("%s was not called", name)
		}
	}
}

// TestTakeNetworks: a host that doesn't report its networks, as one whose virtnetworkd doesn't run, answers; one whose
// connection is lost doesn't.
func TestTakeNetworks(t *testing.T) {
	t.Parallel()

	refused := &libvirt.Error{Host: "local", Code: 38, Kind: libvirt.ErrNoFile, Err: errors.New("no virtnetworkd-sock")}
	lost := &libvirt.Error{Host: "local", Code: 38, Kind: libvirt.ErrUnreachable, Err: errors.New("end of file")}

	for _, tt := range []struct {
		networks []libvirt.Network
		err      error
		want     []string
		silent   bool
	}{
		{networks: []libvirt.Network{{Name: "b"}, {Name: "a"}}, want: []string{"a", "b"}},
		{want: []string{}},
		{err: refused},
		{err: lost, silent: true},
	} {
		var s HostStatus

		err := s.takeNetworks(tt.networks, tt.err)
		if !errors.Is(err, tt.err) || (s.Err != nil) != tt.silent || !reflect.DeepEqual(s.Networks, tt.want) {
			t.Errorf("%v: got %+v, %v", tt.err, s, err)
		}
	}
}
