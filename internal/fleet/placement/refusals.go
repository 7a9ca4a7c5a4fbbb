package placement

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
)

// refusesDefinition begins the problem that a host's libvirt refuses a definition.
const refusesDefinition = "its libvirt refuses this definition: "

// refused returns the problem that libvirt refuses the definition of a spec, with the attribute and a remedy if one of
// refusals has them.
func refused(refusal string, s domain.Spec) inventory.Problem {
	p := inventory.Problem{Detail: refusesDefinition + refusal}

	if named := unknownValue.FindStringSubmatch(refusal); named != nil {
		if p.Attribute = declaredBy(named[1], named[2]); p.Attribute != "" {
			p.Remedy = "Use another value, or a host with a newer libvirt, which may have this one."
		}
	}

	for _, known := range refusals {
		if known.words.MatchString(refusal) {
			p.Attribute, p.Remedy = known.attribute, known.remedy
		}
	}

	if noHugetlbfs.MatchString(refusal) {
		p.Attribute = s.Values.PagesPath()
	}

	if spiceDevice.MatchString(refusal) {
		p.Attribute = cmp.Or(usesSPICE(s), p.Attribute)
	}

	return p
}

// unknownValue are libvirt's words for a value that it doesn't know, with the names of the attribute and its element.
var unknownValue = regexp.MustCompile(`\bInvalid value for attribute '(\w+)' in element '(\w+)'`)

// declaredBy returns the path of the attribute, or of the map of devices, that an attribute of a device's element in
// the definition is declared by; "" if there is none.
func declaredBy(attribute, element string) string {
	for _, g := range domain.Groups {
		for _, a := range g.Attributes {
			if g.Device == element && a.Place == "@"+attribute {
				return g.Path + "." + a.Name
			}
		}
	}

	for _, f := range domain.Families {
		if f.Tag == element {
			return f.Path
		}
	}

	return ""
}

// noHugetlbfs are libvirt's words for huge pages of a size whose file system isn't mounted.
var noHugetlbfs = regexp.MustCompile(`\bhugetlbfs (filesystem is not mounted|mount)\b`)

// spiceDevice are libvirt's words for a device that a client of SPICE serves, in a VM without SPICE.
var spiceDevice = regexp.MustCompile(`\bwithout spice graphics\b`)

// usesSPICE returns the attribute that declares the first device that a client of SPICE serves; "" if none is declared.
func usesSPICE(s domain.Spec) string {
	for _, f := range domain.Families {
		all := f.Of(s)
		for _, key := range slices.Sorted(maps.Keys(all)) {
			if all[key]["type"] == "spicevmc" {
				return strings.Join([]string{f.Path, key, "type"}, ".")
			}
		}
	}

	if s.Values["devices.smartcard.mode"] == "passthrough" {
		return "devices.smartcard.mode"
	}

	return ""
}

// onlyAtStart are libvirt's words for a host whose CPU lacks what the VM's CPU has. libvirt defines such a VM, and
// refuses to start it.
var onlyAtStart = regexp.MustCompile(`\bCPU is incompatible with host CPU\b`)

// isOnlyAtStart reports whether libvirt defines the VM all the same, and refuses only to start it.
func isOnlyAtStart(p inventory.Problem) bool {
	refusal, tried := strings.CutPrefix(p.Detail, refusesDefinition)

	return tried && onlyAtStart.MatchString(refusal)
}

// doubtStart turns what the host refuses only at the start of the VM into warnings, unless the VM starts there.
func (d Desired) doubtStart(
	h *inventory.Host, problems []inventory.Problem, starts bool,
) (rest, doubts []inventory.Problem) {
	for _, p := range problems {
		if starts || !isOnlyAtStart(p) {
			rest = append(rest, p)

			continue
		}

		doubts = append(doubts, inventory.Problem{
			Attribute: p.Attribute, Warning: true, Summary: "Host can't start the VM",
			Detail: fmt.Sprintf("This change doesn't start VM %q. Host %q couldn't start it: %s", d.Spec.Name, h.Name,
				strings.TrimPrefix(p.Detail, refusesDefinition)),
			Remedy: p.Remedy, Next: p.Next, Existing: p.Existing,
		})
	}

	return rest, doubts
}

