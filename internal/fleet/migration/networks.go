package migration

import (
	"context"

	"golang.org/x/sync/errgroup"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// networks returns the networks of both hosts by name: recent ones, unless they block the move.
func (t preflight) networks(ctx context.Context) (here, there map[string]libvirt.Network, err error) {
	if t.vm.Networks == nil {
		return t.networksOfBoth(ctx, true)
	}
	if here, there, err = t.networksOfBoth(ctx, false); err != nil {
		return nil, nil, err
	}
	var found blockerList
	for _, i := range t.vm.Mobility.Interfaces {
		if i.Type == "network" {
			t.checkNetwork(&found, i, here, there)
		}
	}
	if t.checkFloors(&found, there); len(found) == 0 {
		return here, there, nil
	}
	return t.networksOfBoth(ctx, true)
}

func (t preflight) networksOfBoth(ctx context.Context, now bool) (here, there map[string]libvirt.Network, err error) {
	read := func(h *libvirt.Host) (map[string]libvirt.Network, error) {
		var list []libvirt.Network
		var err error
		if t.vm.Networks == nil {
			list, err = h.Networks(ctx)
		} else {
			list, err = t.vm.Networks(ctx, h == t.target, now)
		}
		all := make(map[string]libvirt.Network, len(list))
		for _, n := range list {
			all[n.Name] = n
		}
		return all, err
	}
	var both errgroup.Group
	both.Go(func() (err error) {
		here, err = read(t.source)
		return err
	})
	both.Go(func() (err error) {
		there, err = read(t.target)
		return err
	})
	return here, there, both.Wait()
}
