package move

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
)

// TestOwnDiskBlockers_otherCluster: a pool of the same name may be in another cluster, whose image of that name isn't
// the VM's.
func TestOwnDiskBlockers_otherCluster(t *testing.T) {
	t.Parallel()

	inv, err := inventory.New(map[string]inventory.HostConfig{"to": {URI: "test:///default"}},
		slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { _ = inv.Close() })

	to := inv.Host("to")

	if err := to.Conn.DefineStoragePool(t.Context(), "ceph", "<pool type='rbd'><name>ceph</name><source>"+
		"<name>vms</name><host name='ceph1' port='6789'/><host name='ceph2' port='6789'/></source></pool>"); err != nil {
		t.Fatal(err)
	}

	if err := to.Conn.StartStoragePool(t.Context(), "ceph"); err != nil {
		t.Fatal(err)
	}

	for server, want := range map[string]string{"ceph2:6789": "", "other:6789": "is on other servers"} {
		vm := &inventory.VM{PersistentSpec: &domain.Spec{Disks: map[string]domain.Disk{"data": {
			Source: domain.DiskSource{Network: &domain.NetworkSource{
				Protocol: "rbd", Name: "vms/a", Hosts: []string{server},
			}},
		}}}}
		vm.Metadata.OwnDisks = map[string]domain.OwnDisk{"data": {Pool: "ceph", Volume: "a", Path: "vms/a"}}

		var got string
		for _, b := range new(Checks).ownDiskBlockers(t.Context(), vm, to) {
			got += b.Message
		}

		if !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("a VM with an image on %s: %q, want %q", server, got, want)
		}
	}
}
