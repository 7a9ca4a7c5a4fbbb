package fleet

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

// askingForFiles has the fleet ask the hosts for files, as it does over SSH.
func askingForFiles(l *lab.Lab) func(name string, hc *inventory.HostConfig) {
	return func(name string, hc *inventory.HostConfig) {
		hc.Exist = func(ctx context.Context, paths ...string) (map[string]bool, error) {
			exist := map[string]bool{}

			for _, p := range paths {
				_, err := l.Host(name).Run(ctx, "test", "-e", p)
				exist[p] = err == nil
			}

			return exist, nil
		}
	}
}

// TestLab_startWithoutDisk: a start that fails because a disk's file was deleted names the disk, the file and what to
// do, whoever starts the VM.
func TestLab_startWithoutDisk(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	f := labFleet(t, l, "alice", askingForFiles(l))
	file := l.Image(t, "kvm1", lab.Name(t)+".raw", "raw", 1<<20)
	d := light(t, l, "vm", nil)
	d.Metadata.Host, d.Metadata.RunStrategy = "kvm1", "Halted"
	d.Spec.Disks = map[string]domain.Disk{"root": {Source: domain.DiskSource{File: file}, Format: "raw"}}
	l.RemoveDomain(t, d.Spec.Name)

	vm := create(t, f, l, d)
	l.Run(t, "kvm1", "rm", file)

	d.Metadata.RunStrategy = "Always"

	now, err := f.Update(t.Context(), vm.UUID, lastOf(vm), d)
	if said, ok := errors.AsType[*inventory.Error](err); !ok || now == nil || now.Active || said.Host != "kvm1" ||
		!strings.Contains(said.Detail, fmt.Sprintf("no file %s, which is disk %q", file, "root")) ||
		!strings.Contains(said.Remedy, "Put the file back") {
		t.Errorf("got %+v, %#v", now, err)
	}
}
