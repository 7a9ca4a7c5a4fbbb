package libvirt

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	golibvirt "libvirt.org/go/libvirt"
)

// How long a migration may take.
const (
	// migrateTimeout is the deadline of a migration whose context has none.
	migrateTimeout = 24 * time.Hour
	// abortPatience is how long an aborted migration may take to end.
	abortPatience = 30 * time.Second
	// handoverPatience is how long a migration that can no longer be aborted may take: in post-copy the guest runs on the
	// target already and its memory is being transferred, and giving up could only make the migration fail.
	handoverPatience = 5 * time.Minute
	// abortInterval is how often the abort is repeated: when a migration begins there may be nothing to abort yet.
	abortInterval = 250 * time.Millisecond
)

// Migration says how a running domain is migrated. The zero value copies the memory of a domain whose disks both hosts
// reach, makes the domain persistent on the target and undefines it at the source.
type Migration struct {
	// URI is the address on which the target's QEMU listens and to which the source's connects: "tcp://10.0.0.12", with or
	// without a port, or "unix:///path", a socket of the same path on both hosts. If "", the target's libvirt chooses.
	URI string
	// DisksURI is the same for the disks' data; if "", libvirt chooses.
	DisksURI string
	// PeerURI makes the source's daemon manage the migration (peer-to-peer), even if the process that requested it ends.
	// It is the URI at which that daemon reaches the target's, such as "qemu+tls://10.0.0.12/system". If "", this process
	// manages the migration.
	PeerURI string

	// Paused leaves the domain paused on the target.
	Paused bool
	// NonSharedIncremental copies disks onto existing images, NonSharedFull copies whole disks with their backing chains.
	NonSharedIncremental, NonSharedFull bool
	// MigrateDisks are the targets ("vda") of the disks that are copied; nil means all that libvirt would copy.
	MigrateDisks []string
	// TargetXML is the definition that the target runs, and PersistentXML the one that it keeps, if they differ from those
	// of the source in what the guest doesn't see. Never log them.
	TargetXML, PersistentXML string
	// AutoConverge slows the guest down when it writes to its memory faster than that can be copied.
	AutoConverge bool
	// PostCopy allows StartPostCopy; PostCopyResume resumes a migration that failed in post-copy.
	PostCopy, PostCopyResume bool
	// TLS encrypts the migration with the hosts' own certificates.
	TLS bool
	// Unsafe skips libvirt's check that the disks are shared and not cached. A failure of that check is ErrUnsafe.
	Unsafe bool
	// KeepSource keeps the definition at the source, Transient creates none on the target.
	KeepSource, Transient bool

	// Bandwidth is in bytes per second, 0 is unlimited. libvirt counts in MiB, so it is rounded up to at least one.
	Bandwidth uint64
	// ParallelConnections is the number of connections for the memory (multifd); 0 means one connection without multifd.
	ParallelConnections int
	// Compression is "xbzrle", with parallel connections "zlib" or "zstd" (since libvirt 9.4); "" is none.
	Compression string

	// Ahead has connections for the migration, which Migrate then doesn't have to open. It may be nil.
	Ahead *MigrationAhead

	// GiveUp, when closed, ends the wait for a migration without aborting it: QEMU then continues on its own. It may be
	// nil.
	GiveUp <-chan struct{}
}

