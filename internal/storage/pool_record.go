package storage

import (
	"context"
	"errors"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/hostset"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// unfinished is the record on a host that a run is creating the pool, with the pool's UUID. It is the one that the
// create of the resource writes and removes. ApplyPool removes one that it has written itself. A pool without it and
// without unbuilt had its storage before. If that is missing now, it is lost or not mounted. It isn't created again,
// because VMs would start with empty disks.
func unfinished(pool string) hostset.Creation {
	return hostset.Creation{Kind: "storage_pool", Name: pool}
}

// unbuilt is the record on a host that ApplyPool is creating another directory for the pool, with the pool's UUID.
func unbuilt(pool string) hostset.Creation {
	return hostset.Creation{Kind: "storage_pool_directory", Name: pool}
}

// isUnfinished reports whether a run was killed before it had completed the pool with that UUID.
func isUnfinished(ctx context.Context, h *libvirt.Host, pool, uuid string) (bool, error) {
	record, err := unfinished(pool).Begun(ctx, h)
	return record == uuid, err
}

// lacksStorage reports whether a run was killed that may not have created the storage of the pool with that UUID.
func lacksStorage(ctx context.Context, h *libvirt.Host, pool, uuid string) (bool, error) {
	if lacks, err := isUnfinished(ctx, h, pool, uuid); lacks || err != nil {
		return lacks, err
	}
	record, err := unbuilt(pool).Begun(ctx, h)
	return record == uuid, err
}

// endRecords removes the records of the pool from a host.
func endRecords(ctx context.Context, h *libvirt.Host, pool string) error {
	return errors.Join(unfinished(pool).End(ctx, h), unbuilt(pool).End(ctx, h))
}

// completeSettings sets what a pool that is new, or of which a run was killed while it created it, gets unless another
// value is declared.
func completeSettings(
	ctx context.Context, h *libvirt.Host, pool string, is *libvirt.StoragePool, made bool, settings *PoolSettings,
) (err error) {
	if settings.Autostart != nil {
		return nil
	}
	isNew := made
	if !made {
		isNew, err = isUnfinished(ctx, h, pool, is.UUID)
	}
	if isNew {
		settings.Autostart = &isNew
	}
	return err
}
