package fleet

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

// A move is cancelled while the target creates an image. libvirt may carry that out later: the next attempt knows the
// image, and removes it.
func TestLab_imageWhoseCreationWasNotAnswered(t *testing.T) {
	t.Parallel()

	l, f, pool, dir := withPool(t, "kvm1", "kvm2")

	d := light(t, l, lab.Name(t), nil)
	d.Metadata.Host = "kvm1"
	d.Spec.Disks = map[string]domain.Disk{"data": {Source: domain.DiskSource{File: "/to/be/made"}, Format: "raw"}}
	d.OwnDisks = map[string]domain.OwnDisk{"data": {Pool: pool, Bytes: 1 << 20}}
	vm := create(t, f, l, d)
	data := vm.Metadata.OwnDisks["data"].Path

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()

	listen(f, &onLog{Message: "creating image", Do: cancel})

	if _, _, err := f.Move(ctx, vm.UUID, lastOf(vm), "kvm2", migration.Options{}); !errors.Is(err, context.Canceled) {
		t.Fatalf("moving it: %v", err)
	}

	l.Run(t, "kvm2", "sh", "-c", fmt.Sprintf("test -e %[1]s || truncate -s 1M %[1]s", data))
	f.ForgetAll()

	now, _, err := f.Move(t.Context(), vm.UUID, lastOf(vm), "kvm2", migration.Options{})
	if err != nil || now.Host != "kvm2" || !now.Active || len(now.Metadata.Copies) > 0 {
		t.Fatalf("the next attempt: %+v, %v", now, err)
	}

	onlyOn(t, f, vm.UUID, "kvm2")
	hasOnly(t, l, "kvm1", dir)

	if _, err := f.Delete(t.Context(), vm.UUID, inventory.LastKnown{Host: "kvm2", HostUUID: now.HostUUID}, 0); err != nil {
		t.Error(err)
	}

	hasOnly(t, l, "kvm2", dir)
}