// migrateFlags returns libvirt's flags.
func (m *Migration) migrateFlags() golibvirt.DomainMigrateFlags {
	flags := golibvirt.MIGRATE_LIVE
	for _, option := range []struct {
		on   bool
		flag golibvirt.DomainMigrateFlags
	}{
		{m.PeerURI != "", golibvirt.MIGRATE_PEER2PEER},
		{!m.Transient, golibvirt.MIGRATE_PERSIST_DEST},
		{!m.KeepSource, golibvirt.MIGRATE_UNDEFINE_SOURCE},
		{m.Paused, golibvirt.MIGRATE_PAUSED},
		{m.NonSharedIncremental, golibvirt.MIGRATE_NON_SHARED_INC},
		{m.NonSharedFull, golibvirt.MIGRATE_NON_SHARED_DISK},
		{m.AutoConverge, golibvirt.MIGRATE_AUTO_CONVERGE},
		{m.PostCopy, golibvirt.MIGRATE_POSTCOPY},
		{m.PostCopyResume, golibvirt.MIGRATE_POSTCOPY_RESUME},
		{m.TLS, golibvirt.MIGRATE_TLS},
		{m.Unsafe, golibvirt.MIGRATE_UNSAFE},
		{m.ParallelConnections != 0, golibvirt.MIGRATE_PARALLEL},
		{m.Compression != "", golibvirt.MIGRATE_COMPRESSED},
	} {
		if option.on {
			flags |= option.flag
		}
	}
	return flags
}

// migrateParameters returns libvirt's parameters.
func (m *Migration) migrateParameters() *golibvirt.DomainMigrateParameters {
	return &golibvirt.DomainMigrateParameters{
		URISet: m.URI != "", URI: m.URI,
		DisksURISet: m.DisksURI != "", DisksURI: m.DisksURI,
		MigrateDisksSet: len(m.MigrateDisks) > 0, MigrateDisks: m.MigrateDisks,
		DestXMLSet: m.TargetXML != "", DestXML: m.TargetXML,
		PersistXMLSet: m.PersistentXML != "", PersistXML: m.PersistentXML,
		BandwidthSet: m.Bandwidth != 0, Bandwidth: mebibytes(m.Bandwidth),
		ParallelConnectionsSet: m.ParallelConnections != 0, ParallelConnections: m.ParallelConnections,
		CompressionSet: m.Compression != "", Compression: m.Compression,
	}
}

// checkVersions refuses what one of the two hosts doesn't do correctly. Before QEMU 10.1, a switch to post-copy with
// parallel connections ends the target's QEMU, and libvirt reports success: the guest is lost.
func (m *Migration) checkVersions(ctx context.Context, hosts ...*Host) error {
	for _, h := range hosts {
		if h.target.inProcess {
			return fmt.Errorf("%w: libvirt's test driver moves nothing", ErrUnsupported)
		}
		if !m.PostCopy || m.ParallelConnections == 0 {
			continue
		}
		info, err := h.Info(ctx)
		if err != nil {
			return err
		}
		if v := info.HypervisorVersion; !v.AtLeast(10, 1, 0) {
			return fmt.Errorf("%w: post-copy together with parallel connections needs QEMU 10.1, host %s has %s",
				ErrUnsupported, h.Name(), v)
		}
	}
	return nil
}

