package meta

import (
	"github.com/virtfleet/terraform-provider-virtfleet/internal/storage"
)

// Storage returns the storage of the fleet's hosts. The provider must be configured and known.
func (d *Data) Storage() *storage.Storage {
	return d.Fleet.Storage()
}
