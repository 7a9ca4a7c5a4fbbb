package storage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"html"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/hostset"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// ErrInUse says that a volume that was to be removed or changed is in use.
var ErrInUse = fmt.Errorf("%w: the volume is in use", libvirt.ErrBusy)

// ErrUsersUnknown says that it can't be determined whether a volume is in use.
var ErrUsersUnknown = fmt.Errorf("%w: it is unknown whether the volume is in use", libvirt.ErrBusy)

// User is a user of a volume: a VM's definition, another volume that is based on it, or a copy that QEMU makes.
type User struct {
	Host string
	// VM and UUID are those of a VM. Volume is the "pool/name" of a volume that is based on the volume, or, with VM,
	// the path of such a file.
	VM, UUID, Volume string
	// Copy says what a run copies at this moment, from the volume or into it; "" if it isn't that.
	Copy string
	// Active says that the VM runs.
	Active bool
	// Target is the disk whose content is the volume ("vda"); "" if the VM uses the volume in another way, for example as
	// a backing file.
	Target string
	// Format is the format that QEMU uses that disk with; "" if it is unknown, or if the disk is encrypted.
	Format string
	// ReadOnly says that the VM can't write to that disk.
	ReadOnly bool
	// Secret is the UUID of the secret with the passphrase of that disk; "" if it isn't encrypted.
	Secret string
}

// String returns the user's name for messages.
func (u User) String() string {
	if u.Volume != "" && u.VM != "" {
		return fmt.Sprintf("VM %q on host %q has %s, which is based on it", u.VM, u.Host, u.Volume)
	}
	if u.Volume != "" {
		return fmt.Sprintf("volume %q on host %q is based on it", u.Volume, u.Host)
	}
	if u.Copy != "" {
		return fmt.Sprintf("a run copies %s through host %q", u.Copy, u.Host)
	}
	return fmt.Sprintf("VM %q on host %q uses it", u.VM, u.Host)
}

// Users looks for users of a volume in the definitions and active pools of hosts: all hosts for a pool that they share,
// otherwise the host that has the volume. It reads the files of disks that no active pool lists, and pools again that
// may have an overlay which libvirt doesn't know. It waits until libvirt has finished what it changes of running VMs
// with a removable drive. libvirt stops a pool that it can't read: a plan uses KnownUsers. If one of the hosts can't
// answer, Users returns an error; if it finds no user, and can't read what a VM's disk is based on, it returns
// ErrUsersUnknown. It misses an overlay in an inactive pool that is no VM's disk.
func (s *Storage) Users(ctx context.Context, hosts hostset.Set, v libvirt.Volume) ([]User, error) {
	is, err := s.users(ctx, hosts, final, v)
	if err == nil {
		err = is.known()
	}
	return is.users, err
}

// KnownUsers is Users for plans: it changes nothing. It misses overlays of VMs that are off which libvirt doesn't know
// yet, because they were made without it, or are in no active pool.
func (s *Storage) KnownUsers(ctx context.Context, hosts hostset.Set, v libvirt.Volume) ([]User, error) {
	is, err := s.users(ctx, hosts, search{list: knownVolumes}, v)
	return is.users, err
}

// Unused reports whether Users is expected to find no user. It changes nothing.
func (s *Storage) Unused(ctx context.Context, hosts hostset.Set, v libvirt.Volume) bool {
	is, err := s.users(ctx, hosts, search{list: knownVolumes}, v)
	return err == nil && len(is.users) == 0 && len(is.unclear) == 0
}

// search is how thoroughly users are looked for.
type search struct {
	list poolLister
	// probe says that files of disks which no pool lists are read.
	probe bool
	// settle says that changes of running VMs that libvirt has begun are waited for.
	settle bool
	// limit bounds the search if the caller's context has no deadline; 0 is hostset.Ask's.
	limit time.Duration
}

