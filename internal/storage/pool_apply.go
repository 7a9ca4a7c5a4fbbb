package storage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/hostset"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// PoolSettings are settings of a pool on a host that aren't in its definition.
type PoolSettings struct {
	// Build creates what the pool is based on when the pool is defined, and the directory that it is changed to.
	Build bool
	// Autostart is nil if it isn't declared. Then a new pool starts with its host.
	Autostart *bool
	// Shared records that all hosts see the same volumes, for types that don't imply that.
	Shared bool
	// MustRefresh says that it is an error if an active pool can't be refreshed.
	MustRefresh bool
	// UUID is that of a pool that is created, as the caller has recorded it. A pool with another one isn't changed. If it
	// is "", ApplyPool creates it with NewUUID, or else one that it chooses, and records that.
	UUID, NewUUID string
}

// CheckPool returns the pools of that name that hosts have. If all of them answer and none has it, it returns
// libvirt.ErrNotFound, with the pools that they have.
func (s *Storage) CheckPool(
	ctx context.Context, hosts hostset.Set, name string,
) (found []hostset.Answer[HostPool], err error) {
	answers := PoolOn(ctx, hosts, name)
	found = hostset.Found(answers)
	if len(found) > 0 || len(answers) == 0 || len(hostset.Silent(answers)) > 0 {
		return found, nil
	}
	others := map[string]bool{}
	for _, a := range hostset.Found(hostset.Ask(ctx, hosts,
		func(ctx context.Context, h *libvirt.Host) (*[]libvirt.StoragePool, error) {
			pools, err := h.StoragePools(ctx)
			return &pools, err
		})) {
		for _, p := range *a.Value {
			others[p.Name] = true
		}
	}
	lacks := "no host has"
	if len(answers) == 1 {
		lacks = fmt.Sprintf("host %q doesn't have", answers[0].Host)
	}
	has := "no storage pool"
	if len(others) > 0 {
		has = strings.Join(slices.Sorted(maps.Keys(others)), ", ")
	}
	return nil, fmt.Errorf("%w: %s a storage pool %q. There is %s", libvirt.ErrNotFound, lacks, name, has)
}

// ErrNotStarted says that a host can't start a pool as it is declared.
var ErrNotStarted = errors.New("the storage pool can't be started")

// ErrNotStartedWithSecret says that a host can't start a pool for which it logs in with a secret. Ceph's client reports
// the same whether the cluster refuses the key or doesn't answer.
var ErrNotStartedWithSecret = errors.New("the storage pool, for which the host logs in with a secret, can't be started")

// outdated reports whether an active pool has another definition than its persistent one, p: a user has changed that,
// or a run was killed before it restarted the pool.
func outdated(p Pool, is *libvirt.StoragePool) (bool, error) {
	if is.LiveXML == "" {
		return false, nil
	}
	live, err := ReadPool(is.LiveXML)
	return err == nil && !p.isActiveAs(*live), err
}

// ApplyPool makes the pool on hosts as declared: it creates a missing pool, starts an inactive pool, and changes a pool
// that differs. It stops and starts an active pool whose definition changes: for VMs that run on the pool's volumes see
// Pool.LosesVolumes.
func (s *Storage) ApplyPool(
	ctx context.Context, hosts hostset.Set, p Pool, settings PoolSettings,
) (failed map[string]error) {
	return hostset.Each(ctx, hosts, func(ctx context.Context, h hostset.Host) error {
		return applyPool(ctx, h.Conn, p, settings)
	})
}

func applyPool(ctx context.Context, h *libvirt.Host, p Pool, settings PoolSettings) error {
	is, err := h.StoragePool(ctx, p.Name)
	isMissing := errors.Is(err, libvirt.ErrNotFound)
	switch {
	case isMissing:
	case err != nil:
		return err
	case settings.UUID != "" && settings.UUID != is.UUID:
		return fmt.Errorf("%w: the host has another storage pool %q", libvirt.ErrExists, p.Name)
	}
	if err := completeSettings(ctx, h, p.Name, is, isMissing, &settings); err != nil {
		return err
	}
	if isMissing {
		err = createPool(ctx, h, p, settings)
	} else {
		err = updatePool(ctx, h, p, is, settings)
	}
	if err != nil {
		return err
	}
	if err := setMark(ctx, h, sharedMark+p.Name, settings.Shared && !SharedType(p.Type)); err != nil {
		return err
	}
	// libvirt reads the content of a pool that it starts. On Gluster, that takes ten seconds or more.
	switch {
	case isMissing || !is.Active:
	case settings.MustRefresh:
		err = h.RefreshStoragePool(ctx, p.Name)
	default:
		err = refresh(ctx, h, p.Name)
	}
	switch {
	case err != nil:
		return err
	case settings.UUID != "": // The other record is the caller's.
		return unbuilt(p.Name).End(ctx, h)
	default:
		return endRecords(ctx, h, p.Name) // No caller may be left to remove them.
	}
}

