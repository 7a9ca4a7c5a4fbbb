package lifecycle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/lease"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/placement"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/records"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
)

// Create creates a VM: it chooses the host, defines the VM there and, if its run strategy says so, starts it. If an
// interrupted Create of the same configuration left a VM behind, Create completes that VM.
//
// If the returned VM is nil, nothing was left behind, unless the error says what was kept. If Create returns a VM
// together with an error, the VM exists and is healthy, and the error says what differs from the configuration.
//
// The VM has a mark, by which the next Create recognizes it, and a lock, which tells another run that this one is still
// creating it. Both last until FinishCreate, which must be called for every VM that is returned.
func (m *Manager) Create(ctx context.Context, d placement.Desired) (*inventory.VM, error) {
	ctx = inventory.AsOneOperation(ctx)

	if p := m.placement.CheckPin(d.Metadata.Host); p != nil {
		return nil, p.Failed(d.Spec.Name, d.Metadata.Host, placement.ErrNoHost)
	}

	unlock, err := m.mutexes.Lock(ctx, "name/"+d.Spec.Name)
	if err != nil {
		return nil, err
	}
	defer unlock()

	existing, err := m.findByName(ctx, d.Spec.Name)
	if err != nil {
		return nil, err
	}

	if existing != nil {
		if vm, err := m.completeInterrupted(ctx, existing, d); !errors.Is(err, errUndone) {
			return vm, err
		}
	}

	// The room is reserved until the host has the definition, whose mark then counts instead.
	placed, err := m.placement.Place(ctx, d)
	if err != nil {
		return nil, err
	}
	defer placed.Release()

	id := uuid.NewString()

	vm, err := m.createOn(ctx, placed, id)
	if vm != nil || err == nil {
		return vm, err
	}

	// A VM of that name may have been created since the shared reading.
	if other, askErr := m.findByNameNow(ctx, d.Spec.Name); askErr == nil && other != nil && other.UUID != id {
		if vm, e := m.completeInterrupted(ctx, other, d); !errors.Is(e, errUndone) {
			return vm, e
		}
	}

	return nil, err
}

func (m *Manager) createOn(ctx context.Context, placed *placement.Placed, id string) (*inventory.VM, error) {
	h, d := placed.Host, placed.Wish

	return m.underLock(ctx, h, id, func(held context.Context) (*inventory.VM, error) {
		release, err := m.placement.ClaimNVRAM(held, h, d)
		if err != nil {
			return nil, err
		}

		left := leftovers{unseen: true, variables: m.mayHaveVariables(held, h, d)}

		placing, end := placed.Lock.With(held)
		err = m.defineNew(placing, h, id, d)

		end()
		release()

		if err != nil {
			return m.undoCreate(held, h, id, left, err)
		}

		placed.Defined()

		if err := m.verifyNameUnique(held, id, d.Spec.Name); err != nil {
			return m.undoCreate(held, h, id, left, err)
		}

		return m.makeDisksAndStart(held, h, id, d, left)
	})
}

// underLock calls create with the lock of the new VM. If create returns a VM, the lock lasts until FinishCreate.
func (m *Manager) underLock(
	ctx context.Context, h *inventory.Host, id string, create func(context.Context) (*inventory.VM, error),
) (*inventory.VM, error) {
	held, l, err := m.records.Lease(ctx, h, id, "creating")
	if err != nil {
		return nil, err
	}

	vm, err := create(held)
	if vm == nil {
		l.Release()

		return nil, err
	}

	m.pendingCreates.add(id, l)

	return vm, err
}

// defineNew defines the new VM on the host, marked as being created.
func (m *Manager) defineNew(ctx context.Context, h *inventory.Host, id string, d placement.Desired) error {
	hash := d.Hash()

	info, err := h.Conn.Info(ctx)
	if err != nil {
		return err
	}

	creator := &diskCreator{Manager: m, host: h, hostUUID: info.UUID, id: id}

	own, err := creator.assignVolumes(ctx, &d, nil, nil)
	if err != nil {
		return err
	}

	spec := d.Spec

	spec.Type = inventory.Reply{Host: h, Info: info}.TypeFor(spec, m.defaultType)

	if err := m.resolveVolumes(ctx, h, &spec, d, domain.Spec{}); err != nil {
		return err
	}

	spec = spec.WithFact(domain.OnCrash, onCrash(d.Strategy()))

	definition, err := domain.New(spec, id, emptyDisks(own)...)
	if err != nil {
		return &inventory.Error{VM: d.Spec.Name, Host: h.Name, Kind: inventory.ErrInvalid, Err: err}
	}

	if d.GraphicsPassword != nil {
		definition.SetGraphicsPassword(*d.GraphicsPassword)
	}

	metadata := d.Stamp()
	metadata.RunStrategy, metadata.Generation = d.Strategy(), 1
	metadata.Creating = &domain.Creating{Owner: m.owner, SpecHash: hash, Since: time.Now().UTC()}
	metadata.OwnDisks, metadata.Applied = own, definition.Spec().AppliedSources()

	if err := definition.SetMetadata(metadata); err != nil {
		return err
	}

	xml, err := definition.XML()
	if err != nil {
		return &inventory.Error{VM: d.Spec.Name, Host: h.Name, Kind: inventory.ErrInvalid, Err: err}
	}

	m.log.InfoContext(ctx, "defining VM", "name", d.Spec.Name, "uuid", id, "host", h.Name)

	if _, err := h.Conn.DefineDomain(ctx, xml); err != nil {
		return err
	}

	_, err = m.hosts.ReadVM(ctx, h, id)

	return err
}