var (
	// thorough is the search before anything is changed for the removal of a volume.
	thorough = search{list: volumesWith, probe: true, limit: searchLimit}
	// final is the search right before a volume is removed.
	final = search{list: volumesWith, probe: true, limit: searchLimit, settle: true}
)

// searchLimit bounds a search before a change. It is longer than it takes to list thousands of volumes.
const searchLimit = 5 * time.Minute

// poolLister returns the volumes of an active pool. files are the files of the host's VMs.
type poolLister func(ctx context.Context, h *libvirt.Host, pool string, files []string) ([]libvirt.Volume, error)

func knownVolumes(ctx context.Context, h *libvirt.Host, pool string, _ []string) ([]libvirt.Volume, error) {
	return h.PoolVolumes(ctx, pool)
}

// uses are the users of volumes, and why there may be more.
type uses struct {
	users   []User
	unclear []string
}

// known returns ErrUsersUnknown if no user was found and there may be one.
func (u uses) known() error {
	if len(u.users) > 0 || len(u.unclear) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrUsersUnknown, strings.Join(u.unclear, "; "))
}

func (s *Storage) users(
	ctx context.Context, hosts hostset.Set, how search, volumes ...libvirt.Volume,
) (all uses, _ error) {
	if _, bounded := ctx.Deadline(); !bounded && how.limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, how.limit)
		defer cancel()
	}
	answers := hostset.Ask(ctx, hosts, func(ctx context.Context, h *libvirt.Host) (*uses, error) {
		return s.usersOn(ctx, h, how, volumes)
	})
	var errs []error
	for _, a := range answers {
		if a.Err != nil {
			errs = append(errs, a.Err)
			continue
		}
		all.users = append(all.users, a.Value.users...)
		all.unclear = append(all.unclear, a.Value.unclear...)
	}
	return all, errors.Join(errs...)
}

// PoolUsers returns the VMs of a host whose definitions name a storage pool, or a volume of it by its path.
func PoolUsers(ctx context.Context, h *libvirt.Host, p Pool) ([]string, error) {
	return definitionsWith(ctx, h, p.isIn)
}

// poolInXML finds pools that libvirt wrote as a part of a source.
var poolInXML = regexp.MustCompile(` pool='([^'<>]+)'`)

// isIn reports whether a definition names the pool, or a path in it. What a stopped pool takes away, such as a mounted
// directory, it takes with everything below.
func (p Pool) isIn(xml string) bool {
	for _, match := range poolInXML.FindAllStringSubmatch(xml, -1) {
		if html.UnescapeString(match[1]) == p.Name {
			return true
		}
	}
	if !p.hasDirectory() {
		return false
	}
	directory := path.Clean(*p.Path)
	return slices.ContainsFunc(pathsIn(xml), func(file string) bool {
		file = path.Clean(file)
		return path.Dir(file) == directory || p.LosesVolumes() && strings.HasPrefix(file, directory+"/")
	})
}

// hasDirectory reports whether the pool's volumes are in a directory of their own. Those of other pools share one with
// other devices.
func (p Pool) hasDirectory() bool {
	return p.Path != nil && p.kind().ownDirectory
}

// SecretUsers returns the VMs and storage pools of a host whose definitions name a secret. If the pools can't be read,
// it returns the VMs; if there are none, it returns the error.
func SecretUsers(ctx context.Context, h *libvirt.Host, uuid string) ([]string, error) {
	users, err := definitionsWith(ctx, h, func(xml string) bool { return strings.Contains(xml, uuid) })
	if err != nil {
		return nil, err
	}
	pools, err := h.StoragePools(ctx)
	for _, p := range pools {
		if strings.Contains(p.XML, uuid) {
			users = append(users, "storage pool "+p.Name)
		}
	}
	if len(users) > 0 {
		return users, nil
	}
	return nil, err
}

