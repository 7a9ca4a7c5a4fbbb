package network

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/hostset"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// State is a network on a host.
type State struct {
	UUID              string
	Active, Autostart bool
	// Transient says that the network has no persistent definition: it no longer exists after it is stopped.
	Transient bool
	// Spec is the persistent definition, Live the active one; Live is nil while the network is inactive.
	Spec Spec
	Live *Spec

	definition *definition
}

// Wanted is the wanted state of a network on a host.
type Wanted struct {
	Spec
	Active bool
	// Autostart is nil if it isn't changed.
	Autostart *bool
	// UUID is that of a network that is created; if "", libvirt chooses. A network with another one isn't changed.
	UUID string
}

// Read reads a network of a host. It returns libvirt.ErrNotFound if the host answered and has no network of that name.
func Read(ctx context.Context, h *libvirt.Host, name string) (*State, error) {
	found, err := h.Network(ctx, name)
	if err != nil {
		return nil, err
	}
	s := &State{
		UUID: found.UUID, Active: found.Active, Autostart: found.Autostart, Transient: !found.Persistent,
	}
	if s.definition, err = parseDefinition(found.PersistentXML); err != nil {
		return nil, err
	}
	s.Spec = s.definition.Spec()
	if found.LiveXML != "" {
		live, err := parseDefinition(found.LiveXML)
		if err != nil {
			return nil, err
		}
		spec := live.Spec()
		s.Live = &spec
	}
	return s, nil
}