// makeDisksAndStart creates the own disks of a VM that is defined, and starts the VM if its run strategy says so. If
// that fails, it undoes the creation.
func (m *Manager) makeDisksAndStart(
	ctx context.Context, h *inventory.Host, id string, d placement.Desired, left leftovers,
) (*inventory.VM, error) {
	unseen := true
	undo := func(unseen bool, cause error) (*inventory.VM, error) {
		left.unseen = unseen

		return m.undoCreate(ctx, h, id, left, cause)
	}

	if len(d.OwnDisks) > 0 {
		var err error
		if unseen, err = m.unseenDisks(ctx, h, id); err != nil {
			return undo(false, err)
		}
	}

	if len(d.OwnDisks) > 0 {
		if err := m.makeDisksOf(ctx, h, id, firstBootOf(d)); err != nil {
			return undo(unseen, err)
		}
	}

	// A host that loses power before would start a VM without its disks when it boots.
	if on, managed := status.Autostart(d.Strategy()); managed {
		if err := h.Conn.SetAutostart(ctx, id, on); err != nil && !errors.Is(err, inventory.ErrUnsupported) {
			return undo(unseen, err)
		}
	}

	if status.StartsOnCreate(d.Strategy()) {
		fresh := !left.ran && d.DeclaredNVRAM() == ""
		if called, err := m.startNew(ctx, h, id, fresh); err != nil {
			// A call whose reply did not come may have started it.
			return undo(unseen && (!called || inventory.Refused(err) && ctx.Err() == nil), err)
		}

		unseen = false
	}

	vm, err := m.hosts.ReadVM(ctx, h, id)
	if err != nil {
		return undo(unseen, err) // undoCreate keeps a VM that runs
	}

	return vm, nil
}

// startNew starts a VM that is being created. If fresh, its firmware begins with new variables, because another VM of
// that name may have left some: its guest hasn't run, and the configuration names no file for them. It gets those that
// are on the host if on_destroy keeps them: then the VM that this one replaces kept them. called is false if it is
// certain that nothing has started the VM.
func (m *Manager) startNew(
	ctx context.Context, h *inventory.Host, id string, fresh bool,
) (called bool, err error) {
	vm, err := m.hosts.FindNow(ctx, id, inventory.LastKnown{})
	if err != nil {
		return true, err
	}

	if vm.Active {
		return true, nil // the interrupted Create had started it
	}

	permit, err := m.placement.AdmitNew(ctx, vm)
	if err != nil {
		return false, err
	}
	defer permit.Release()

	m.log.InfoContext(ctx, "starting VM", "name", vm.Name, "uuid", id, "host", h.Name)

	err = m.placement.StartAlone(ctx, permit, vm, func(ctx context.Context) error {
		vm, err := m.markStarted(ctx, vm)
		if err != nil {
			return err
		}

		called = true

		if fresh && vm.PersistentSpec.HasNVRAM() && !vm.Metadata.Keeps(domain.PartNVRAM) {
			return startFresh(ctx, h, vm)
		}

		return h.Conn.StartDomain(ctx, id)
	})

	if err == nil || errors.Is(err, inventory.ErrUnreachable) || errors.Is(err, placement.ErrShared) ||
		errors.Is(err, placement.ErrUnfinished) || ctx.Err() != nil {
		return called, err
	}

	look := fmt.Sprintf("Correct the cause. QEMU's own messages are in its log on the host, %s unless that is configured "+
		"otherwise.", inventory.QEMULogPath(vm.Name))
	opens := placement.SecretRemedy(ctx, h, vm.DeclaredSpec().Secrets(), err)
	e := &inventory.Error{
		VM: vm.Name, Host: h.Name, Err: err, Detail: "it does not start",
		Remedy: cmp.Or(inventory.LimitRemedy(err), opens, look), Next: inventory.Retry,
	}
	inventory.AttachQEMULog(ctx, e, vm.Name, h)

	return called, e
}

// FinishCreate removes the mark and the lock of a VM that is being created, even after ctx has ended. The mark is
// removed from vm, too. It is the last step: if the run is interrupted before it, the next Create completes the VM.
func (m *Manager) FinishCreate(ctx context.Context, vm *inventory.VM) error {
	defer m.pendingCreates.release(vm.UUID)

	if vm.Metadata.Creating == nil {
		return nil
	}

	ctx, cancel := lease.GraceContext(ctx)
	defer cancel()

	if l := m.pendingCreates.leaseOf(vm.UUID); l != nil {
		held, free := l.With(ctx)
		defer free()

		ctx = held
	}

	metadata := vm.Metadata
	metadata.Creating = nil

	if _, err := records.WriteMetadata(ctx, vm, metadata); err != nil {
		return err
	}

	vm.Metadata.Creating = nil

	_, err := m.hosts.ReadVM(ctx, vm.On, vm.UUID)

	return err
}
