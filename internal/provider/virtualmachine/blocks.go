package virtualmachine

import (
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

// block is one part of the definition: how it is declared to the domain, read back and planned. For most blocks the
// schema is enough to plan them.
type block struct {
	// toDomain declares what the model says. prior supplies values that a configuration can't express or doesn't know
	// yet.
	toDomain func(m, prior *model, s *domain.Spec)
	// fromDomain sets the model's attributes to what was read.
	fromDomain func(m *model, s domain.Spec, seen observation, prior *model)
	// planDependent corrects planned values that depend on other attributes; if it is nil, none do.
	planDependent func(planned, config, prior *model)
}

// blocks is the list of the parts of a definition, as in the domain package.
var blocks = []block{
	identityBlock, cpuBlock, memoryBlock, firmwareBlock, kernelBlock, diskBlock, interfaceBlock,
	switchBlock, extraDeviceBlock, rowsBlock,
}

var identityBlock = block{
	toDomain: func(m, _ *model, s *domain.Spec) {
		s.Name, s.Type, s.Arch, s.Machine = text(m.Name), text(m.Type), text(m.Arch), text(m.Machine)
	},
	fromDomain: func(m *model, s domain.Spec, _ observation, _ *model) {
		m.Name = types.StringValue(s.Name)
		m.Type = value.NewStringOrNull(s.Type)
		m.Machine = value.NewStringOrNull(s.Machine)
		m.Arch = value.NewStringOrNull(s.Arch)
	},
}

var cpuBlock = block{
	toDomain: func(m, _ *model, s *domain.Spec) {
		s.CPU = cpuToDomain(m.CPU)
		declareRows(&s.Values, "cpu", "", open(m.CPU))
	},
	fromDomain:    func(m *model, s domain.Spec, _ observation, prior *model) { m.CPU = cpuFromDomain(s, prior) },
	planDependent: func(planned, config, prior *model) { planned.CPU = planCPU(config.CPU, planned.CPU, prior.CPU) },
}

var memoryBlock = block{
	toDomain: func(m, _ *model, s *domain.Spec) {
		s.Memory = memoryToDomain(m.Memory)
		declareRows(&s.Values, "memory", "", open(m.Memory))
	},
	fromDomain:    func(m *model, s domain.Spec, _ observation, prior *model) { m.Memory = memoryFromDomain(s, prior) },
	planDependent: func(planned, config, _ *model) { planned.Memory = planMemory(config.Memory, planned.Memory) },
}

var firmwareBlock = block{
	toDomain: func(m, _ *model, s *domain.Spec) {
		s.Firmware = firmwareToDomain(m.Firmware)
		declareRows(&s.Values, "firmware", "", open(m.Firmware))
	},
	fromDomain: func(m *model, s domain.Spec, _ observation, prior *model) { m.Firmware = firmwareFromDomain(s, prior) },
	planDependent: func(planned, config, prior *model) {
		planned.Firmware = planFirmware(config.Firmware, planned.Firmware, prior.Firmware)
	},
}

var kernelBlock = block{
	toDomain:      func(m, prior *model, s *domain.Spec) { s.Kernel = kernelToDomain(m.Kernel, prior.Kernel) },
	fromDomain:    func(m *model, s domain.Spec, _ observation, _ *model) { m.Kernel = kernelFromDomain(s.Kernel) },
	planDependent: func(planned, _, _ *model) { planned.Kernel = planKernel(planned.Kernel) },
}

var diskBlock = block{
	toDomain: func(m, prior *model, s *domain.Spec) {
		s.Disks, s.Medium = disksToDomain(m.Disks, withRenamed(m.Disks, prior.Disks)), m.declaredMedium(prior)
		s.Ignition = m.ignitionFile(prior)
	},
	fromDomain: func(m *model, s domain.Spec, seen observation, prior *model) {
		m.Disks = disksFromDomain(s.Disks, seen.vm.Metadata, prior.Disks, prior.Name.IsNull())
	},
	planDependent: func(planned, config, prior *model) {
		before := withRenamed(config.Disks, prior.Disks)
		planned.Disks = editDevices(planned.Disks, diskType, planDiskPath(before), planDiskFormat(config.Disks, before),
			withoutOther(config.Disks, diskSources...))
	},
}

var interfaceBlock = block{
	toDomain: func(m, prior *model, s *domain.Spec) {
		s.Interfaces = interfacesToDomain(m.Interfaces, prior.Interfaces)
	},
	fromDomain: func(m *model, s domain.Spec, _ observation, prior *model) {
		m.Interfaces = interfacesFromDomain(s.Interfaces, prior.Interfaces, prior.Name.IsNull())
	},
	planDependent: func(planned, config, _ *model) {
		planned.Interfaces = editDevices(planned.Interfaces, interfaceType,
			withoutOther(config.Interfaces, interfaceSources...))
	},
}

var switchBlock = block{
	toDomain: func(m, _ *model, s *domain.Spec) {
		s.GuestAgent, s.SerialConsole = switchToDomain(m.GuestAgent), switchToDomain(m.SerialConsole)
	},
	fromDomain: func(m *model, s domain.Spec, _ observation, _ *model) {
		m.GuestAgent, m.SerialConsole = switchFromDomain(s.GuestAgent), switchFromDomain(s.SerialConsole)
	},
	planDependent: func(planned, config, prior *model) {
		planned.SerialConsole = planSerialConsole(planned, config, prior)
	},
}
