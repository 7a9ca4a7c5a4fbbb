package migration

import (
	"fmt"
	"path"
	"slices"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// KubeVirt's defaults.
const (
	DefaultCompletionTimeoutPerGiB = 150 * time.Second
	DefaultProgressTimeout         = 150 * time.Second
	// MaxDowntimeLimit is the longest downtime that QEMU accepts.
	MaxDowntimeLimit = 2000 * time.Second
)

// What happens to disks that only the source reaches.
const (
	// CopyNone copies none of them, so they block the move. It is the default.
	CopyNone = "none"
	// CopyFull copies them whole, each into one new image.
	CopyFull = "full"
	// CopyIncremental copies the topmost image of each disk into a new image that is based on the same files, which the
	// target must already have. A disk without a backing image is copied whole.
	CopyIncremental = "incremental"
)

// Compression of memory during the transfer.
const (
	// CompressionNone sends memory uncompressed. It is the default.
	CompressionNone = "none"
	// CompressionXBZRLE sends only the changes of a page that was sent before.
	CompressionXBZRLE = "xbzrle"
	// CompressionZlib and CompressionZstd compress all pages. They require parallel connections.
	CompressionZlib = "zlib"
	CompressionZstd = "zstd"
)

// Compressions lists the values of Options.Compression, the default first. libvirt's method mt is missing: QEMU's
// developers removed it because it failed too often.
var Compressions = []string{CompressionNone, CompressionXBZRLE, CompressionZlib, CompressionZstd}

// What happens to a VM that a broken post-copy left in two parts.
const (
	// IrrecoverableKeep leaves both parts as they are: the next run tries again to resume. It is the default.
	IrrecoverableKeep = "keep"
	// IrrecoverableDestroy ends both parts. What the guest had in memory is lost, and the VM is off.
	IrrecoverableDestroy = "destroy"
)

// OnIrrecoverables lists the values of Options.OnIrrecoverable, the default first.
var OnIrrecoverables = []string{IrrecoverableKeep, IrrecoverableDestroy}

// CopyModes lists the values of Options.CopyStorage, the default first.
var CopyModes = []string{CopyNone, CopyFull, CopyIncremental}

// Options tune a migration. An option that is not set is taken from the next level, and in the end from the defaults.
// For pointers and slices nil means not set.
type Options struct {
	// Transport is one of Transports. "" means TransportAuto.
	Transport string
	// CompletionTimeoutPerGiB is the time that a migration may take for each 10⁹ bytes of memory and copied disks
	// before the monitor acts. 0 means no limit.
	CompletionTimeoutPerGiB *time.Duration
	// ProgressTimeout is the time in which what remains to be copied has to shrink at least once. 0 means no limit.
	ProgressTimeout *time.Duration
	// MaxDowntime is how long the guest may be paused at the end. Nil leaves it to QEMU, which uses 300 ms; with the
	// stall detector it means 900 ms, which apply once the migration stalls.
	MaxDowntime *time.Duration
	// AllowAutoConverge lets QEMU slow down a guest that writes faster than memory can be copied.
	AllowAutoConverge *bool
	// AllowPostCopy lets the guest continue on the target before all of its memory is there, once the completion
	// timeout is over. As in KubeVirt it requires AllowWorkloadDisruption too, whose default it is: if
	// AllowWorkloadDisruption is false, QEMU is prepared for post-copy but never told to switch. StallDetector changes
	// this.
	AllowPostCopy *bool
	// AllowWorkloadDisruption allows disruption that the guest's users notice, once the completion timeout is over:
	// post-copy if allowed, otherwise a pause until all is copied.
	AllowWorkloadDisruption *bool
	// AllowNetworkChange allows moving a VM with an interface in a network that is local to each host (NAT, routed,
	// isolated): the guest's address and its connections there are lost.
	AllowNetworkChange *bool
	// RecoveryTimeout is how long to keep trying to resume a migration that broke in post-copy. At least one attempt is
	// made.
	RecoveryTimeout *time.Duration
	// OnIrrecoverable is one of OnIrrecoverables: what happens to a VM whose migration broke in post-copy and can't be
	// resumed, or wasn't within RecoveryTimeout. "" means IrrecoverableKeep.
	OnIrrecoverable string
	// Bandwidth is the limit in bytes per second. 0 means no limit.
	Bandwidth *uint64
	// CopyStorage is one of CopyModes. "" means CopyNone. It applies to running VMs.
	CopyStorage string
	// SharedFilesystems are directories that all hosts share, like libvirt's own setting of that name, for filesystems
	// that libvirt can't detect as shared. Their files are neither copied nor taken as local to a host.
	SharedFilesystems []string
	// SharedDisks are the keys of disks that all hosts share, in addition to those that the VM's own record names.
	SharedDisks []string
	// KeepSourceDisks says whether copied images stay at the source once the VM is on the target.
	KeepSourceDisks *bool
	// ParallelConnections is the number of connections that copy memory. 0 means one, without QEMU's multifd.
	ParallelConnections *int
	// Compression is one of Compressions. "" means CompressionNone.
	Compression string
	// PeerToPeer lets the source's libvirt manage the migration, rather than this process: the migration continues if
	// this process is killed.
	PeerToPeer *bool
	// StallDetector detects from iteration to iteration a guest that writes faster than memory can be copied, rather
	// than by the completion timeout. A stalled migration is disrupted at once, if allowed, at a moment when little
	// remains, or else aborted. As in KubeVirt, AllowPostCopy is then enough for a switch when the completion timeout
	// is over.
	StallDetector *bool
}

// Over returns the options, with those that are not set taken from others. SharedDisks are not: they are those of one
// VM.
func (o Options) Over(others Options) Options {
	if o.Transport == "" {
		o.Transport = others.Transport
	}
	if o.CopyStorage == "" {
		o.CopyStorage = others.CopyStorage
	}
	if o.SharedFilesystems == nil {
		o.SharedFilesystems = others.SharedFilesystems
	}
	if o.OnIrrecoverable == "" {
		o.OnIrrecoverable = others.OnIrrecoverable
	}
	if o.Compression == "" {
		o.Compression = others.Compression
	}
	// AllowWorkloadDisruption follows AllowPostCopy on the level that sets it, and not on an outer level.
	if o.AllowPostCopy != nil && o.AllowWorkloadDisruption == nil {
		o.AllowWorkloadDisruption = o.AllowPostCopy
	}
	setDefault(&o.CompletionTimeoutPerGiB, others.CompletionTimeoutPerGiB)
	setDefault(&o.ProgressTimeout, others.ProgressTimeout)
	setDefault(&o.MaxDowntime, others.MaxDowntime)
	setDefault(&o.AllowAutoConverge, others.AllowAutoConverge)
	setDefault(&o.AllowPostCopy, others.AllowPostCopy)
	setDefault(&o.AllowWorkloadDisruption, others.AllowWorkloadDisruption)
	setDefault(&o.AllowNetworkChange, others.AllowNetworkChange)
	setDefault(&o.RecoveryTimeout, others.RecoveryTimeout)
	setDefault(&o.Bandwidth, others.Bandwidth)
	setDefault(&o.KeepSourceDisks, others.KeepSourceDisks)
	setDefault(&o.ParallelConnections, others.ParallelConnections)
	setDefault(&o.PeerToPeer, others.PeerToPeer)
	setDefault(&o.StallDetector, others.StallDetector)
	return o
}

// WithDefaults returns the options with all but MaxDowntime, SharedFilesystems and SharedDisks set.
func (o Options) WithDefaults() Options {
	return o.Over(Options{
		Transport:               TransportAuto,
		CompletionTimeoutPerGiB: new(DefaultCompletionTimeoutPerGiB),
		ProgressTimeout:         new(DefaultProgressTimeout),
		AllowAutoConverge:       new(false),
		AllowPostCopy:           new(false),
		AllowNetworkChange:      new(false),
		RecoveryTimeout:         new(DefaultRecoveryTimeout),
		OnIrrecoverable:         IrrecoverableKeep,
		Bandwidth:               new(uint64(0)),
		CopyStorage:             CopyNone,
		KeepSourceDisks:         new(true),
		ParallelConnections:     new(0),
		Compression:             CompressionNone,
		PeerToPeer:              new(false),
		StallDetector:           new(false),
	}.Over(Options{}))
}

func setDefault[T any](to **T, value *T) {
	if *to == nil {
		*to = value
	}
}

// maxParallelConnections is the largest number that QEMU accepts.
const maxParallelConnections = 255

// Validate returns what is wrong with the options by themselves. The paths of the problems are names of options.
func (o Options) Validate() []domain.Problem {
	var problems []domain.Problem
	refuse := func(option, format string, args ...any) {
		problems = append(problems, domain.Problem{Path: option, Message: fmt.Sprintf(format, args...)})
	}
	if t := o.Transport; t != "" && !slices.Contains(Transports, t) {
		refuse("transport", "It must be one of %q.", Transports)
	}
	if c := o.CopyStorage; c != "" && !slices.Contains(CopyModes, c) {
		refuse("copy_storage", "It must be one of %q.", CopyModes)
	}
	for _, dir := range o.SharedFilesystems {
		if !path.IsAbs(dir) || path.Clean(dir) != dir || dir == "/" {
			refuse("shared_filesystems", "%q is not the whole path of a directory below the root.", dir)
		}
	}
	if on := o.OnIrrecoverable; on != "" && !slices.Contains(OnIrrecoverables, on) {
		refuse("on_irrecoverable", "It must be one of %q.", OnIrrecoverables)
	}
	if d := o.CompletionTimeoutPerGiB; d != nil && *d < 0 {
		refuse("completion_timeout_per_gib", "It can't be negative; 0s is no limit.")
	}
	if d := o.ProgressTimeout; d != nil && *d < 0 {
		refuse("progress_timeout", "It can't be negative; 0s is no limit.")
	}
	if d := o.RecoveryTimeout; d != nil && *d < 0 {
		refuse("recovery_timeout", "It can't be negative; 0s tries once.")
	}
	if d := o.MaxDowntime; d != nil && (*d < time.Millisecond || *d > MaxDowntimeLimit) {
		refuse("max_downtime", "It must be between 1ms and %v.", MaxDowntimeLimit)
	}
	if n := o.ParallelConnections; n != nil && (*n < 0 || *n > maxParallelConnections) {
		refuse("parallel_connections", "It must be between 0 and %d.", maxParallelConnections)
	}
	if c := o.Compression; c != "" && !slices.Contains(Compressions, c) {
		refuse("compression", "It must be one of %q.", Compressions)
	} else if n := o.ParallelConnections; n != nil && o.compressionMismatch(*n) {
		refuse("compression", "%s.", o.compressionMismatchText())
	}
	if o.relaysPeerToPeer() {
		refuse("peer_to_peer", "%s.", errRelayedPeerToPeer)
	}
	return problems
}

// compressionMismatch says whether the compression can't work with that number of parallel connections.
func (o Options) compressionMismatch(connections int) bool {
	switch o.Compression {
	case CompressionXBZRLE:
		return connections > 0
	case CompressionZlib, CompressionZstd:
		return connections == 0
	}
	return false
}

// compressionMismatchText explains a mismatch of compression and parallel connections.
func (o Options) compressionMismatchText() string {
	if o.Compression == CompressionXBZRLE {
		return `"xbzrle" works without parallel connections only`
	}
	return fmt.Sprintf("%q works with parallel connections only", o.Compression)
}

// Features that require newer hosts.
var (
	// parallelPostCopy is the first version of QEMU that can switch to post-copy while it copies through several
	// connections. Earlier versions crash on the target, while libvirt reports success and removes the source.
	parallelPostCopy = libvirt.Version{Major: 10, Minor: 1}
	// parallelCompression is the first version of libvirt that can compress what parallel connections send.
	parallelCompression = libvirt.Version{Major: 9, Minor: 4}
)

func hypervisorVersion(h *libvirt.HostInfo) libvirt.Version { return h.HypervisorVersion }

func libvirtVersion(h *libvirt.HostInfo) libvirt.Version { return h.LibvirtVersion }

// Blockers returns a blocker for each option that the two hosts don't support together.
func (o Options) Blockers(source, target *libvirt.HostInfo) []Blocker {
	o = o.WithDefaults()
	var blockers []Blocker
	block := func(option, message, remedy string) {
		blockers = append(blockers, Blocker{
			Reason: OptionsNotSupported, Status: status.False, Attribute: "migration_options." + option,
			Message: message, Remedy: remedy,
		})
	}
	// tooOld returns the name of the first host that is older than that version, "" for none.
	tooOld := func(least libvirt.Version, of func(*libvirt.HostInfo) libvirt.Version) string {
		for _, host := range []*libvirt.HostInfo{source, target} {
			if v := of(host); !v.AtLeast(least.Major, least.Minor, least.Micro) {
				return fmt.Sprintf("%s, and host %q has %s", least, host.Hostname, v)
			}
		}
		return ""
	}
	if *o.AllowPostCopy && *o.ParallelConnections > 0 {
		if old := tooOld(parallelPostCopy, hypervisorVersion); old != "" {
			block("parallel_connections", "post-copy together with parallel connections loses the VM before QEMU "+old,
				"Set parallel_connections = 0 or allow_post_copy = false.")
		}
	}
	switch {
	case o.compressionMismatch(*o.ParallelConnections): // One may come from a policy, the other from the move itself.
		block("compression", fmt.Sprintf("compression %s, and parallel_connections is %d", o.compressionMismatchText(),
			*o.ParallelConnections), `Change parallel_connections, or set compression = "none".`)
	case o.Compression == CompressionZlib, o.Compression == CompressionZstd:
		if old := tooOld(parallelCompression, libvirtVersion); old != "" {
			block("compression", fmt.Sprintf("compression %q takes libvirt %s", o.Compression, old),
				`Set compression = "none".`)
		}
	}
	return blockers
}

// gigabyte is the unit of KubeVirt's completion timeout, despite the option's name.
const gigabyte = 1_000_000_000

// Budget returns the time that a migration of that many bytes may take before it counts as not converging. 0 means no
// limit.
func (o Options) Budget(bytes uint64) time.Duration {
	perGiB := *o.WithDefaults().CompletionTimeoutPerGiB
	return perGiB * time.Duration((bytes+gigabyte-1)/gigabyte) //nolint:gosec // No memory is that large.
}
