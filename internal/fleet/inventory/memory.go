package inventory

import (
	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
)

// DefaultMemoryReserve is how many bytes a host keeps for itself: the default of OpenStack's reserved_host_memory_mb.
const DefaultMemoryReserve = 512 << 20

// MemoryLimit returns how many bytes may be committed to VMs on the host.
func (a Reply) MemoryLimit() uint64 {
	if a.Host.Config.MemoryLimit > 0 {
		return a.Host.Config.MemoryLimit
	}

	reserve := uint64(DefaultMemoryReserve)
	if own := a.Host.Config.MemoryReserve; own != nil {
		reserve = *own
	}

	return a.Info.MemoryBytes - min(a.Info.MemoryBytes, reserve)
}

// Committed returns how many bytes are committed to VMs on the host: to those that run, and to those that are about to
// be started. The VM whose UUID is leaving doesn't count.
func (a Reply) Committed(leaving string) uint64 {
	var sum uint64

	for uuid, e := range a.View.Domains {
		if uuid != leaving {
			sum += a.Host.CommittedMemory(e)
		}
	}

	return sum
}

// ShutoffMemory returns how many bytes the VMs on the host that are off would use, without the VM that leaves.
func (a Reply) ShutoffMemory(leaving string) uint64 {
	var sum uint64

	for uuid, e := range a.View.Domains {
		if uuid == leaving || e.Active() || (Reply{Host: a.Host, Domain: e}).MigratedAway() {
			continue
		}

		if committed, onceStarted := e.guestMemory(); committed == 0 {
			sum += a.Host.withOverhead(onceStarted, e)
		}
	}

	return sum
}

// CommittedMemory returns how much of the host's memory the domain may use now.
func (h *Host) CommittedMemory(e *Entry) uint64 {
	committed, _ := e.guestMemory()

	return h.withOverhead(committed, e)
}

// StartedMemory returns how much of the host's memory the domain would use if it were started with its definition.
func (h *Host) StartedMemory(e *Entry) uint64 {
	_, bytes := e.guestMemory()
	if p := e.Parse(); bytes > 0 && p.Persistent != nil && !h.Config.OvercommitGuestOverhead {
		bytes += p.Persistent.Overhead()
	}

	return bytes
}

// withOverhead returns how much of the host's memory a guest with that many bytes uses, QEMU included. Zero bytes mean
// that the VM is off, and has no overhead.
func (h *Host) withOverhead(bytes uint64, e *Entry) uint64 {
	if bytes == 0 || h.Config.OvercommitGuestOverhead {
		return bytes
	}

	return bytes + e.Overhead()
}

// guestMemory returns what the guest may use now, and once it is started with its definition. It counts the most that
// the guest can get without asking the host again, not what its balloon leaves it.
func (e *Entry) guestMemory() (committed, onceStarted uint64) {
	e.memoryOnce.Do(func() {
		p := e.Parse()
		if p.Definition() == nil {
			return
		}

		e.onceStarted = usableMemory(p.persistentSpec)

		switch {
		case p.LiveSpec != nil:
			e.committed = usableMemory(p.LiveSpec)
		case e.OwnMetadata().Creating != nil:
			e.committed = e.onceStarted
		}
	})

	return e.committed, e.onceStarted
}

func usableMemory(spec *domain.Spec) uint64 {
	if spec == nil {
		return 0
	}

	return spec.UsableMemory()
}
