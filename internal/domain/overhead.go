package domain

import (
	"slices"
	"strings"

	"github.com/beevik/etree"
)

// The memory that QEMU needs on its host in addition to the guest's memory. The numbers are those of KubeVirt's
// GetMemoryOverhead, without the memory for what a pod has in addition to QEMU.
const (
	overheadMebibyte = 1 << 20

	overheadQEMU     = 30 * overheadMebibyte
	overheadVCPU     = 8 * overheadMebibyte
	overheadIOThread = 8 * overheadMebibyte
	overheadVideo    = 32 * overheadMebibyte
	// overheadFlash is for the firmware of aarch64, which is kept in two images of 64 MiB.
	overheadFlash = 128 * overheadMebibyte
	overheadTPM   = 53 * overheadMebibyte
	overheadSEV   = 256 * overheadMebibyte
	// overheadVFIO is for the host's devices, which need the guest's memory to be mapped for them.
	overheadVFIO = 1024 * overheadMebibyte
	// overheadPages is how many bytes of memory need one byte of page tables.
	overheadPages = 512
)

// Overhead returns how many bytes QEMU needs on its host in addition to the guest's memory.
func (d *Definition) Overhead() uint64 {
	spec := Spec{Arch: attr(child(d.root(), "os", "type"), "arch"), CPU: d.readCPU(), Memory: d.readMemory()}
	sum := overheadOf(spec, spec.UsableMemory()+d.deviceMemory())
	for _, video := range d.devices("video") {
		if attr(child(video, "model"), "type") != "none" {
			sum += overheadVideo
			break
		}
	}
	if len(d.devices("tpm")) > 0 {
		sum += overheadTPM
	}
	isVFIO := func(e *etree.Element) bool { return e.Tag == "hostdev" || attr(e, "type") == "hostdev" }
	if slices.ContainsFunc(d.devices("hostdev", "interface"), isVFIO) {
		sum += overheadVFIO
	}
	if strings.HasPrefix(attr(child(d.root(), "launchSecurity"), "type"), "sev") {
		sum += overheadSEV
	}
	return sum
}

// NewOverhead returns the Overhead of the definition that New creates from the spec, which has a screen.
func NewOverhead(s Spec) uint64 {
	if s.CPU.VCPUs == nil {
		s.CPU.VCPUs = new(pick(s.CPU.Sockets, nil, 1) * pick(s.CPU.Cores, nil, 1) * pick(s.CPU.Threads, nil, 1))
	}
	return overheadOf(s, s.UsableMemory()+totalSize(s.NVDIMMs)) + overheadVideo
}

func overheadOf(s Spec, memory uint64) uint64 {
	sum := overheadQEMU + overheadIOThread + overheadVCPU*max(1, uint64(pick(s.CPU.VCPUs, nil, 1))) + memory/overheadPages
	if s.Arch == "aarch64" {
		sum += overheadFlash
	}
	return sum
}
