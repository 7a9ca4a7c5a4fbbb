package observe

import (
	"maps"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
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
