package exporter

import (
	"fmt"
	"testing"

	"github.com/google/uuid"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/evacuation"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/policy"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/ops/opstest"
)

// boundVM starts a VM that has a file of its host as a disk.
func boundVM(t testing.TB, l *lab.Lab, h *lab.Host) (name string) {
	t.Helper()
	name = lab.Name(t) + "-bound"
	l.RemoveDomain(t, name)
	opstest.StartVM(t, l, h, l.NBD(t, name, 16<<20), "noagent")
	file := l.Image(t, h.Name, name+".qcow2", "qcow2", 1<<20)
	l.Virsh(t, h.Name, "attach-disk", name, file, "vdb", "--subdriver", "qcow2", "--config")
	l.Virsh(t, h.Name, "destroy", name)
	l.Virsh(t, h.Name, "start", name)
	return name
}

// openFleet is another user's fleet of the hosts.
func openFleet(t testing.TB, hosts ...*lab.Host) *fleet.Fleet {
	t.Helper()
	cfg := fleet.Config{Owner: "alice", Hosts: map[string]fleet.HostConfig{}}
	for _, h := range hosts {
		cfg.Hosts[h.Name] = fleet.HostConfig{
			URI: "qemu+unix:///system?socket=" + h.Path("/run/libvirt/libvirt-sock"), MigrationAddress: h.Address,
		}
	}
	f, err := fleet.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

// TestLab_nonEvictable proves that a drain which would stop shows beforehand: at a VM with a file of its host, as
// long as nothing but moving it live is allowed.
func TestLab_nonEvictable(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	h := l.StartHost(t)
	hosts := []*lab.Host{h}
	mobile, bound := opstest.VM(t, l, h, ""), boundVM(t, l, h)
	// One whose address is its host's own can't be moved live either.
	private := lab.Name(t) + "-nat"
	l.RemoveDomain(t, private)
	l.Define(t, h.Name, fmt.Sprintf(`<domain type="qemu"><name>%[1]s</name><uuid>%[2]s</uuid>
		<memory unit="MiB">32</memory>
		<os><type arch="x86_64">hvm</type></os><metadata><v:vm xmlns:v="urn:virtfleet:1" version="1" uuid="%[2]s">
			<v:eviction-strategy>LiveMigrate</v:eviction-strategy></v:vm></metadata><devices>
		<interface type="network"><source network="default"/></interface></devices></domain>`, private, uuid.NewString()))
	l.Virsh(t, h.Name, "start", private)
	rests := struct {
		label string
		held  float64
	}{"false", 1} // Its network is its host's own, too, and nothing says that this doesn't matter.
	look := func(what, label string, held float64) {
		t.Helper()
		all, _ := startOn(t, l, nil, hosts...).scrape()
		for name, want := range map[string]struct {
			label string
			held  float64
		}{mobile: rests, bound: {label, held}, private: {"false", 1}} {
			vm := fmt.Sprintf("name=%q", name)
			if got := all.one(t, "kubevirt_vmi_non_evictable", vm); got != want.held {
				t.Errorf("%s: non-evictable of %s is %v", what, name, got)
			}
			all.one(t, "kubevirt_vmi_info", vm, fmt.Sprintf("evictable=%q", want.label))
		}
	}
	look("no policy", "false", 1)

	f := openFleet(t, h)
	p := evacuation.Policy{Identity: policy.Identity{ID: "1", Name: "all"}}
	p.Selector.Labels = map[string]string{"app.name": "web"}
	p.Options.AllowNetworkChange = new(true)
	rests.label, rests.held = "true", 0
	for _, test := range []struct {
		strategy, fallback, copies, label string
		held                              float64
	}{
		{evacuation.LiveMigrate, evacuation.Block, "", "false", 1},
		{evacuation.LiveMigrate, evacuation.Block, migration.CopyFull, "true", 0},
		{evacuation.LiveMigrate, evacuation.ColdMigrate, "", "true", 0},
		{evacuation.LiveMigrateIfPossible, "", "", "true", 0},
		{evacuation.None, "", "", "true", 0},
	} {
		p.Strategy, p.Fallback, p.Options.CopyStorage = test.strategy, test.fallback, test.copies
		if _, err := f.EvictionPolicies().Put(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		look(test.strategy+" "+test.fallback+" "+test.copies, test.label, test.held)
	}
	// What was removed while the host was away doesn't count, though the host has its copy still.
	other := l.StartHost(t)
	hosts = append(hosts, other)
	if _, err := openFleet(t, hosts...).EvictionPolicies().Put(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if _, err := openFleet(t, other).EvictionPolicies().Remove(t.Context(), p.ID); err != nil {
		t.Fatal(err)
	}
	rests.label, rests.held = "false", 1
	look("removed without the host", "false", 1)
}