// Differences returns the names of the blocks that differ from the wanted ones, in the persistent or in the active
// definition.
func (s *State) Differences(want Spec) []string {
	names := Differences(s.Spec, want)
	if s.Live != nil {
		names = append(names, Differences(*s.Live, want)...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Restart returns the names of the blocks that require a restart of the active network to change; none while it is
// inactive.
func (s *State) Restart(want Spec) []string {
	if s.Live == nil {
		return nil
	}
	_, restart := requiredChanges(*s.Live, want)
	return restart
}

// create defines a network, and starts it if it is to be active. If it can't be started, its definition is removed
// again. It returns libvirt.ErrExists if the host has a network of that name.
func create(ctx context.Context, h *libvirt.Host, name string, want Wanted) error {
	if _, err := h.Network(ctx, name); err == nil {
		return fmt.Errorf("%w: the host has a network %q", libvirt.ErrExists, name)
	} else if !errors.Is(err, libvirt.ErrNotFound) {
		return err
	}
	if err := h.DefineNetwork(ctx, newDefinition(name, want.UUID, want.Spec).String()); err != nil {
		return err
	}
	if err := finish(ctx, h, name, State{}, want); err != nil {
		cleaning, cancel := hostset.CleanupContext(ctx)
		defer cancel()
		return errors.Join(err, h.UndefineNetwork(cleaning, name))
	}
	return nil
}

// Update changes a network of a host to the wanted state, and creates it if the host doesn't have it. It changes the
// active network where that is possible; for the rest it restarts the network, if mayRestart allows that. Otherwise it
// returns ErrRestartRequired, and changes nothing.
//
// It has the network's lock, because a reservation would be lost that another run adds before the changed definition
// is written. It asks mayRestart under the lock, because the wait for it may have been long.
func Update(
	ctx context.Context, lock LockFunc, h *libvirt.Host, name string, want Wanted,
	mayRestart func(context.Context) (bool, error),
) error {
	return lock.locked(ctx, h, name, "changing", func(ctx context.Context) error {
		restart, err := mayRestart(ctx)
		if err != nil {
			return err
		}
		return update(ctx, h, name, want, restart)
	})
}

func update(ctx context.Context, h *libvirt.Host, name string, want Wanted, restart bool) error {
	have, err := Read(ctx, h, name)
	if errors.Is(err, libvirt.ErrNotFound) {
		return create(ctx, h, name, want)
	}
	if err != nil {
		return err
	}
	if want.UUID != "" && want.UUID != have.UUID {
		return fmt.Errorf("%w: the host has another network %q", libvirt.ErrExists, name)
	}
	blocks := have.Restart(want.Spec)
	if len(blocks) > 0 && !restart && want.Active {
		return fmt.Errorf("%w: %v can't be changed while the network is active", ErrRestartRequired, blocks)
	}
	switch {
	case have.Live == nil || !want.Active || len(blocks) > 0:
		err = have.define(ctx, h, want.Spec)
	default:
		err = have.updateLive(ctx, h, name, want.Spec)
	}
	if err != nil {
		return err
	}
	if len(blocks) > 0 && want.Active {
		return have.restart(ctx, h, name, want)
	}
	return finish(ctx, h, name, *have, want)
}

// Lost returns the reservations that the persistent definition has, and lacks once it is as wanted.
func (s *State) Lost(want Spec) []DHCPHost {
	changed := &definition{document: s.definition.document.Copy()}
	changed.Apply(want)
	stays := changed.Spec()
	var lost []DHCPHost
	for _, ip := range s.Spec.IPs {
		if ip.DHCP == nil {
			continue
		}
		for _, h := range ip.DHCP.Hosts {
			if reservationIn(stays, h) == nil {
				lost = append(lost, h)
			}
		}
	}
	return lost
}

// define changes the persistent definition if it differs.
func (s *State) define(ctx context.Context, h *libvirt.Host, want Spec) error {
	if len(Differences(s.Spec, want)) == 0 && !s.Transient {
		return nil
	}
	changed := &definition{document: s.definition.document.Copy()}
	changed.Apply(want)
	return h.DefineNetwork(ctx, changed.String())
}

// updateLive changes an active network without a restart. A change that is the same for both of its definitions is made
// to both at once.
func (s *State) updateLive(ctx context.Context, h *libvirt.Host, name string, want Spec) error {
	live, _ := requiredChanges(*s.Live, want)
	config, rest := requiredChanges(s.Spec, want)
	together := len(rest) == 0 && !s.Transient && slices.Equal(live, config)
	if !together {
		if err := s.define(ctx, h, want); err != nil {
			return err
		}
	}
	for _, u := range live {
		if err := h.UpdateNetwork(ctx, name, u, true, together); err != nil {
			return err
		}
	}
	return nil
}

// restartTimeout bounds the stop and the start of a network, including the start with its old definition if that is
// necessary.
const restartTimeout = 2 * time.Minute

// losingTimeout bounds the look for the VMs that a restart cuts off: only an error's text needs their names.
const losingTimeout = 15 * time.Second

// restart stops the network and starts it with the new definition. If that fails, it restores the old definition. The
// stop is the last call for which the lock must be held. From there on, neither a cancellation nor the loss of the lock
// may prevent the start. What may take long is done before, so that it can be cancelled, and leaves the start its time.
func (s *State) restart(ctx context.Context, h *libvirt.Host, name string, want Wanted) error {
	looking, stop := context.WithTimeout(ctx, losingTimeout)
	users, unknown := losing(looking, h, name)
	stop()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), restartTimeout)
	defer cancel()
	if err := settled(ctx, h, name, false, h.StopNetwork(ctx, name)); err != nil {
		return err
	}
	ctx = libvirt.Guarded(ctx, nil)
	err := finish(ctx, h, name, State{Autostart: s.Autostart}, want)
	if err == nil {
		return nil
	}
	back := h.DefineNetwork(ctx, s.definition.String())
	if back == nil {
		back = h.StartNetwork(ctx, name)
	}
	if back != nil {
		err = fmt.Errorf("%w. The network is down, because its old definition can't be started either: %w", err, back)
	} else {
		err = fmt.Errorf("%w. The network runs again with its old definition", err)
	}
	if cut := describeCutOff(users, unknown); cut != "" {
		err = fmt.Errorf("%w. %s", err, cut)
	}
	return err
}

// describeCutOff returns which VMs have lost their connection because their network was stopped, "" if none has.
// libvirt doesn't connect them again when the network is started. unknown is why they aren't known.
func describeCutOff(users []string, unknown error) string {
	const repair = "cut off until they are shut down, and started again while it is active"
	switch {
	case unknown != nil:
		return fmt.Sprintf("The virtual machines that ran in it are %s. Which they are isn't known: %v", repair, unknown)
	case len(users) > 0:
		return fmt.Sprintf("These virtual machines ran in it when it was stopped, and are %s: %s", repair,
			strings.Join(users, ", "))
	}
	return ""
}

// finish sets autostart and starts or stops the network.
func finish(ctx context.Context, h *libvirt.Host, name string, have State, want Wanted) error {
	if want.Autostart != nil && *want.Autostart != have.Autostart {
		if err := h.SetNetworkAutostart(ctx, name, *want.Autostart); err != nil {
			return err
		}
	}
	switch {
	case want.Active && !have.Active:
		return settled(ctx, h, name, true, h.StartNetwork(ctx, name))
	case !want.Active && have.Active:
		return settled(ctx, h, name, false, h.StopNetwork(ctx, name))
	}
	return nil
}

// settled returns the error of a start or a stop, and nil if only its answer was lost with the host's connection. It
// asks the host once more: a network that was stopped for a restart would otherwise stay down until the next update.
func settled(ctx context.Context, h *libvirt.Host, name string, active bool, err error) error {
	if !errors.Is(err, libvirt.ErrUnreachable) {
		return err
	}
	if is, silent := h.Network(ctx, name); silent != nil || is.Active != active {
		return err
	}
	return nil
}

// LockFunc acquires a lock on a host that no other run can hold at the same time. The returned context ends when the
// lock is lost; release must be called.
type LockFunc func(
	ctx context.Context, host, name, purpose string,
) (held context.Context, release func(), err error)

// locked runs f while it holds the lock of a network on a host. A host without a secret driver can't keep locks: there
// nothing keeps other runs out.
func (lock LockFunc) locked(
	ctx context.Context, h *libvirt.Host, network, purpose string, f func(context.Context) error,
) error {
	held, release, err := lock(ctx, h.Name(), "network:"+network, purpose)
	switch {
	case errors.Is(err, libvirt.ErrNoSecretDriver):
		return f(ctx)
	case err != nil:
		return err
	}
	defer release()
	return f(held)
}

// CheckDelete returns ErrInUse if the host has the network and a VM's definition uses it. It changes nothing.
func CheckDelete(ctx context.Context, h *libvirt.Host, name string) error {
	if _, err := h.Network(ctx, name); errors.Is(err, libvirt.ErrNotFound) {
		return nil
	}
	users, err := Users(ctx, h, name)
	if err != nil || len(users) == 0 {
		return err
	}
	names := make([]string, len(users))
	for i, u := range users {
		names[i] = u.Name
	}
	return fmt.Errorf("%w: the definitions of these virtual machines use it or its bridge: %s", ErrInUse,
		strings.Join(names, ", "))
}

// Delete stops a network and removes its definition, under its lock: if libvirt changes a network's persistent
// definition at the same time, it writes the file again, and has the network again once it is restarted. Delete returns
// ErrInUse if a VM's definition uses the network. It is no error if the host has no such network.
func Delete(ctx context.Context, lock LockFunc, h *libvirt.Host, name string) error {
	return lock.locked(ctx, h, name, "removing", func(ctx context.Context) error {
		// The wait for the lock may have been long, so an answer from before it would be too old.
		if err := CheckDelete(ctx, h, name); err != nil {
			return err
		}
		return remove(ctx, h, name)
	})
}

func remove(ctx context.Context, h *libvirt.Host, name string) error {
	have, err := Read(ctx, h, name)
	if err == nil && have.Active {
		err = h.StopNetwork(ctx, name)
	}
	if err == nil && !have.Transient {
		err = h.UndefineNetwork(ctx, name)
	}
	if errors.Is(err, libvirt.ErrNotFound) {
		return nil
	}
	return err
}
