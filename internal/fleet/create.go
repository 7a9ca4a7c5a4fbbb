package fleet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
)

// Create makes a machine: it chooses the host, defines the machine there and,
// if its run strategy says so, starts it. A machine that an interrupted Create
// of the same wish left behind is completed instead.
//
// A nil VM means that nothing was left behind. A VM together with an error is
// there and healthy, and the error says what is not as it was wished.
//
// The machine carries a mark, by which the next Create would know it again, and
// is locked, which tells that one that this one is still at it. Both last until
// FinishCreate, which must be called for every machine that is returned.
func (f *Fleet) Create(ctx context.Context, d Desired) (*VM, error) {
	if p := f.checkPin(d); p != nil {
		return nil, &Error{VM: d.Spec.Name, Host: d.Metadata.Host, Kind: ErrNoHost, Detail: p.Detail, Remedy: p.Remedy}
	}

	unlock, err := f.mutexes.Lock(ctx, "name/"+d.Spec.Name)
	if err != nil {
		return nil, err
	}
	defer unlock()

	existing, err := f.byNameNow(ctx, d.Spec.Name)
	if err != nil {
		return nil, err
	}

	if existing != nil {
		return f.adopt(ctx, existing, d)
	}

	h, release, err := f.place(ctx, d)
	if err != nil {
		return nil, err
	}
	// Held until the host has the definition, whose mark then counts instead.
	defer release()

	return f.createOn(ctx, h, d, release)
}

func (f *Fleet) createOn(ctx context.Context, h *host, d Desired, placed func()) (*VM, error) {
	id := uuid.NewString()

	return f.underLock(ctx, h, id, func(held context.Context) (*VM, error) {
		if err := f.define(held, h, id, d); err != nil {
			return f.undo(ctx, h, id, err)
		}

		placed()

		if err := f.soleBearer(held, id, d.Spec.Name); err != nil {
			return f.undo(ctx, h, id, err)
		}

		return f.bringUp(held, h, id, d)
	})
}

// underLock locks the machine that is made. The lock stays until FinishCreate,
// if there is a machine to finish.
func (f *Fleet) underLock(
	ctx context.Context, h *host, id string, create func(context.Context) (*VM, error),
) (*VM, error) {
	held, unlock, err := f.lockOn(ctx, h, id, "creating")
	if err != nil {
		return nil, err
	}

	vm, err := create(held)
	if vm == nil {
		unlock()

		return nil, err
	}

	f.unfinished.keep(id, unlock)

	return vm, err
}

// define writes the new machine's definition, marked as being created.
func (f *Fleet) define(ctx context.Context, h *host, id string, d Desired) error {
	spec := d.Spec

	info, err := h.conn.Info(ctx)
	if err != nil {
		return err
	}

	spec.Type = answer{host: h, info: info}.typeFor(spec, f.defaultType)

	if err := resolveVolumes(ctx, h, &spec, d.Volumes); err != nil {
		return err
	}

	definition, err := domain.New(spec, id)
	if err != nil {
		return &Error{VM: d.Spec.Name, Host: h.name, Kind: ErrInvalid, Err: err}
	}

	metadata := d.stamp()
	metadata.RunStrategy = d.strategy()
	metadata.Creating = &domain.Creating{Owner: f.owner, SpecHash: d.hash(), Since: time.Now().UTC()}

	if err := definition.SetMetadata(metadata); err != nil {
		return err
	}

	xml, err := definition.XML()
	if err != nil {
		return &Error{VM: d.Spec.Name, Host: h.name, Kind: ErrInvalid, Err: err}
	}

	f.log.InfoContext(ctx, "defining machine", "name", d.Spec.Name, "uuid", id, "host", h.name)

	if _, err := h.conn.DefineDomain(ctx, xml); err != nil {
		return err
	}

	_, err = f.reread(ctx, h, id)

	return err
}

// hash identifies the wish, so that an interrupted Create is known again.
func (d Desired) hash() string { return domain.SpecHash(d.Spec) }

// resolveVolumes finds out whether a disk's volume is a file or a block device,
// and its format where the disk declares none.
func resolveVolumes(ctx context.Context, h *host, spec *domain.Spec, volumes map[string]string) error {
	spec.Disks = maps.Clone(spec.Disks)

	for key, path := range volumes {
		v, err := h.conn.VolumeByPath(ctx, path)
		if err != nil {
			return fmt.Errorf("disk %q: %w", key, err)
		}

		disk := spec.Disks[key]
		disk.Source = domain.DiskSource{File: path}

		if v.Type == "block" {
			disk.Source = domain.DiskSource{Block: path}
		}

		if disk.Format == "" {
			disk.Format = v.Format
		}

		spec.Disks[key] = disk
	}

	return nil
}

// soleBearer makes sure that nobody else created a machine of that name on
// another host in the meantime. Both may give way; a name is never taken twice.
func (f *Fleet) soleBearer(ctx context.Context, id, name string) error {
	answers, err := f.askAll(ctx, byName(name))
	if err != nil {
		return err
	}

	for _, a := range answers {
		if a.vm != nil && a.vm.UUID != id {
			return &Error{
				VM: name, Host: a.host.name, Kind: ErrExists,
				Detail: fmt.Sprintf("another run created a machine of that name on host %q at the same time", a.host.name),
				Remedy: "Apply again when that run has ended.",
			}
		}
	}

	return nil
}

