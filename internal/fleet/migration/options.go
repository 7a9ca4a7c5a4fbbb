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
	// MaxDowntimeLimit is the longest downtime that QEMU takes.
	MaxDowntimeLimit = 2000 * time.Second
)

// What becomes of disks that only the source reaches.
const (
	// CopyNone copies none: they block the move. It is the default.
	CopyNone = "none"
	// CopyFull copies them whole, each into one new image.
	CopyFull = "full"
	// CopyIncremental copies of each what is in its topmost image, into a new one that is based on the same files, which
	// are on the target already. A disk that is based on nothing is copied whole.
	CopyIncremental = "incremental"
)

// How memory is compressed on its way.
const (
	// CompressionNone sends it as it is. It is the default.
	CompressionNone = "none"
	// CompressionXBZRLE sends of a page that was sent before only what has changed in it.
	CompressionXBZRLE = "xbzrle"
	// CompressionZlib and CompressionZstd compress all pages. They take parallel connections.
	CompressionZlib = "zlib"
	CompressionZstd = "zstd"
)

// Compressions are all values of Options.Compression, the default first. The method that libvirt calls mt isn't among
// them: QEMU's developers found it to fail too often, and removed it.
var Compressions = []string{CompressionNone, CompressionXBZRLE, CompressionZlib, CompressionZstd}

// What becomes of a VM that a broken post-copy left in two parts.
const (
	// IrrecoverableKeep leaves both parts as they are: the next run tries again. It is the default.
	IrrecoverableKeep = "keep"
	// IrrecoverableDestroy ends both parts. What the guest had in memory is lost, and the VM is off.
	IrrecoverableDestroy = "destroy"
)

// OnIrrecoverables are all values of Options.OnIrrecoverable, the default first.
var OnIrrecoverables = []string{IrrecoverableKeep, IrrecoverableDestroy}

// CopyModes are all values of Options.CopyStorage, the default first.
var CopyModes = []string{CopyNone, CopyFull, CopyIncremental}

// Options tune a migration. Nil is not set: the next level's value, and in the end the default, counts.
type Options struct {
	// Transport is one of Transports; "" is TransportAuto.
	Transport string
	// CompletionTimeoutPerGiB is the time that a migration may take for each 10⁹ bytes of memory and of disks that are
	// copied before something is done about it. 0 is no limit.
	CompletionTimeoutPerGiB *time.Duration
	// ProgressTimeout is the time in which what remains to be copied has to shrink at least once. 0 is no limit.
	ProgressTimeout *time.Duration
	// MaxDowntime is how long the guest may stand still at the end. Nil leaves it to QEMU, which takes 300 ms; with the
	// stall detector it is 900 ms, which count once the migration stalls.
	MaxDowntime *time.Duration
	// AllowAutoConverge lets QEMU slow a guest down that writes faster than can be copied.
	AllowAutoConverge *bool
	// AllowPostCopy lets the guest go on on the target before all of its memory is there, once the completion timeout is
	// over. As in KubeVirt it takes AllowWorkloadDisruption too, whose default it is: where that is false, QEMU is
	// prepared for post-copy and never told to switch; but see StallDetector.
	AllowPostCopy *bool
	// AllowWorkloadDisruption allows what the guest's users notice, once the completion timeout is over: post-copy where
	// that is allowed, else a pause until all is copied.
	AllowWorkloadDisruption *bool
	// AllowNetworkChange allows moving a VM with an interface in a network that is each host's own (NAT, routed,
	// isolated): its address and its connections there don't survive.
	AllowNetworkChange *bool
	// RecoveryTimeout is how long a migration that broke in post-copy is tried to be resumed; it is tried once at least.
	RecoveryTimeout *time.Duration
	// OnIrrecoverable is one of OnIrrecoverables: what becomes of a VM whose migration broke in post-copy and can't
	// be resumed, or couldn't in RecoveryTimeout. "" is IrrecoverableKeep.
	OnIrrecoverable string
	// Bandwidth is the limit in bytes per second. 0 is no limit.
	Bandwidth *uint64
	// CopyStorage is one of CopyModes; "" is CopyNone. It counts for VMs that run.
	CopyStorage string
	// SharedFilesystems are directories of which all hosts see one, as libvirt's own setting of that name, for what
	// libvirt can't know to be shared. Their files are neither copied nor taken for each host's own.
	SharedFilesystems []string
	// SharedDisks are keys of disks of which the same holds, besides those that the VM's own record names.
	SharedDisks []string
	// KeepSourceDisks says whether the images that were copied stay at the source once the VM is on the target.
	KeepSourceDisks *bool
	// ParallelConnections is how many connections memory is copied through. 0 is one, without QEMU's multifd.
	ParallelConnections *int
	// Compression is one of Compressions; "" is CompressionNone.
	Compression string
	// PeerToPeer has the source's libvirt manage the migration by itself, rather than this process: it goes on whatever
	// becomes of who ordered it.
	PeerToPeer *bool
	// StallDetector has a guest that writes faster than can be copied noticed from iteration to iteration, rather than by
	// the completion timeout: what is allowed is done about it at once, and at a moment when little remains, or the
	// migration is aborted. As in KubeVirt, with it AllowPostCopy alone is enough for a switch when the completion
	// timeout is over.
	StallDetector *bool
}

