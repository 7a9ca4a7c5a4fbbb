package migration

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// Transports say how memory is sent from host to host.
const (
	// TransportAuto chooses a transport that works: direct if the hosts reach each other, otherwise the relay. It is
	// the default.
	TransportAuto = "auto"
	// TransportDirect is a TCP connection from one host to the other.
	TransportDirect = "direct"
	// TransportTLS is direct and encrypted by QEMU, with certificates that the hosts' administrator installed.
	TransportTLS = "tls"
	// TransportSSHRelay passes through this process and its SSH connections to both hosts.
	TransportSSHRelay = "ssh_relay"
)

// Transports lists the values of Options.Transport, the default first.
var Transports = []string{TransportAuto, TransportDirect, TransportTLS, TransportSSHRelay}

// ErrNoTLS means that a migration over TLS failed before anything was copied. The most likely reason is a missing
// certificate.
var ErrNoTLS = errors.New("no migration over TLS came about")

// errNoTunnel means that a host is not reached over SSH, which the relay requires.
var errNoTunnel = errors.New("transport ssh_relay requires hosts that are reached over SSH")

// TransportBlockers returns what rules out the transport between two hosts. source and target say whether each host has
// a tunnel.
func (o Options) TransportBlockers(source, target bool) []Blocker {
	if o.Transport != TransportSSHRelay || source && target {
		return nil
	}
	return []Blocker{{
		Reason: OptionsNotSupported, Status: status.False, Attribute: "migration_options.transport",
		Message: errNoTunnel.Error(),
		Remedy:  "Give both hosts a URI over SSH (qemu+ssh), or choose another transport.",
	}}
}

const (
	// probedPort is the last of the ports on which QEMU accepts migrations, unless the host's qemu.conf changes them.
	// libvirt assigns them from the first on, so nothing else listens on the last. A port in use can't be probed: a
	// QEMU that waits for a migration, or for one that broke in post-copy to be resumed, takes every connection as its
	// migration.
	probedPort = 49215
	// probePatience is how long a host may leave another host without an answer. Networks of hosts answer in
	// milliseconds.
	probePatience = 3 * time.Second
)

// route is one way to send memory and disks to the target.
type route struct {
	transport string
	// relay carries memory, disks carries the copied disks. They are nil for a transport between the hosts, unless it
	// is tried after the relay.
	relay, disks *relay
}

func (r route) close(ctx context.Context) {
	for _, relay := range []*relay{r.relay, r.disks} {
		if relay != nil {
			relay.close(ctx)
		}
	}
}

// relayOpen says whether memory may be passing through the relay.
func (r route) relayOpen() bool { return r.relay != nil && r.relay.err() == nil }

// disksURI returns where the target's QEMU accepts disks. "" leaves it to libvirt.
func (r route) disksURI() string {
	if r.disks == nil {
		return ""
	}
	return r.disks.uri()
}

// withRelayError adds the relay's error to the failure of a migration through it.
func (r route) withRelayError(failure error) error {
	for _, relay := range []*relay{r.relay, r.disks} {
		if failure == nil || relay == nil || r.transport != TransportSSHRelay {
			continue
		}
		if err := relay.err(); err != nil {
			return fmt.Errorf("%w (%w)", failure, err)
		}
	}
	return failure
}

// openTunnels opens the tunnels for the relay and for finding out whether the hosts reach each other. It does no I/O.
func (r *run) openTunnels() error {
	if *r.Options.PeerToPeer {
		return r.checkPeers()
	}
	if r.SourceTunnel == nil || r.TargetTunnel == nil {
		if r.Options.Transport == TransportSSHRelay {
			return errNoTunnel
		}
		return nil
	}
	var err error
	if r.sourceTunnel, err = r.SourceTunnel(); err != nil {
		return err
	}
	r.targetTunnel, err = r.TargetTunnel()
	return err
}

func (r *run) closeTunnels(ctx context.Context) {
	for _, tunnel := range []Tunnel{r.sourceTunnel, r.targetTunnel} {
		if tunnel == nil {
			continue
		}
		if err := tunnel.Close(); err != nil {
			r.log.DebugContext(ctx, "closing a relay's connection", "error", err.Error())
		}
	}
}

// transportOrder returns the transports to try, in order.
func (r *run) transportOrder(ctx context.Context) []string {
	switch {
	case r.Options.Transport != TransportAuto:
		return []string{r.Options.Transport}
	case r.sourceTunnel == nil || r.targetTunnel == nil:
		return []string{TransportDirect}
	case r.targetSilent(ctx):
		r.log.InfoContext(ctx, "the source gets no answer from the target: the migration goes through the relay")
		return []string{TransportSSHRelay}
	default:
		return []string{TransportDirect, TransportSSHRelay}
	}
}

