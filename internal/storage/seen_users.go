package storage

import (
	"context"
	"maps"
	"path"
	"slices"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/hostset"
)

// SeenUsers returns what used a host's volume at the last reading of the host, for messages: VMs, and volumes that are
// based on it and that no VM has. image says that these are looked for in all active pools of the host, which costs a
// question; otherwise in the volume's own pool. It is for warnings, and misses what Users finds out by reading files.
func (s *Storage) SeenUsers(ctx context.Context, host string, ref Ref, image bool) (users []string, _ error) {
	h, ok := s.Hosts.Host(host)
	if !ok || h.Fenced || h.SeenUsing == nil {
		return nil, nil
	}
	found := hostset.Found(s.SeenVolume(ctx, s.Hosts.Named(host), ref))
	if len(found) == 0 {
		return nil, nil
	}
	at := path.Clean(found[0].Value.Path)
	using, err := h.SeenUsing(ctx, at)
	vms := slices.Collect(maps.Values(using))
	pools := []string{ref.Pool}
	if image && err == nil {
		pools, err = activePools(ctx, h)
	}
	if err != nil {
		return nil, err
	}
	for _, pool := range pools {
		volumes, err := seenVolumes(h)(ctx, pool)
		if err != nil {
			s.Log.Debug("volumes based on another one are unknown", "host", host, "storage_pool", pool, "error", err)
		}
		for _, v := range volumes {
			if path.Clean(v.Backing) != at {
				continue
			}
			of, err := h.SeenUsing(ctx, v.Path)
			if err != nil {
				return nil, err
			}
			if vms = slices.AppendSeq(vms, maps.Values(of)); len(of) == 0 {
				users = append(users, "volume "+pool+"/"+v.Name)
			}
		}
	}
	for _, vm := range vms {
		users = append(users, "virtual machine "+vm)
	}
	slices.Sort(users)
	return slices.Compact(users), nil
}

func activePools(ctx context.Context, h hostset.Host) (names []string, _ error) {
	pools, err := h.Conn.StoragePools(ctx)
	for _, p := range pools {
		if p.Active {
			names = append(names, p.Name)
		}
	}
	return names, err
}