// runningUsers returns the VMs that run on the host and use the active pool. pools are its definitions, of which all
// have its name. Its volumes are listed only if one of these has no directory of its own: that takes long for a large
// pool, and fails for one whose server is gone. Of such a pool, VMs that use another path to a volume than the pool has
// aren't found.
func runningUsers(ctx context.Context, h *libvirt.Host, pools []Pool) ([]string, error) {
	at := map[string]bool{}
	if i := slices.IndexFunc(pools, func(p Pool) bool { return !p.hasDirectory() }); i >= 0 {
		volumes, err := h.PoolVolumes(ctx, pools[i].Name)
		if err != nil {
			return nil, err
		}
		for _, v := range volumes {
			at[v.Path] = v.Path != ""
		}
	}
	return domainsWith(ctx, h, func(d libvirt.Domain) bool {
		return d.LiveXML != "" && (slices.ContainsFunc(pools, func(p Pool) bool { return p.isIn(d.LiveXML) }) ||
			len(at) > 0 && slices.ContainsFunc(pathsIn(d.LiveXML), func(file string) bool { return at[file] }))
	})
}

func definitionsWith(ctx context.Context, h *libvirt.Host, uses func(xml string) bool) ([]string, error) {
	return domainsWith(ctx, h, func(d libvirt.Domain) bool { return uses(d.LiveXML) || uses(d.PersistentXML) })
}

func domainsWith(ctx context.Context, h *libvirt.Host, uses func(libvirt.Domain) bool) (users []string, _ error) {
	domains, copies, err := h.DomainsAndCopies(ctx)
	for _, d := range domains {
		if uses(d) {
			users = append(users, "virtual machine "+d.Name)
		}
	}
	for _, c := range copies {
		if uses(libvirt.Domain{LiveXML: c.XML}) {
			users = append(users, "the copy into volume "+c.Into)
		}
	}
	slices.Sort(users)
	return users, err
}

// UserHosts returns the hosts whose definitions may use a volume of a host's pool: all hosts if they share the pool,
// otherwise that host.
func (s *Storage) UserHosts(ctx context.Context, host, pool string) (hostset.Set, error) {
	own := s.Hosts.Named(host)
	for _, a := range PoolOn(ctx, own, pool) {
		switch {
		case a.Err != nil:
			return nil, a.Err
		case a.Value != nil && a.Value.Shared:
			return s.Hosts.Present(), nil
		}
	}
	return own, nil
}

// SilentUserHosts returns the hosts that share a pool with a host and don't answer, and why. While there are any, none
// of the pool's volumes can be removed: these hosts may use them. It changes nothing.
func (s *Storage) SilentUserHosts(ctx context.Context, host, pool string) (map[string]error, error) {
	hosts, err := s.UserHosts(ctx, host, pool)
	if err != nil {
		return nil, err
	}
	return hostset.Silent(hostset.Ask(ctx, hosts.Without(host),
		func(ctx context.Context, h *libvirt.Host) (*libvirt.StoragePool, error) {
			return h.StoragePool(ctx, pool)
		})), nil
}

func (s *Storage) usersOn(
	ctx context.Context, h *libvirt.Host, how search, volumes []libvirt.Volume,
) (*uses, error) {
	files, err := readFiles(ctx, h, how)
	if err != nil {
		return nil, err
	}
	found := &uses{unclear: files.unclear}
	for _, v := range volumes {
		users, err := s.usersAmong(ctx, files, v)
		if err != nil {
			return nil, err
		}
		found.users = append(found.users, users...)
	}
	return found, nil
}