// targetSilent says whether packets from the source to the target are lost. A migration would then wait for its
// connection while the source's kernel tries, and could not even be aborted. A refused connection is reported at once.
func (r *run) targetSilent(ctx context.Context) bool {
	address := r.Address
	if address == "" {
		info, err := r.Target.Info(ctx)
		if err != nil {
			return false
		}
		address = info.Hostname
	}
	answers, err := r.sourceTunnel.Answers(ctx, address, probedPort, probePatience)
	if err != nil {
		r.log.DebugContext(ctx, "the source can't be asked for its way to the target", "error", err.Error())
		return false
	}
	return !answers
}

// tryTransports migrates over the first transport that works.
func (r *run) tryTransports(ctx context.Context) error {
	transports := r.transportOrder(ctx)
	var failures []error
	for i, transport := range transports {
		r.state.Transport = transport
		err := r.migrateOver(ctx, transport)
		if err == nil {
			return nil
		}
		failures = append(failures, err)
		if i+1 == len(transports) || !r.safeToRetry(ctx, err) {
			break
		}
		r.log.WarnContext(ctx, "migration did not get through, trying another transport", "transport", transport,
			"next", transports[i+1], "error", err.Error())
	}
	if len(failures) == 1 {
		return failures[0]
	}
	return errors.Join(failures...)
}

// safeToRetry says whether a migration failed before anything was copied, for a reason that another transport may not
// have, and left nothing behind.
func (r *run) safeToRetry(ctx context.Context, err error) bool {
	if !errors.Is(err, libvirt.ErrInternal) || !r.began.IsZero() || r.state.AbortRequested || ctx.Err() != nil {
		return false
	}
	where, _, target := r.pollLocation(ctx)
	return where == stayed && target.err == nil && !target.active()
}

// migrateOver migrates over one transport.
func (r *run) migrateOver(ctx context.Context, transport string) error {
	if err := r.openRoute(ctx, transport); err != nil {
		return err
	}
	if r.Starting != nil && !r.resuming {
		if err := r.Starting(); err != nil {
			return err
		}
	}
	if err := r.defineForTarget(ctx); err != nil {
		return err
	}
	err := r.route.withRelayError(r.migrate(ctx))
	if !r.began.IsZero() || r.state.AbortRequested {
		return err
	}
	refused := errors.Is(err, libvirt.ErrInternal) || errors.Is(err, libvirt.ErrOperationInvalid) ||
		errors.Is(err, libvirt.ErrUnsupported)
	if transport == TransportTLS && refused {
		err = fmt.Errorf("%w: %w", ErrNoTLS, err)
	}
	apart := errors.Is(err, libvirt.ErrInternal) || errors.Is(err, libvirt.ErrUnreachable) ||
		errors.Is(err, libvirt.ErrDenied)
	if *r.Options.PeerToPeer && apart {
		err = fmt.Errorf("%w (%s): %w", ErrPeerToPeerFailed, r.PeerURI, err)
	}
	return err
}

// openRoute opens a route. It closes the previous route, where nothing passes any more. Run closes the last route once
// it is known where the VM is, because the traffic may outlive the call that started it. The same holds for every relay
// that is open when a migration is resumed: a migration that libvirt takes as broken may continue in QEMU.
func (r *run) openRoute(ctx context.Context, transport string) error {
	if r.resuming && r.route.relayOpen() {
		r.route.transport = transport
		return nil
	}
	r.route.close(ctx)
	r.route = route{transport: transport}
	if transport != TransportSSHRelay {
		return nil
	}
	var err error
	r.route.relay, err = openRelay(ctx, r.sourceTunnel, r.targetTunnel, socketPath(socketPrefix, r.VM), r.log)
	if err == nil && len(r.copies) > 0 && !r.resuming {
		r.route.disks, err = openRelay(ctx, r.sourceTunnel, r.targetTunnel, socketPath(diskSocketPrefix, r.VM), r.log)
	}
	return err
}

// migrationURI returns where the target's QEMU listens.
func (r *run) migrationURI() string {
	switch {
	case r.route.transport == TransportSSHRelay:
		return r.route.relay.uri()
	case r.Address != "":
		return "tcp://" + bracketIPv6(r.Address)
	default:
		return ""
	}
}

// bracketIPv6 writes an IPv6 address in the form that a URI requires.
func bracketIPv6(address string) string {
	if ip := net.ParseIP(address); ip != nil && strings.Contains(address, ":") {
		return "[" + address + "]"
	}
	return address
}