// attributeCPUModel is the attribute of a refused CPU model.
const attributeCPUModel = "cpu.model"

// nameModels adds the CPU models that the host has to the problem that it doesn't have the declared one.
func (p *Scheduler) nameModels(
	ctx context.Context, a inventory.Reply, s domain.Spec, problems []inventory.Problem,
) []inventory.Problem {
	for i := range problems {
		if problems[i].Attribute != attributeCPUModel || s.CPU.Model == nil || a.Info == nil {
			continue
		}

		devices, err := a.Host.Conn.GuestDevices(ctx, cmp.Or(s.Arch, a.Info.Arch), a.TypeFor(s, p.defaultType), s.Machine)
		if err == nil {
			problems[i].Detail += nearest(*s.CPU.Model, devices.Values("cpu", "model"))
		}
	}

	return problems
}

// refusals are what a host lacks and its capabilities don't list, by the words of libvirt's refusal. The name of a
// program is a word of its own: host-passthrough isn't passt.
var refusals = []struct {
	words             *regexp.Regexp
	attribute, remedy string
}{
	{
		regexp.MustCompile(`\b[Uu]nknown CPU model\b|\bCPU model\b.*\bnot supported\b`), attributeCPUModel,
		`Use a model that the host has ("virsh domcapabilities" lists them), or leave out cpu.mode and cpu.model.`,
	},
	{
		regexp.MustCompile(`\b[Uu]nknown CPU feature\b`), "cpu.features",
		`Correct the name of the feature: "virsh domcapabilities" and "virsh cpu-baseline --features" list names.`,
	},
	{
		regexp.MustCompile(`\bCPU mode\b.*\bnot supported\b`), "cpu.mode",
		`Use another mode ("virsh domcapabilities" lists them), or type = "kvm" on a host with KVM.`,
	},
	{
		regexp.MustCompile(`\bCPU is incompatible with host CPU\b`), "cpu.mode",
		"Use a mode, a model or features that the host's CPU has, or another host.",
	},
	{
		regexp.MustCompile(`\bTSC frequency\b`), "platform.clock.tsc_frequency",
		"Use the frequency of the hosts, or hosts whose CPU can scale it (\"virsh capabilities\" says both).",
	},
	{
		regexp.MustCompile(`\bvirtiofs\b.*\brequires\b.*\bshared memory\b`), "devices.filesystems",
		`Add shared = true to memory, or use the driver "9p".`,
	},
	{
		regexp.MustCompile(`\bvirtiofsd\b`), "devices.filesystems",
		"Install virtiofsd on the host (Debian 12: package qemu-system-common, Debian 13 and Fedora: virtiofsd), or use " +
			`the driver "9p".`,
	},
	{
		regexp.MustCompile(`\bpasst\b`), "",
		"Use a host whose libvirt was built with passt, which Debian 12's wasn't, and install the package passt.",
	},
	{
		regexp.MustCompile(`\b[Uu]nknown panic model\b|\bpanic device of model\b`), "devices.panic.model",
		`Use "isa" or "hyperv" on x86, or a host whose architecture and libvirt have the model.`,
	},
	{
		regexp.MustCompile(`\b[Uu]nknown watchdog model\b|\bmodel of watchdog\b`), "devices.watchdog.model",
		`Use "i6300esb", or a host whose architecture and libvirt have the model: "diag288" is part of s390x.`,
	},
	{
		regexp.MustCompile(`\bIOMMU device: '`), "devices.iommu.model",
		`Use the model of the machine type: "intel" for q35, "smmuv3" for ARM's virt.`,
	},
	{
		regexp.MustCompile(`\bUnsupported interface '[^']*' for TPM\b`), "devices.tpm.version",
		`Use version = "2.0", or the model "tpm-tis".`,
	},
	{
		spiceDevice, "devices.graphics.type",
		`Set devices.graphics.type to "spice", and use a host whose QEMU has SPICE (Debian 12: package ` +
			"qemu-system-common, Debian 13: qemu-system-modules-spice, Fedora: qemu-ui-spice-core and qemu-char-spice).",
	},
	{
		noHugetlbfs, "memory.huge_pages",
		"Mount hugetlbfs for pages of this size on the host, and restart its libvirtd or virtqemud, which looks for " +
			"such mounts when it starts.",
	},
}
