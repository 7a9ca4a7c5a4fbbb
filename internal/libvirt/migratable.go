package libvirt

import (
	"context"
	"errors"

	golibvirt "libvirt.org/go/libvirt"
)

// CPUMatch says how a guest's CPU compares with the CPU that a host can provide.
type CPUMatch int

// The outcomes of a comparison, numbered as libvirt numbers them.
const (
	// CPUIncompatible says that the host can't run the guest.
	CPUIncompatible CPUMatch = iota
	// CPUIdentical says that the host provides exactly that CPU.
	CPUIdentical
	// CPUSuperset says that the host provides that CPU and more.
	CPUSuperset
)

// CPUComparison is the outcome of CompareCPU.
type CPUComparison struct {
	Match CPUMatch
	// Detail is libvirt's reason for CPUIncompatible: the features that the host lacks.
	Detail string
}

// CompareCPU compares a guest's CPU with the CPU that the host's hypervisor can provide to such a guest
// (virConnectCompareHypervisorCPU). cpuXML is the <cpu> element of a running domain. The others are as in the domain's
// XML: virtType "kvm", arch "x86_64", machine "pc-q35-7.2"; if empty, libvirt's default.
func (h *Host) CompareCPU(ctx context.Context, cpuXML, virtType, arch, machine string) (CPUComparison, error) {
	return call(ctx, h, readCall("comparing CPUs"), func(c *conn) (CPUComparison, error) {
		c.countCall("virConnectCompareHypervisorCPU")
		match, err := c.c.CompareHypervisorCPU("", arch, machine, virtType, cpuXML,
			golibvirt.CONNECT_COMPARE_CPU_FAIL_INCOMPATIBLE)
		var lv golibvirt.Error
		if errors.As(err, &lv) && lv.Code == golibvirt.ERR_CPU_INCOMPATIBLE {
			return CPUComparison{Match: CPUIncompatible, Detail: lv.Message}, nil
		}
		return CPUComparison{Match: CPUMatch(match)}, err
	})
}

// Snapshots returns the names of a domain's snapshots (virDomainListAllSnapshots). libvirt refuses to migrate a domain
// with snapshots.
func (h *Host) Snapshots(ctx context.Context, uuid string) ([]string, error) {
	s := readCall("listing the snapshots of domain " + uuid)
	return onDomain(ctx, h, s, uuid, func(c *conn, d *golibvirt.Domain) ([]string, error) {
		c.countCall("virDomainListAllSnapshots")
		list, err := d.ListAllSnapshots(0)
		names := make([]string, 0, len(list))
		for i := range list {
			name, nameErr := list[i].GetName()
			err = errors.Join(err, nameErr, list[i].Free())
			names = append(names, name)
		}
		return names, err
	})
}
