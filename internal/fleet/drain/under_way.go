package drain

import (
	"fmt"
	"slices"
	"sync"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
)

// underWay are the drains of this process. A drain is among them before it cordons its host: of several drains that
// begin together, none then chooses another one's host as a target, unless it can't continue without that. Then the one
// that had its turn first continues.
type underWay struct {
	mu     sync.Mutex
	drains []*turn
	last   int
}

// turn is a drain that is under way. The fields are guarded by underWay.mu.
type turn struct {
	host string
	// number says in which order drains found that no other maintenance is in their way; 0: this one hasn't yet.
	number int
	// avoidedLater says that a host was avoided for a drain that had its turn later, or not yet. onlyEarlier says that
	// such hosts aren't avoided any more.
	avoidedLater, onlyEarlier bool
}

// announce adds the drain of a host until end is called.
func (u *underWay) announce(host string) (own *turn, end func()) {
	u.mu.Lock()
	defer u.mu.Unlock()

	own = &turn{host: host}
	u.drains = append(u.drains, own)

	return own, func() {
		u.mu.Lock()
		defer u.mu.Unlock()

		u.drains = slices.DeleteFunc(u.drains, func(t *turn) bool { return t == own })
	}
}

// begin gives a drain its turn, as no other maintenance of its host is in its way.
func (u *underWay) begin(own *turn) {
	u.mu.Lock()
	defer u.mu.Unlock()

	u.last++
	own.number = u.last
}

// avoidOnlyEarlier says that from now on the drain avoids only hosts whose drains had their turn before its own. It
// reports whether that may make a difference to what the drain found so far.
func (u *underWay) avoidOnlyEarlier(own *turn) (differs bool) {
	u.mu.Lock()
	defer u.mu.Unlock()

	own.onlyEarlier = true

	return own.avoidedLater
}

// blocker returns what blocks moves of a drain to a host that is drained; nil if nothing does. Without a drain of its
// own, which is a plan, all hosts that are drained are avoided.
func (u *underWay) blocker(host string, own *turn) *migration.Blocker {
	u.mu.Lock()
	defer u.mu.Unlock()

	avoided := false

	for _, t := range u.drains {
		switch {
		case t.host != host:
		case own == nil || t.number > 0 && t.number < own.number:
			avoided = true
		case !own.onlyEarlier:
			own.avoidedLater, avoided = true, true
		}
	}

	if !avoided {
		return nil
	}

	return &migration.Blocker{
		Reason: migration.HostCordoned, Status: status.False, Attribute: "host",
		Message: fmt.Sprintf("host %q is drained at the same time", host),
		Remedy:  fmt.Sprintf("Drain host %q when this drain has ended.", host),
	}
}