// Migrate migrates a running domain to another host (virDomainMigrate3). This process controls both hosts' daemons, so
// the daemons need no connection to each other; the QEMUs do, at URI. With PeerURI the source's daemon controls the
// target's (virDomainMigrateToURI3): then the connection from here to the target doesn't matter, and after
// ErrUnreachable or ErrClosed the migration may continue. Migrate returns nil when the domain runs on the target and is
// gone from the source. After an error the domain continues at the source and there is nothing on the target, except in
// the cases below. Job reports the progress.
//
// When ctx ends the migration is aborted at the source, and Migrate waits up to 30 seconds for it to end: the error is
// ErrAborted and the context's. If the migration can no longer be aborted, Migrate waits for it as well, up to five
// minutes in post-copy, and succeeds or fails as if no abort had been requested. If the connection to the target breaks
// the migration is aborted too, and the error is ErrUnreachable and names the target.
//
// The outcome is unknown after any other ErrUnreachable, when the connection to the source broke or a host didn't
// finish in time; after ErrClosed; and after a failure that follows the switch to post-copy. Then both hosts must be
// asked where the domain is. One case is common: if a firewall drops the connection from the source to URI, so that it
// is neither accepted nor refused, the source can't abort while its kernel keeps trying, two minutes by default. During
// that time every request for the domain's job waits, though the domain runs.
//
// ErrUnsafe says that libvirt considers the disks in danger. ErrOperationInvalid says that the domain doesn't run, is
// being migrated, or has snapshots or block jobs. ErrUnsupported says that a host or the domain doesn't support the
// migration.
//
// It has a connection of its own to either host, in addition to those that Config.MaxConnections allows.
func (h *Host) Migrate(ctx context.Context, uuid string, target *Host, m Migration) error {
	s := callSpec{
		operation: "migrating domain " + uuid + " to host " + target.Name(), timeout: migrateTimeout, patient: true,
		late: ErrUnreachable, writes: true,
	}
	ctx, cancel := h.withDeadline(ctx, s)
	defer cancel()
	defer target.onClose(cancel)()
	if err := m.checkVersions(ctx, h, target); err != nil {
		return h.wrap(s, err, false)
	}
	x := &migrationCall{uuid: uuid, peers: m.PeerURI != ""}
	if err := x.connectBoth(ctx, h, target, s, m.Ahead); err != nil {
		return err
	}
	defer x.from.retire()
	defer x.to.retire()
	x.sourceFirst()
	if err := s.checkGuard(ctx); err != nil {
		x.from.endCall(true)
		x.to.endCall(true)
		return err
	}

	// The call is given up only if it doesn't end after being aborted.
	patience, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	defer h.onClose(func() { time.AfterFunc(closeTimeout, giveUp) })()
	defer target.onClose(func() { time.AfterFunc(closeTimeout, giveUp) })()
	var supervisor sync.WaitGroup
	supervisor.Go(func() { x.supervise(ctx, patience, giveUp) })
	supervisor.Go(func() {
		select {
		case <-m.GiveUp:
			giveUp()
		case <-patience.Done():
		}
	})
	_, lost, err := runOn(patience, x.from, func(*conn) (struct{}, error) { return struct{}{}, x.callMigrate(&m) }, x.to)
	giveUp()
	supervisor.Wait()
	return x.explainError(ctx, s, err, lost)
}

// migrationCall is a migration in progress.
type migrationCall struct {
	uuid     string
	from, to *conn
	// peers says that the connection to the target doesn't matter.
	peers bool
	// severed says that the connection to the source was cut because the connection to the target was lost.
	severed atomic.Bool
}

// sourceFirst makes the connection to the source end before libvirt's client notices that the connection to the target
// has ended.
//
// If a client has asked the target to start the guest and loses its connection before the answer, it tells the source
// to continue: the target may start the guest all the same, and the guest runs twice. A source that loses its client
// aborts a migration that is still copying, and keeps a guest stopped that was handed over, until both hosts were
// asked. This order can only be enforced if the streams are our own.
func (x *migrationCall) sourceFirst() {
	for _, c := range []*conn{x.from, x.to} {
		if !x.peers && c.unbridged != nil {
			c.host.log.Warn("libvirt's client connects by itself: if this connection breaks at a handover, the guest may run "+
				"twice", "host", c.host.Name(), "error", c.unbridged.Error())
		}
	}
	if !x.ordered() {
		return
	}
	x.to.bridge.beforeEnd(func() { x.severed.Store(x.from.bridge.stop()) })
}

// ordered reports whether the order in which the two connections end can be chosen, and matters.
func (x *migrationCall) ordered() bool { return !x.peers && x.from.bridge != nil && x.to.bridge != nil }

// connectBoth takes the connections that were opened ahead, or opens both at once.
func (x *migrationCall) connectBoth(
	ctx context.Context, source, target *Host, s callSpec, opened *MigrationAhead,
) error {
	var fromErr, toErr error
	var both sync.WaitGroup
	both.Go(func() { x.from, fromErr = opened.reserve(ctx, source) })
	both.Go(func() { x.to, toErr = opened.reserve(ctx, target) })
	both.Wait()
	if fromErr == nil && toErr == nil {
		return nil
	}
	for _, c := range []*conn{x.from, x.to} {
		if c != nil {
			c.endCall(true)
			c.retire()
		}
	}
	if fromErr != nil {
		return source.wrap(connectCall(s.operation), fromErr, true)
	}
	return target.wrap(connectCall(s.operation), toErr, true)
}

