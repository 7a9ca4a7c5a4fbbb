package fleet

import (
	"context"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// writeMetadata replaces our own metadata in every definition of the machine,
// if it says anything new. It reports whether it did.
func (f *Fleet) writeMetadata(ctx context.Context, vm *VM, m domain.Metadata) (bool, error) {
	definition := vm.entry.parse().definition().Clone()
	before := definition.MetadataXML()

	if err := definition.SetMetadata(m); err != nil {
		return false, &Error{VM: vm.Name, Host: vm.Host, Kind: ErrUnsupported, Err: err}
	}

	after := definition.MetadataXML()
	if after == before {
		return false, nil
	}

	return true, vm.host.conn.SetMetadata(ctx, vm.UUID, domain.MetadataKey, domain.MetadataNamespace, after, vm.affect())
}

// affect is every definition that the machine has.
func (vm *VM) affect() libvirt.Affect {
	var affect libvirt.Affect
	if vm.Persistent {
		affect |= libvirt.AffectConfig
	}

	if vm.Active {
		affect |= libvirt.AffectLive
	}

	return affect
}
