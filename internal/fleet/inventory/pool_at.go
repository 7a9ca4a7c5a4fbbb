package inventory

import "context"

// PoolAt returns the name of the active storage pool whose directory this is, as of the view: all VMs with files there
// ask the same. It returns "" if there is none, or if that is unknown.
func (v *View) PoolAt(ctx context.Context, h *Host, dir string) string {
	name, err := v.pools.get(ctx, dir, func(ctx context.Context) (string, error) {
		p, err := h.Conn.StoragePoolAt(ctx, dir)
		if IsNotFound(err) || err == nil && p == nil {
			return "", nil
		}

		if err != nil {
			return "", err
		}

		return p.Name, nil
	})
	if err != nil {
		return ""
	}

	return name
}
