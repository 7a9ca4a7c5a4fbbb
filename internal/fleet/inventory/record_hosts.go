package inventory

import (
	"fmt"
	"slices"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
)

// SetPeers sets the names of the hosts that answered, by their libvirt UUIDs, and with them the names of the hosts in
// the records of the VM's migrations.
func (vm *VM) SetPeers(peers map[string]string) {
	vm.Peers = peers
	vm.Metadata.Migrations = named(vm.Metadata.Migrations, peers)
}

// named returns the records with the names that this configuration gives to their hosts. A record has the names of its
// run's configuration: a host may have another name here, and another host that name. The UUID decides if it is
// recorded.
func named(records []domain.Migration, peers map[string]string) []domain.Migration {
	records = slices.Clone(records)
	for i := range records {
		r := &records[i]
		r.SourceHost = nameHere(r.SourceHost, r.SourceUUID, peers)
		r.TargetHost = nameHere(r.TargetHost, r.TargetUUID, peers)
	}

	return records
}

// nameHere returns the name that this configuration gives to the host with that UUID. As long as that host doesn't
// answer, it is the recorded name. If the host that answers by that name is a different one, it is a name that no host
// has.
func nameHere(recorded, uuid string, peers map[string]string) string {
	if uuid == "" {
		return recorded
	}

	if name, ok := peers[uuid]; ok {
		return name
	}

	for _, name := range peers {
		if name == recorded {
			return fmt.Sprintf("%s (UUID %s)", recorded, uuid)
		}
	}

	return recorded
}
