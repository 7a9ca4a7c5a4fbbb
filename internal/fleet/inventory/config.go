package inventory

import (
	"context"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// HostConfig is one host.
type HostConfig struct {
	// URI is libvirt's connection URI.
	URI string
	// Dial opens streams to unix sockets on the host, for URIs over SSH.
	Dial libvirt.DialFunc
	// ConnectTimeout bounds the opening of one connection. 0 is libvirt.DefaultConnectTimeout.
	ConnectTimeout time.Duration
	// Tunnel prepares a connection that one migration has for itself, for URIs over SSH. Nil rules out the transport that
	// needs it.
	Tunnel func() (migration.Tunnel, error)
	// ReadEnd returns the last n bytes of a file on the host. Nil where files can't be read.
	ReadEnd func(ctx context.Context, path string, n int) ([]byte, error)
	// Absent returns which of the paths lead to nothing on the host; what can't be told is not among them. Nil where files
	// can't be looked for.
	Absent func(ctx context.Context, paths ...string) ([]string, error)
	// Close ends what Dial stands on. It may be nil.
	Close func() error
	// Labels are matched by placement.
	Labels map[string]string
	// MemoryLimit is how many bytes of memory may be committed to VMs. 0 is the host's own memory without MemoryReserve.
	MemoryLimit uint64
	// MemoryReserve is how many bytes are kept for the host itself where there is no MemoryLimit. Nil is
	// DefaultMemoryReserve.
	MemoryReserve *uint64
	// OvercommitGuestOverhead says that what QEMU needs in addition to the guest's memory doesn't count.
	OvercommitGuestOverhead bool
	// MigrationAddress is where the host's QEMU takes migrations from the other hosts: a name or an IP. Empty leaves it to
	// the host's libvirt.
	MigrationAddress string
	// PeerURI is where the other hosts' libvirt reaches the host's. Empty rules out migrations that they manage among
	// themselves.
	PeerURI string
	// Devices are the devices that VMs may ask for by class, in the order in which they are given.
	Devices map[string][]domain.HostPart
	// Unschedulable keeps placement from choosing the host.
	Unschedulable bool
	// Fenced gives the host up: it is never asked, and its VMs are taken to be gone. Whoever sets it vouches that the host
	// is really off.
	Fenced bool
}
