package virtualmachine

import (
	"context"
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/meta"
)

// defined is what the definition of a VM says, and the state doesn't tell.
type defined struct {
	// NVRAM is the file with the UEFI variables, also one that libvirt has chosen; "": none, or not chosen yet.
	NVRAM string `json:",omitempty"`
	// Memory is how much of the host's memory the VM uses from its next start on. It is set only if that is more than the
	// running VM uses, which is Taken, and more than its size.
	Memory, Taken uint64 `json:",omitempty"`
	// Devices are the paths of its devices, separated by spaces, as the plan knows them.
	Devices string
}

// devices returns the paths of the devices that the VM had at the last read; nil: that isn't known.
func (d defined) devices() []string {
	if d.Devices == "" {
		return nil
	}
	return strings.Fields(d.Devices)
}

// writeDefined records what the state doesn't tell.
func writeDefined(ctx context.Context, to meta.PrivateWriter, vm *fleet.VM) diag.Diagnostics {
	d := defined{Devices: strings.Join(vm.DevicePaths(), " ")}
	if spec := vm.DeclaredSpec(); spec != nil {
		d.NVRAM = spec.Values[nvramPath]
	}
	if vm.LiveSpec != nil && d.NVRAM == "" {
		d.NVRAM = vm.LiveSpec.Values[nvramPath]
	}
	if vm.LiveSpec != nil && vm.PersistentSpec != nil {
		runs, next := vm.LiveSpec.Memory, vm.PersistentSpec.Memory
		if runs.Installed != nil && next.Installed != nil && next.Size != nil &&
			*next.Installed > *runs.Installed && *next.Installed > *next.Size && !stagesMemory(vm.Metadata) {
			d.Memory, d.Taken = *next.Installed, *runs.Installed
		}
	}
	return meta.WritePrivate(ctx, to, privateDefined, d)
}

// stagesMemory reports whether the provider itself has given a VM other memory, or NUMA cells with their memory, for
// its next start.
func stagesMemory(m domain.Metadata) bool {
	for _, staged := range []domain.Staged{m.Staged, m.Unfinished} {
		for path := range staged {
			if path == "cpu.numa" || path == "memory.size" || path == "memory.max_size" {
				return true
			}
		}
	}
	return false
}

// warnAboutMemory warns that someone has given a VM memory for its next start, in addition to its size. The host has to
// have it, even if the balloon takes it from the guest.
func (p planning) warnAboutMemory() diag.Diagnostics {
	if p.live == nil || p.defined.Memory == 0 {
		return nil
	}
	return diag.Diagnostics{diag.NewAttributeWarningDiagnostic(path.Root("memory").AtName("size"),
		"Next start takes more memory", fmt.Sprintf(
			"Someone changed the definition of virtual machine %[1]q on host %[2]q: its next start takes %[3]s of the host's "+
				"memory, whatever its size is. The VM that runs has taken %[4]s.\n\nTo undo that, run \"virsh setmaxmem %[6]s "+
				"%[5]d --config\" on host %[2]q. To keep the memory, declare it as the size.",
			text(p.state.Name), text(p.state.CurrentHost), domain.FormatSize(p.defined.Memory),
			domain.FormatSize(p.defined.Taken), p.defined.Taken>>10, domain.ShellWord(text(p.state.Name))))}
}

// warnDiscarded warns that a VM begins with new UEFI variables, because other firmware doesn't fit to those that it
// has.
func (p planning) warnDiscarded(have, want domain.Spec) diag.Diagnostics {
	leaves := want.Firmware.Type != nil && *want.Firmware.Type != "efi"
	if !have.HasNVRAM() || !leaves && !have.Firmware.RequiresNVRAMReset(want.Firmware) {
		return nil
	}
	file := "its file with them"
	if p.defined.NVRAM != "" {
		file = fmt.Sprintf("file %q", p.defined.NVRAM)
	}
	what := "Its next start by an apply discards them"
	if leaves {
		what = "It doesn't use them any more, and if it gets the type \"efi\" again, its next start by an apply discards them"
	}
	return diag.Diagnostics{diag.NewAttributeWarningDiagnostic(path.Root("firmware"),
		"UEFI variables are discarded: "+text(p.state.Name), fmt.Sprintf(
			"Virtual machine %q gets other firmware, which can't use its UEFI variables, such as boot entries and keys: %s on "+
				"host %q. %s, whatever on_destroy says.\n\nTo be able to go back, copy the file while the VM is off, before the "+
				"apply. A guest that boots by a boot entry alone needs a new entry.",
			text(p.state.Name), file, text(p.state.CurrentHost), what))}
}
