package inventory

import (
	"context"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/hostset"
)

// CreatingVolumes returns the volumes, as "<pool>/<name>", that runs record as being created through a host, as of the
// view: all new disks of a plan ask the same. Callers must not change the result.
func (v *View) CreatingVolumes(ctx context.Context, h *Host) ([]string, error) {
	return v.creating.get(ctx, "", func(ctx context.Context) ([]string, error) {
		return hostset.Creating(ctx, h.Conn, "volume")
	})
}
