package migration

import (
	"context"
	"fmt"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
)

// checkVsock checks that no VM that runs on the target has the address of this one's vsock device, if that is a fixed
// one: a host has each address once.
func (t preflight) checkVsock(ctx context.Context, f *blockerList) {
	const path = "devices.vsock.cid"
	cid := t.vm.Facts.Facts[path]
	if cid == "" || cid == domain.Auto {
		return
	}
	others, err := t.target.Domains(ctx)
	if err != nil {
		f.unanswered(VsockCIDTaken, path, t.target, "the VMs", err)
		return
	}
	for _, other := range others {
		if other.UUID == t.vm.UUID || other.LiveXML == "" {
			continue
		}
		definition, err := domain.Parse(other.LiveXML)
		if err == nil && definition.VsockCID() == cid {
			f.block(VsockCIDTaken, path, fmt.Sprintf("host %q runs VM %q, whose vsock device has the address %s, too",
				t.target.Name(), other.Name, cid), "Give one of them another address, or use \"auto\".")
		}
	}
}
