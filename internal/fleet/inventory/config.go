package inventory

import (
	"context"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// HostConfig is the configuration of one host.
type HostConfig struct {
	// URI is libvirt's connection URI.
	URI string
	// Dial opens streams to unix sockets on the host, for URIs over SSH.
	Dial libvirt.DialFunc
	// ConnectTimeout limits how long opening a connection may take. 0 is libvirt.DefaultConnectTimeout.
	ConnectTimeout time.Duration
	// Tunnel prepares a connection for the use of one migration, for URIs over SSH. If it is nil, the transport that needs
	// such a connection is not available.
	Tunnel func() (migration.Tunnel, error)
	// ReadEnd returns the last n bytes of a file on the host. It is nil if files can't be read. For its error, see
	// hostset.Host.
	ReadEnd func(ctx context.Context, path string, n int) ([]byte, error)
	// Exist returns, by path, whether the host has the file; paths of which this is unknown are left out. It is nil if the
	// host's files can't be checked.
	Exist func(ctx context.Context, paths ...string) (map[string]bool, error)
	// SameFile returns those of the paths that lead to the file of path on the host, for example through a symbolic link.
	// It is nil, or its error is libvirt.ErrUnsupported, if not all of the host's files can be compared: the result then
	// has those that are known to lead there.
	SameFile func(ctx context.Context, path string, paths ...string) ([]string, error)
	// SHA256 returns the SHA-256 of a file on the host, in hexadecimal. It is nil if the host can't compute it.
	SHA256 func(ctx context.Context, path string) (string, error)
	// FileID returns what identifies a file or a directory on the host, as long as its filesystem is mounted. It is nil if
	// the host's files can't be identified.
	FileID func(ctx context.Context, path string) (string, error)
	// FileMarks returns, by path, what tells a file from another host's at the same path; files that can't be seen are
	// left out. It is nil if the host's files can't be compared so.
	FileMarks func(ctx context.Context, paths ...string) (map[string]FileMark, error)
	// DirectoryMarks is FileMarks for all files in a directory. Its error says that not all of them can be seen. It is nil
	// if the host's directories can't be listed.
	DirectoryMarks func(ctx context.Context, dir string) (map[string]FileMark, error)
	// Close ends the connection that Dial uses. It may be nil.
	Close func() error
	// Labels are the labels that placement matches.
	Labels map[string]string
	// MemoryLimit is how many bytes of memory may be committed to VMs. 0 is the host's memory minus MemoryReserve.
	MemoryLimit uint64
	// MemoryReserve is how many bytes are kept for the host itself if MemoryLimit is 0. Nil is DefaultMemoryReserve.
	MemoryReserve *uint64
	// OvercommitGuestOverhead excludes the memory that QEMU needs in addition to the guest's from what is committed.
	OvercommitGuestOverhead bool
	// StorageOverprovisioningFactor limits what the volumes of a storage pool may grow to, to this many times the pool's
	// capacity. 0 is no limit.
	StorageOverprovisioningFactor float64
	// MigrationAddress is the name or IP address on which the host's QEMU accepts migrations from the other hosts. If it
	// is empty, the host's libvirt chooses.
	MigrationAddress string
	// PeerURI is the URI by which the other hosts' libvirt connects to this host's. If it is empty, peer-to-peer
	// migrations to this host aren't possible.
	PeerURI string
	// Devices are the devices that VMs may request by class, in the configured order.
	Devices map[string][]domain.HostPart
	// Unschedulable keeps placement from choosing the host.
	Unschedulable bool
	// Fenced gives the host up: its VMs are considered gone. The user who sets it guarantees that the host is really off.
	// It is asked nothing but whether it still runs a VM that is to be created again, see AskFenced.
	Fenced bool
}