// Over returns the options with what is not set taken from others.
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
	// Disruption follows post-copy on the level where post-copy was allowed, not from one further out.
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

// WithDefaults returns the options with all but MaxDowntime and SharedFilesystems set.
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

// maxParallelConnections is what QEMU takes.
const maxParallelConnections = 255

// Validate says what is wrong with the options by themselves. The problems' paths are names of options.
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

// compressionMismatch says that the compression can't work with that number of parallel connections.
func (o Options) compressionMismatch(connections int) bool {
	switch o.Compression {
	case CompressionXBZRLE:
		return connections > 0
	case CompressionZlib, CompressionZstd:
		return connections == 0
	}
	return false
}

// compressionMismatchText explains that.
func (o Options) compressionMismatchText() string {
	if o.Compression == CompressionXBZRLE {
		return `"xbzrle" works without parallel connections only`
	}
	return fmt.Sprintf("%q works with parallel connections only", o.Compression)
}

// What takes newer hosts.
var (
	// parallelPostCopy is the version of QEMU that can switch to post-copy while it copies through several connections.
	// Those before it crash on the target, while libvirt reports success and removes the source.
	parallelPostCopy = libvirt.Version{Major: 10, Minor: 1}
	// parallelCompression is the version of libvirt that can compress what goes through parallel connections.
	parallelCompression = libvirt.Version{Major: 9, Minor: 4}
)

func hypervisorVersion(h *libvirt.HostInfo) libvirt.Version { return h.HypervisorVersion }

func libvirtVersion(h *libvirt.HostInfo) libvirt.Version { return h.LibvirtVersion }

// Blockers says which options the two hosts can't take together.
func (o Options) Blockers(source, target *libvirt.HostInfo) []Blocker {
	o = o.WithDefaults()
	var blockers []Blocker
	block := func(option, message, remedy string) {
		blockers = append(blockers, Blocker{
			Reason: OptionsNotSupported, Status: status.False, Attribute: "migration_options." + option,
			Message: message, Remedy: remedy,
		})
	}
	// tooOld names the first host that has less than that version, "" is none.
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
	case o.compressionMismatch(*o.ParallelConnections): // One may come from a policy, the other from here.
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

// gigabyte is what KubeVirt counts the completion timeout in, whatever the option is called.
const gigabyte = 1_000_000_000

// Budget is the time after which a migration of that many bytes is taken to converge no more. 0 is no limit.
func (o Options) Budget(bytes uint64) time.Duration {
	perGiB := *o.WithDefaults().CompletionTimeoutPerGiB
	return perGiB * time.Duration((bytes+gigabyte-1)/gigabyte) //nolint:gosec // No memory is that large.
}
