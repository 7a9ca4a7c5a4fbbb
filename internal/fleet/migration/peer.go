package migration

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/lease"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// errNoPeerURI means that no URI is known at which the source's libvirt reaches the target's.
var errNoPeerURI = errors.New("peer_to_peer requires the URI at which the other hosts' libvirt reaches the target's")

// ErrPeerToPeerFailed means that a migration that the source's libvirt was to manage failed before anything was copied.
// The most likely reason is that it doesn't reach the target's libvirt.
var ErrPeerToPeerFailed = errors.New("no migration from libvirt to libvirt came about")

// errRelayedPeerToPeer means that the options peer_to_peer and transport contradict each other.
var errRelayedPeerToPeer = fmt.Errorf("peer_to_peer needs a way from host to host, and transport %q is for those "+
	"without", TransportSSHRelay)

// relaysPeerToPeer says whether the options contradict each other: with peer_to_peer, the migration has to continue
// without this process, and with the transport ssh_relay, it passes through this process.
func (o Options) relaysPeerToPeer() bool {
	return o.PeerToPeer != nil && *o.PeerToPeer && o.Transport == TransportSSHRelay
}

// PeerBlockers returns why the source's libvirt can't manage a migration to the named target. uri is the URI at which
// it reaches the target's libvirt, "" if none is configured.
func (o Options) PeerBlockers(target, uri string) []Blocker {
	if !*o.WithDefaults().PeerToPeer {
		return nil
	}
	b := Blocker{Reason: OptionsNotSupported, Status: status.False, Attribute: "migration_options.peer_to_peer"}
	switch {
	case o.relaysPeerToPeer(): // One may come from a policy, the other from the move itself.
		b.Message, b.Remedy = errRelayedPeerToPeer.Error(), "Choose another transport, or set peer_to_peer = false."
	case uri == "":
		b.Message = fmt.Sprintf("%v, and host %q has none", errNoPeerURI, target)
		b.Remedy = fmt.Sprintf("Set hosts.%s.peer_uri, such as \"qemu+tls://%[1]s.example.net/system\", or "+
			"set peer_to_peer = false.", target)
	default:
		return nil
	}
	return []Blocker{b}
}

// checkPeers returns an error if the source's libvirt can't manage the migration.
func (r *run) checkPeers() error {
	switch {
	case r.Options.relaysPeerToPeer():
		return errRelayedPeerToPeer
	case r.PeerURI == "":
		return errNoPeerURI
	default:
		return nil
	}
}

// awaitPeerToPeer returns when the source no longer migrates, or doesn't answer for too long, or when giveUp is closed.
// It aborts the migration when ctx ends.
func (r *run) awaitPeerToPeer(ctx context.Context, giveUp <-chan struct{}) {
	patience, cancel := lease.WithoutCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-giveUp:
			cancel()
		case <-patience.Done():
		}
	}()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(outcomeTimeout, cancel) })()
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	answered := time.Now()
	for {
		going, err := r.sourceMigrating(patience)
		switch {
		case err == nil && !going, time.Since(answered) > silentTime:
			return
		case err == nil:
			answered = time.Now()
		}
		if ctx.Err() != nil {
			err = r.Source.AbortJob(patience, r.VM.UUID)
			r.log.DebugContext(patience, "aborting what the source migrates by itself", "error", err)
		}
		select {
		case <-ticker.C:
		case <-patience.Done():
			return
		}
	}
}

// continuesUnmonitored says whether the source may still run the migration: because its libvirt manages it, or because
// this run or the call itself has stopped waiting, as failure then says.
func (r *run) continuesUnmonitored(ctx context.Context, failure error) bool {
	if !*r.Options.PeerToPeer && !r.waitGivenUp && !errors.Is(failure, libvirt.ErrAbandoned) {
		return false
	}
	going, err := r.sourceMigrating(ctx)
	return going || err != nil
}

// sourceMigrating says whether the source runs a migration that is not broken.
func (r *run) sourceMigrating(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	job, err := r.Source.Job(ctx, r.VM.UUID)
	switch {
	case errors.Is(err, libvirt.ErrNotFound):
		return false, nil
	case err != nil:
		return false, err
	case job == nil || !job.Type.Active() || job.Operation != libvirt.OperationMigrationOut:
		return false, nil
	}
	here := readDomain(ctx, r.Source, r.VM.UUID)
	return !here.failedPostCopy(), here.err
}
