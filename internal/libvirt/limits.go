package libvirt

import (
	"context"
	"errors"
	"strings"

	golibvirt "libvirt.org/go/libvirt"
)

// Controller is a controller of the host's cgroups, by which libvirt limits a domain.
type Controller string

// The controllers.
const (
	ControllerCPU    Controller = "cpu"
	ControllerMemory Controller = "memory"
	ControllerBlkio  Controller = "blkio"
)

// HasController reports whether a running domain is in a cgroup of the controller. If it isn't, libvirt refuses to
// limit it, or ignores limits that its definition has (virDomainGetSchedulerParametersFlags,
// virDomainGetMemoryParameters, virDomainGetBlkioParameters).
func (h *Host) HasController(ctx context.Context, uuid string, controller Controller) (bool, error) {
	var procedure string
	var ask func(*golibvirt.Domain) error
	switch controller {
	case ControllerCPU:
		procedure, ask = "virDomainGetSchedulerParametersFlags", func(d *golibvirt.Domain) error {
			_, err := d.GetSchedulerParametersFlags(golibvirt.DOMAIN_AFFECT_LIVE)
			return err
		}
	case ControllerMemory:
		procedure, ask = "virDomainGetMemoryParameters", func(d *golibvirt.Domain) error {
			_, err := d.GetMemoryParameters(golibvirt.DOMAIN_AFFECT_LIVE)
			return err
		}
	case ControllerBlkio:
		procedure, ask = "virDomainGetBlkioParameters", func(d *golibvirt.Domain) error {
			_, err := d.GetBlkioParameters(golibvirt.DOMAIN_AFFECT_LIVE)
			return err
		}
	}
	s := readCall("reading limits of domain " + uuid)
	return onDomain(ctx, h, s, uuid, func(c *conn, d *golibvirt.Domain) (bool, error) {
		c.countCall(procedure)
		err := ask(d)
		if !errors.Is(err, golibvirt.ERR_OPERATION_INVALID) {
			return err == nil, err
		}
		// The host has the controller, and no I/O scheduler that has weights.
		refusal, _ := errors.AsType[golibvirt.Error](err)
		if controller == ControllerBlkio && strings.Contains(refusal.Message, "valid only for") {
			return true, nil
		}
		// A domain that has ended meanwhile is refused in the same way.
		if active, activeErr := d.IsActive(); activeErr != nil || !active {
			return false, err
		}
		return false, nil
	})
}
