package records

import (
	"context"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
)

// WriteMetadata replaces the provider's metadata in every definition of the VM if it has changed, and then raises its
// generation. It reports whether it did.
func WriteMetadata(ctx context.Context, vm *inventory.VM, m domain.Metadata) (bool, error) {
	m.Generation = vm.Entry.Generation()

	before, after, err := metadataXML(vm, m)
	if err != nil || after == before {
		return false, err
	}

	return true, Raise(ctx, vm, m)
}

// RunningDiffers reports whether the running VM has other metadata than m, as after an update that wrote the definition
// and then couldn't change the running VM. The generation doesn't count.
func RunningDiffers(vm *inventory.VM, m domain.Metadata) bool {
	parsed := vm.Entry.Parse()
	if parsed.Live == nil || parsed.Persistent == nil {
		return false
	}

	m.Generation = parsed.Live.Metadata().Generation
	before, after, err := setIn(parsed.Live, m)

	return err == nil && before != after
}

// Raise is WriteMetadata, but writes the next generation even if the metadata hasn't changed: the definition itself was
// changed.
func Raise(ctx context.Context, vm *inventory.VM, m domain.Metadata) error {
	m.Generation = vm.Entry.Generation() + 1

	_, after, err := metadataXML(vm, m)
	if err != nil {
		return err
	}

	return vm.On.Conn.SetMetadata(ctx, vm.UUID, domain.MetadataKey, domain.MetadataNamespace, after, vm.Affect())
}

// metadataXML returns the provider's metadata element as the VM has it, and with m.
func metadataXML(vm *inventory.VM, m domain.Metadata) (before, after string, err error) {
	if before, after, err = setIn(vm.Entry.Parse().Definition(), m); err != nil {
		return "", "", &inventory.Error{VM: vm.Name, Host: vm.Host, Kind: inventory.ErrUnsupported, Err: err}
	}

	return before, after, nil
}

// setIn returns the provider's metadata element of a definition, as it is and with m.
func setIn(definition *domain.Definition, m domain.Metadata) (before, after string, err error) {
	definition = definition.Clone()
	before = definition.MetadataXML()

	if err := definition.SetMetadata(m); err != nil {
		return "", "", err
	}

	return before, definition.MetadataXML(), nil
}