// usersAmong returns the users of a volume among the files of a host.
func (s *Storage) usersAmong(ctx context.Context, files *hostFiles, v libvirt.Volume) (users []User, err error) {
	paths := slices.AppendSeq(slices.Clone(files.paths), maps.Values(files.named))
	for _, f := range files.based {
		paths = append(paths, f.on)
	}
	wanted, err := s.sought(ctx, files.host, v, paths, files.probe)
	if err != nil {
		return nil, err
	}
	// A host may have a shared pool in another directory.
	if at := fileOf(files.pools, Ref{Pool: v.Pool, Name: v.Name}); at != "" && !wanted.isAt(at) {
		here := v
		here.Path = at
		also, err := s.sought(ctx, files.host, here, paths, files.probe)
		if err != nil {
			return nil, err
		}
		wanted.links = append(wanted.links, append(also.links, at)...)
	}
	for ref, file := range files.named {
		if wanted.isAt(file) {
			wanted.refs = append(wanted.refs, ref)
		}
	}
	for _, d := range files.domains {
		for _, document := range []string{d.LiveXML, d.PersistentXML} {
			as, used := wanted.usedBy(document)
			if used {
				users = append(users, User{
					Host: files.host.Name(), VM: d.Name, UUID: d.UUID, Active: d.Active() && document == d.LiveXML, Target: as.target,
					Format: as.format, ReadOnly: as.readOnly, Secret: as.secret,
				})
				break
			}
		}
	}
	for _, c := range files.copies {
		switch _, used := wanted.usedBy(c.XML); {
		case c.Into == v.Pool+"/"+v.Name:
			users = append(users, User{Host: files.host.Name(), Active: true, Copy: "another volume into it"})
		case used:
			users = append(users, User{Host: files.host.Name(), Active: true, Copy: fmt.Sprintf("it into volume %q", c.Into)})
		}
	}
	for _, f := range files.based {
		if wanted.isAt(f.on) || wanted.is(f.ref) {
			users = append(users, f.user)
		}
	}
	return users, nil
}

// volumesWith returns the volumes of an active pool. If one of the files is in the pool's directory and isn't among
// them, libvirt reads the directory again: it doesn't know what a user has created there with qemu-img. It returns
// ErrBusy if libvirt can't do that: it then stops the pool, and no longer knows the overlays that it knew before. With
// ErrPoolInactive and ErrNoPool, it returns what the pool had before it was stopped.
func volumesWith(ctx context.Context, h *libvirt.Host, pool string, files []string) ([]libvirt.Volume, error) {
	volumes, err := h.PoolVolumes(ctx, pool)
	if errors.Is(err, libvirt.ErrInternal) && readsOne(ctx, h, pool) && relistsImages(ctx, h, pool, err) {
		volumes, err = h.PoolVolumes(ctx, pool)
	}
	if err != nil {
		return nil, err
	}
	is, err := h.StoragePool(ctx, pool)
	if errors.Is(err, libvirt.ErrNotFound) {
		return volumes, nil // It was removed at this moment.
	}
	if err != nil {
		return nil, err
	}
	p, err := ReadPool(cmp.Or(is.LiveXML, is.XML))
	if err != nil || p.Directory() == "" {
		return volumes, err
	}
	known := map[string]bool{}
	for _, v := range volumes {
		known[path.Clean(v.Path)] = true
	}
	i := slices.IndexFunc(files, func(file string) bool {
		file = path.Clean(file)
		return path.Dir(file) == path.Clean(p.Directory()) && !known[file]
	})
	if i < 0 {
		return volumes, nil
	}
	var read []libvirt.Volume
	if err = readAgain(ctx, h, pool); err == nil {
		read, err = h.PoolVolumes(ctx, pool)
	}
	if errors.Is(err, libvirt.ErrPoolInactive) || errors.Is(err, libvirt.ErrNoPool) {
		return volumes, err // Another client has stopped it: libvirt refused, and tried nothing.
	}
	if err != nil {
		// The cause is text alone: that the pool isn't there now must not be taken for a pool without volumes.
		return nil, fmt.Errorf("%w: on host %q, storage pool %q can't be read again. A virtual machine has %s in it, which "+
			"libvirt doesn't know, so what that file is based on is unknown. libvirt stops a pool that it can't read: %s",
			libvirt.ErrBusy, h.Name(), pool, files[i], err.Error())
	}
	return read, nil
}
