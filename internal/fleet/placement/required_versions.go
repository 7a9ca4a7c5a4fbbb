package placement

import (
	"fmt"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// gate is a feature that hosts have since some version. A plan that uses it on an older host, which would refuse it or
// get it wrong, is refused before anything is changed.
type gate struct {
	attribute string
	feature   string
	used      func(domain.Spec) bool
	libvirt   libvirt.Version // the zero value is any version
	qemu      libvirt.Version
}

// gates follow libvirt's and QEMU's release notes. A feature that the oldest supported distribution has needs no gate.
var gates = []gate{
	{
		attribute: "firmware.type", feature: "choosing firmware by type",
		used:    func(s domain.Spec) bool { return s.Firmware.Type != nil && *s.Firmware.Type == "efi" },
		libvirt: libvirt.Version{Major: 5, Minor: 2}, qemu: libvirt.Version{Major: 2, Minor: 9},
	},
	{
		attribute: "firmware.secure_boot", feature: "choosing firmware by its secure boot feature",
		used:    func(s domain.Spec) bool { return s.Firmware.SecureBoot != nil && *s.Firmware.SecureBoot },
		libvirt: libvirt.Version{Major: 7, Minor: 2}, qemu: libvirt.Version{Major: 2, Minor: 9},
	},
	{
		attribute: "cpu.mode", feature: `cpu.mode = "maximum"`,
		used:    func(s domain.Spec) bool { return s.CPU.Mode != nil && *s.CPU.Mode == "maximum" },
		libvirt: libvirt.Version{Major: 7, Minor: 1}, qemu: libvirt.Version{Major: 2, Minor: 9},
	},
	{
		attribute: "devices.filesystems", feature: `read_only with the driver "virtiofs"`,
		used: func(s domain.Spec) bool {
			for _, row := range s.Filesystems {
				if row["driver"] == "virtiofs" && row["read_only"] == "yes" {
					return true
				}
			}

			return false
		},
		libvirt: libvirt.Version{Major: 11},
	},
	{
		attribute: "disks", feature: "device aliases of our own, by which disks and interfaces are known",
		used:    func(s domain.Spec) bool { return len(s.Disks)+len(s.Interfaces) > 0 },
		libvirt: libvirt.Version{Major: 3, Minor: 9},
	},
}

// fitsVariables checks that the host can create new firmware variables if the VM's present ones can't be used with the
// declared firmware.
func fitsVariables(a inventory.Reply, vm *inventory.VM, want domain.Firmware) []inventory.Problem {
	have := vm.Firmware()
	if have.Type == nil || *have.Type != "efi" || !have.RequiresNVRAMReset(want) || ResetsNVRAM(a.Info) {
		return nil
	}

	return []inventory.Problem{{
		Attribute: "firmware.secure_boot",
		Detail: fmt.Sprintf("the guest's firmware variables would have to be created again. That needs libvirt 8.1.0; it "+
			"has %s", a.Info.LibvirtVersion),
	}}
}

// fitsVersions checks that the host's libvirt and QEMU have the features that the VM uses.
func fitsVersions(a inventory.Reply, s domain.Spec) []inventory.Problem {
	if a.Info.Driver != "QEMU" {
		return nil
	}

	var problems []inventory.Problem

	for _, g := range gates {
		if !g.used(s) {
			continue
		}

		for _, part := range []struct {
			name      string
			has, need libvirt.Version
		}{
			{"libvirt", a.Info.LibvirtVersion, g.libvirt},
			{"QEMU", a.Info.HypervisorVersion, g.qemu},
		} {
			if !part.has.AtLeast(part.need.Major, part.need.Minor, part.need.Micro) {
				problems = append(problems, inventory.Problem{
					Attribute: g.attribute,
					Detail:    fmt.Sprintf("%s needs %s %s, it has %s", g.feature, part.name, part.need, part.has),
				})
			}
		}
	}

	return problems
}

// fitsKept checks that the host can keep what is to be kept when the VM is deleted.
func fitsKept(a inventory.Reply, m domain.Metadata) []inventory.Problem {
	if !m.Keeps(domain.PartTPMState) || KeepsTPMState(a.Info) {
		return nil
	}

	return []inventory.Problem{{
		Attribute: "on_destroy.tpm_state",
		Detail:    fmt.Sprintf("keeping a TPM's state needs libvirt 8.9.0; it has %s", a.Info.LibvirtVersion),
	}}
}

// KeepsTPMState reports whether the host can delete a VM without the state of its TPM.
func KeepsTPMState(info *libvirt.HostInfo) bool {
	return info.Driver == "QEMU" && info.LibvirtVersion.AtLeast(8, 9, 0)
}

// ResetsNVRAM reports whether the host can start VMs with new firmware variables.
func ResetsNVRAM(info *libvirt.HostInfo) bool {
	return info.Driver == "QEMU" && info.LibvirtVersion.AtLeast(8, 1, 0)
}
