package records

import (
	"context"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
)

// WriteMetadata replaces our own metadata in every definition of the VM, if it says anything new, and raises its
// generation then. It reports whether it did.
func WriteMetadata(ctx context.Context, vm *inventory.VM, m domain.Metadata) (bool, error) {
	m.Generation = vm.Entry.Generation()

	before, after, err := metadataXML(vm, m)
	if err != nil || after == before {
		return false, err
	}

	return true, Raise(ctx, vm, m)
}

// Raise is WriteMetadata that writes the next generation even where nothing else is new: the definition itself was
// changed.
func Raise(ctx context.Context, vm *inventory.VM, m domain.Metadata) error {
	m.Generation = vm.Entry.Generation() + 1

	_, after, err := metadataXML(vm, m)
	if err != nil {
		return err
	}

	return vm.On.Conn.SetMetadata(ctx, vm.UUID, domain.MetadataKey, domain.MetadataNamespace, after, vm.Affect())
}

// metadataXML is our element as the VM has it, and as it would be.
func metadataXML(vm *inventory.VM, m domain.Metadata) (before, after string, err error) {
	definition := vm.Entry.Parse().Definition().Clone()
	before = definition.MetadataXML()

	if err := definition.SetMetadata(m); err != nil {
		return "", "", &inventory.Error{VM: vm.Name, Host: vm.Host, Kind: inventory.ErrUnsupported, Err: err}
	}

	return before, definition.MetadataXML(), nil
}
