package placement

import (
	"context"
	"fmt"
	"path"
	"slices"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
)

// fitsNVRAM checks that no other VM of the host keeps the variables of its firmware in the file that the VM with this
// configuration would use. own is the UUID of the VM, or of the one that it replaces. The first start of the one VM
// would replace the other's variables, and its removal would delete them.
func (d Desired) fitsNVRAM(a inventory.Reply, own string) []inventory.Problem {
	if a.View == nil {
		return nil
	}

	return d.usesNVRAM(a, d.NVRAMFiles(), own)
}

// usesNVRAM returns the problem that another VM of the host than the one whose UUID is own has one of the files.
func (d Desired) usesNVRAM(a inventory.Reply, files []string, own string) []inventory.Problem {
	other, file := a.View.WithNVRAM(files, own)
	if other == nil {
		return nil
	}

	return []inventory.Problem{{
		Attribute: nvramAttribute,
		Detail: fmt.Sprintf("it has VM %q (UUID %s), which keeps its UEFI variables in %s. VM %q would use the same file",
			other.Name, other.UUID, file, d.Spec.Name),
		Remedy: "Set firmware.nvram to a file that no other VM has.",
	}}
}

const nvramAttribute = "firmware.nvram"

// DeclaredNVRAM returns the file that the configuration names for the variables of the firmware, "" if libvirt is to
// choose one.
func (d Desired) DeclaredNVRAM() string { return d.Spec.Values[nvramAttribute] }

// NVRAMFiles returns the files in which the firmware of a new VM may keep its variables.
func (d Desired) NVRAMFiles() []string {
	declared := d.DeclaredNVRAM()
	if declared == "" && !d.Spec.HasNVRAM() {
		return nil
	}

	vm := migration.VM{
		Name: d.Spec.Name, Mobility: domain.Mobility{NVRAM: declared, NVRAMUnnamed: declared == ""},
	}

	return vm.NVRAMFiles()
}

// fitsChangedNVRAM is fitsNVRAM for a change that gives the VM another file, or firmware with variables.
func (p *Scheduler) fitsChangedNVRAM(
	ctx context.Context, on *inventory.Host, vm *inventory.VM, d Desired,
) []inventory.Problem {
	changed := d.Changed(vm).Spec
	if changed.Values[nvramAttribute] == "" && !changed.HasNVRAM() {
		return nil
	}

	have := vm.Entry.NVRAMFiles()
	files := slices.DeleteFunc(d.NVRAMFiles(), func(file string) bool {
		return on == vm.On && slices.Contains(have, path.Clean(file))
	})

	a, err := p.hosts.ReplyOf(ctx, on)
	if err != nil || a.View == nil {
		return nil // CheckMove reports a host that doesn't answer.
	}

	return d.usesNVRAM(a, files, vm.UUID)
}

// ClaimNVRAM returns an error if the new VM would keep the variables of its firmware in the file of another VM on the
// host. Until release, no other VM of this run claims that file.
func (cs *Claims) ClaimNVRAM(ctx context.Context, h *inventory.Host, d Desired) (release func(), err error) {
	files := d.NVRAMFiles()
	if len(files) == 0 {
		return func() {}, nil
	}

	release, err = cs.mutexes.Lock(ctx, "nvram/"+h.Name+"/"+files[0])
	if err != nil {
		return nil, err
	}

	a, err := cs.hosts.ReplyOf(ctx, h)
	if err == nil {
		for _, p := range d.fitsNVRAM(a, d.Replaces) {
			err = p.Failed(d.Spec.Name, h.Name, ErrNoHost)
		}
	}

	if err != nil {
		release()

		return nil, err
	}

	return release, nil
}