// createPool defines a pool that is missing, and starts it. A pool that can't be started is undefined again.
func createPool(ctx context.Context, h *libvirt.Host, p Pool, settings PoolSettings) (err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, undoDefinition(ctx, h, p.Name, settings))
		}
	}()
	if err := definePool(ctx, h, p, settings); err != nil {
		return err
	}
	// This comes before the start: if this run is killed, an active pool may be taken for a complete one.
	if settings.Autostart != nil {
		if err := h.SetStoragePoolAutostart(ctx, p.Name, *settings.Autostart); err != nil {
			return err
		}
	}
	if err := startPool(ctx, h, p, ""); err != nil {
		return err
	}
	return setPermissions(ctx, h, p, true)
}

// updatePool changes a pool that the host has, and starts it.
func updatePool(
	ctx context.Context, h *libvirt.Host, p Pool, is *libvirt.StoragePool, settings PoolSettings,
) error {
	if err := changePool(ctx, h, p.Mounted(), is, settings.Build); err != nil {
		return err
	}
	start := func() error {
		begun := ""
		if settings.Build {
			begun = is.UUID
		}
		return startPool(ctx, h, p, begun)
	}
	setAutostart := func() error {
		if settings.Autostart == nil || is.Autostart == *settings.Autostart {
			return nil
		}
		return h.SetStoragePoolAutostart(ctx, p.Name, *settings.Autostart)
	}
	steps := []func() error{setAutostart, start} // As in createPool.
	if is.Active {
		slices.Reverse(steps) // A change of it has stopped it, and VMs need it.
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return setPermissions(ctx, h, p, false)
}

// undoDefinition undefines a pool that can't be started, and removes the record that ApplyPool has written for it.
func undoDefinition(ctx context.Context, h *libvirt.Host, pool string, settings PoolSettings) error {
	ctx, cancel := hostset.CleanupContext(ctx)
	defer cancel()
	if err := h.UndefineStoragePool(ctx, pool); err != nil && !errors.Is(err, libvirt.ErrNotFound) {
		return err
	}
	if settings.UUID != "" {
		return nil // The record is the caller's.
	}
	return unfinished(pool).End(ctx, h)
}

// startPool starts a pool. uuid is that of a pool of which a run may have been killed before it created the pool's
// storage, otherwise "": if the record of that is there, startPool creates it.
func startPool(ctx context.Context, h *libvirt.Host, p Pool, uuid string) error {
	err := h.StartStoragePool(ctx, p.Name)
	if err == nil {
		return nil
	}
	if uuid != "" {
		lacks, recordErr := lacksStorage(ctx, h, p.Name, uuid)
		if recordErr != nil {
			return errors.Join(err, recordErr)
		}
		// An empty directory at which libvirt mounts the storage hides nothing.
		if lacks || p.kind().buildsDirectory && p.kind().mounts {
			if buildErr := buildPool(ctx, h, p); buildErr != nil {
				return errors.Join(err, buildErr)
			}
			return h.StartStoragePool(ctx, p.Name)
		}
	}
	switch {
	case p.kind().files && !p.kind().mounts && p.Path != nil && errors.Is(err, libvirt.ErrNoFile):
		return fmt.Errorf("%w. Directory %q of storage pool %q doesn't exist on host %q: is its filesystem mounted? Mount "+
			"it, then try again. To create an empty directory instead, first run \"virsh pool-build %s\" on that host",
			err, *p.Path, p.Name, h.Name(), p.Name)
	case errors.Is(err, libvirt.ErrUnsupported): // libvirt says so of a source that isn't there.
		return fmt.Errorf("%w: %w", ErrNotStarted, err)
	case p.Auth != nil && errors.Is(err, libvirt.ErrInternal):
		return fmt.Errorf("%w: %w", ErrNotStartedWithSecret, err)
	default:
		return err
	}
}

// setPermissions gives the directory of an active pool the declared permissions. libvirt reads them from the directory,
// and sets them only when it builds a stopped pool. For a pool that libvirt mounts, that would be the directory below.
// If it fails, a pool that was made stays stopped, so that it can be undefined.
func setPermissions(ctx context.Context, h *libvirt.Host, p Pool, made bool) error {
	p.Label = nil // libvirt doesn't set it.
	if p.kind().mounts || !p.kind().buildsDirectory || p.Mode == nil && p.Owner == nil && p.Group == nil {
		return nil
	}
	is, err := h.StoragePool(ctx, p.Name)
	if err != nil {
		return err
	}
	actual, err := ReadPool(is.XML)
	if err != nil || p.IsIn(*actual) {
		return err
	}
	document, err := p.Patch(is.XML)
	if err != nil {
		return err
	}
	if err := redefine(ctx, h, p.Name, document, is); err != nil {
		return err
	}
	err = h.BuildStoragePool(ctx, p.Name, false)
	if err != nil && made {
		return err
	}
	after, cancel := hostset.CleanupContext(ctx)
	defer cancel()
	return errors.Join(err, h.StartStoragePool(after, p.Name))
}

// refresh makes a pool read its content again. A pool that is creating a volume refuses that, and keeps its earlier
// knowledge. Whether the pool exists and is active is reported by the calls that follow.
func refresh(ctx context.Context, h *libvirt.Host, pool string) error {
	err := h.RefreshStoragePool(ctx, pool)
	for _, forgiven := range []error{libvirt.ErrInternal, libvirt.ErrOperationInvalid, libvirt.ErrNotFound} {
		if errors.Is(err, forgiven) {
			return nil
		}
	}
	return err
}

func definePool(ctx context.Context, h *libvirt.Host, p Pool, settings PoolSettings) error {
	if settings.UUID == "" {
		settings.UUID = cmp.Or(settings.NewUUID, uuid.NewString())
		if err := unfinished(p.Name).Begin(ctx, h, settings.UUID); err != nil {
			return err
		}
	}
	document, err := p.Document(settings.UUID)
	if err != nil {
		return err
	}
	if err := h.DefineStoragePool(ctx, p.Name, document); err != nil || !settings.Build {
		return err
	}
	return buildPool(ctx, h, p)
}

// buildPool never overwrites data: for the types that format something, libvirt gets the flag for that.
func buildPool(ctx context.Context, h *libvirt.Host, p Pool) error {
	err := h.BuildStoragePool(ctx, p.Name, p.kind().refusesOverwrite)
	if err != nil && p.kind().buildsDirectory {
		// Another host may have created the same directory at this moment. libvirt accepts one that it finds at once.
		return h.BuildStoragePool(ctx, p.Name, false)
	}
	return err
}

// changePool changes the definition if it differs from what is declared, and stops the pool for that. It also stops a
// pool that is active with another definition. build creates the directory or mount point if the definition gets
// another one.
func changePool(ctx context.Context, h *libvirt.Host, p Pool, is *libvirt.StoragePool, build bool) error {
	actual, err := ReadPool(is.XML)
	if err != nil {
		return err
	}
	isOutdated, err := outdated(*actual, is)
	if err != nil || p.IsIn(*actual) && is.Persistent && !isOutdated {
		return err
	}
	if err := checkStop(ctx, h, is); err != nil {
		if isOutdated && p.IsIn(*actual) { // No user has asked for this restart.
			err = fmt.Errorf("%w. Or undo the change of the definition with virsh pool-edit: the pool is active with an "+
				"earlier definition than its persistent one, and is restarted for that", err)
		}
		return err
	}
	document, err := p.Patch(is.XML)
	if err != nil {
		return err
	}
	build = build && p.kind().buildsDirectory && differs(p.Path, actual.Path, samePath)
	if build {
		if err := unbuilt(p.Name).Begin(ctx, h, is.UUID); err != nil {
			return err
		}
	}
	if err := redefine(ctx, h, p.Name, document, is); err != nil {
		if build { // The pool keeps its directory, which must not be created if it is missing later.
			after, cancel := hostset.CleanupContext(ctx)
			defer cancel()
			err = errors.Join(err, unbuilt(p.Name).End(after, h))
		}
		return err
	}
	if build {
		return buildPool(ctx, h, p) // It is no error if the directory exists.
	}
	return nil
}

// redefine gives a pool another definition, and stops it. If that fails, the pool keeps its definition.
func redefine(ctx context.Context, h *libvirt.Host, pool, document string, is *libvirt.StoragePool) error {
	if err := h.DefineStoragePool(ctx, pool, document); err != nil || !is.Active {
		return err
	}
	err := h.StopStoragePool(ctx, pool)
	if err != nil {
		// The pool is still active with its old definition. If that is restored, the next plan shows the change again.
		after, cancel := hostset.CleanupContext(ctx)
		defer cancel()
		err = errors.Join(err, h.DefineStoragePool(after, pool, is.XML))
	}
	return err
}

// checkStop returns an error if the host's pool can't be stopped without running VMs losing disks. libvirt doesn't
// refuse that for every type: it logs out of an iSCSI target that is in use.
func checkStop(ctx context.Context, h *libvirt.Host, is *libvirt.StoragePool) error {
	if !is.Active {
		return nil
	}
	var losing []Pool
	for _, document := range []string{is.XML, is.LiveXML} {
		if document == "" {
			continue
		}
		p, err := ReadPool(document)
		if err != nil {
			return err
		}
		if p.LosesVolumes() {
			losing = append(losing, *p)
		}
	}
	if losing == nil {
		return nil
	}
	users, err := runningUsers(ctx, h, losing)
	if err != nil {
		return err
	}
	return inUseBy("would lose disks while the pool is stopped. Shut them down first", users)
}