// byNameNow returns the machine of that name, nil when no host that answers has
// one. A host that doesn't answer is no reason not to create machines on the
// others: the new machine gets an identity of its own.
func (f *Fleet) byNameNow(ctx context.Context, name string) (*VM, error) {
	answers, err := f.askAll(ctx, byName(name))
	if err != nil {
		return nil, err
	}

	if silent := silentHosts(answers); len(silent) > 0 {
		f.log.WarnContext(ctx, "hosts that don't answer may have a machine of the same name",
			"name", name, "hosts", silent)
	}

	i := slices.IndexFunc(answers, func(a answer) bool { return a.vm != nil })
	if i < 0 {
		return nil, nil //nolint:nilnil // absence is an answer, not an error
	}

	return newVM(answers[i])
}

// adoptable says whether a machine is what an interrupted Create of this very
// wish left behind.
func adoptable(vm *VM, d Desired) bool {
	return vm.Metadata.Creating != nil && vm.Metadata.Creating.SpecHash == d.hash() &&
		(d.Metadata.Host == "" || d.Metadata.Host == vm.Host)
}

func (f *Fleet) adopt(ctx context.Context, vm *VM, d Desired) (*VM, error) {
	if !adoptable(vm, d) {
		p := nameTaken(vm)

		return nil, &Error{VM: d.Spec.Name, Host: vm.Host, Kind: ErrExists, Detail: p.Detail, Remedy: p.Remedy}
	}

	// Who made the mark may be at it still; then the lock is taken.
	return f.underLock(ctx, vm.host, vm.UUID, func(held context.Context) (*VM, error) {
		now, err := f.findNow(held, vm.UUID, LastKnown{})
		if err != nil {
			return nil, err
		}

		if !adoptable(now, d) {
			p := nameTaken(now)

			return nil, &Error{VM: d.Spec.Name, Host: now.Host, Kind: ErrExists, Detail: p.Detail, Remedy: p.Remedy}
		}

		f.log.InfoContext(ctx, "completing an interrupted creation", "name", now.Name, "uuid", now.UUID,
			"host", now.Host, "owner", now.Metadata.Creating.Owner)

		return f.bringUp(held, now.host, now.UUID, d)
	})
}

// bringUp starts the new machine if its run strategy says so, and takes it back
// when it can't be started.
func (f *Fleet) bringUp(ctx context.Context, h *host, id string, d Desired) (*VM, error) {
	if on, managed := status.Autostart(d.strategy()); managed {
		if err := h.conn.SetAutostart(ctx, id, on); err != nil && !errors.Is(err, ErrUnsupported) {
			return f.undo(ctx, h, id, err)
		}
	}

	if status.StartsOnCreate(d.strategy()) {
		if err := f.startNew(ctx, h, id); err != nil {
			return f.undo(ctx, h, id, err)
		}
	}

	vm, err := f.reread(ctx, h, id)
	if err != nil {
		return f.undo(ctx, h, id, err) // Interrupted here, a machine that runs is kept as well.
	}

	return vm, nil
}

func (f *Fleet) startNew(ctx context.Context, h *host, id string) error {
	vm, err := f.findNow(ctx, id, LastKnown{})
	if err != nil {
		return err
	}

	if vm.Active {
		return nil // an interrupted Create had come this far
	}

	f.log.InfoContext(ctx, "starting machine", "name", vm.Name, "uuid", id, "host", h.name)

	// A machine of that name that was there before may have left its variables.
	if firmware := vm.PersistentSpec.Firmware.Type; firmware != nil && *firmware == "efi" {
		err = h.startFresh(ctx, vm)
	} else {
		err = h.conn.StartDomain(ctx, id)
	}

	if err == nil || errors.Is(err, ErrUnreachable) || ctx.Err() != nil {
		return err
	}

	e := &Error{
		VM: vm.Name, Host: h.name, Err: err, Detail: "it does not start",
		Remedy: fmt.Sprintf("Correct what is wrong and apply again. QEMU's own words are in its log on the host, "+
			"%s unless that is configured otherwise.", qemuLogPath(vm.Name)),
	}
	tellQEMUsWords(ctx, e, vm.Name, h)

	return e
}

// undo removes a machine that could not be created, so that nothing is left
// behind, and returns why it could not. One that runs after all is kept and
// returned: it is healthy, and nobody wants it shot.
func (f *Fleet) undo(ctx context.Context, h *host, id string, cause error) (*VM, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()

	vm, err := f.reread(ctx, h, id)
	if err == nil && vm.Active {
		return vm, cause
	}

	if err == nil {
		err = h.conn.UndefineDomain(ctx, id)
	}

	if err != nil && !isNotFound(err) {
		h.forget()

		return nil, errors.Join(cause, fmt.Errorf("removing what was made so far: %w", err))
	}

	h.remember(id, nil)

	var e *Error
	if errors.As(cause, &e) && e.Detail != "" {
		e.Detail += "; nothing of it was left on the host"
	}

	return nil, cause
}

// FinishCreate removes the mark and the lock of a machine that is being created.
// It is the last thing that is done: until then an interruption is picked up by
// the next Create.
func (f *Fleet) FinishCreate(ctx context.Context, vm *VM) error {
	defer f.unfinished.release(vm.UUID)

	if vm.Metadata.Creating == nil {
		return nil
	}

	metadata := vm.Metadata
	metadata.Creating = nil

	if _, err := f.writeMetadata(ctx, vm, metadata); err != nil {
		return err
	}

	_, err := f.reread(ctx, vm.host, vm.UUID)

	return err
}