// callMigrate blocks until the migration ends.
func (x *migrationCall) callMigrate(m *Migration) error {
	d, err := x.from.domainHandle(x.uuid)
	if err != nil {
		return err
	}
	if x.peers {
		x.from.countCall("virDomainMigrateToURI3")
		return d.MigrateToURI3(m.PeerURI, m.migrateParameters(), m.migrateFlags())
	}
	if x.ordered() {
		defer x.to.bridge.beforeEnd(nil)
	}
	x.from.countCall("virDomainMigrate3")
	moved, err := d.Migrate3(x.to.c, m.migrateParameters(), m.migrateFlags())
	if err != nil {
		return err
	}
	// The domain is there; an error from freeing its handle says nothing about it.
	_ = moved.Free()
	return nil
}

// supervise aborts the migration when ctx ends or the target is lost, and gives it up if it doesn't end then. It
// returns when patience ends, which the end of the migration causes.
func (x *migrationCall) supervise(ctx, patience context.Context, giveUp context.CancelFunc) {
	defer giveUp()
	lost := x.to.gone
	if x.peers {
		lost = nil
	}
	select {
	case <-patience.Done():
		return
	case <-ctx.Done():
	case <-lost:
	}
	repeat := time.NewTicker(abortInterval)
	defer repeat.Stop()
	aborting, cancel := context.WithTimeout(patience, abortPatience)
	defer cancel()
	for !x.abort(aborting) {
		select {
		case <-repeat.C:
		case <-aborting.Done():
			return
		}
	}
	waiting, cancel := context.WithTimeout(patience, handoverPatience)
	defer cancel()
	<-waiting.Done()
}

// abort tells the source to abort. tooLate says that the guest has switched to post-copy.
func (x *migrationCall) abort(ctx context.Context) (tooLate bool) {
	if !x.from.beginCall() {
		return false
	}
	tooLate, _, err := runOn(ctx, x.from, func(c *conn) (bool, error) {
		d, err := c.domainHandle(x.uuid)
		if err != nil {
			return false, err
		}
		c.countCall("virDomainAbortJob")
		err = d.AbortJob()
		if !errors.Is(err, golibvirt.ERR_OPERATION_INVALID) {
			return false, err
		}
		state, reason, stateErr := c.domainState(d)
		return state == Paused && isPostCopy(reason), errors.Join(err, stateErr)
	})
	h := x.from.host
	h.log.Debug("aborting a migration", "host", h.Name(), "uuid", x.uuid, "too_late", tooLate, "error", err)
	return tooLate
}

// isPostCopy reports whether a reason is that of a domain that has left its source for the target.
func isPostCopy(reason string) bool {
	return reason == ReasonPostcopy || reason == ReasonPostcopyFailed
}

// explainError turns the error of the call into an *Error, and adds why the migration was aborted.
func (x *migrationCall) explainError(ctx context.Context, s callSpec, err error, lost bool) error {
	if err == nil {
		return nil
	}
	source, target := x.from.host, x.to.host
	e := &Error{Host: source.Name(), Operation: s.operation, Kind: ErrUnreachable}
	switch abandoned := errors.Is(err, context.Canceled); { // libvirt's errors never are
	case abandoned:
		e.Err = ErrAbandoned
		if source.ctx.Err() != nil || target.ctx.Err() != nil {
			e.Kind = ErrClosed
		}
	case (!lost || x.severed.Load()) && !x.peers && x.to.isLost():
		errors.As(target.wrap(s, err, true), &e)
		e.Kind, e.Err = ErrUnreachable, fmt.Errorf("the connection broke: %w", e.Err)
	default:
		errors.As(source.wrap(s, err, lost), &e)
	}
	if ctx.Err() != nil {
		e.Err = fmt.Errorf("%w (%w)", e.Err, contextCause(ctx))
	}
	return e
}
