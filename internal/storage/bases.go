package storage

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// hostFiles is what a host has that may use a volume.
type hostFiles struct {
	host    *libvirt.Host
	domains []libvirt.Domain
	copies  []libvirt.Copy
	pools   []libvirt.StoragePool
	// paths are in definitions, and named are the files of the volumes that these name by pool and volume.
	paths []string
	named map[Ref]string
	// listed says which files are volumes of active pools.
	listed map[string]bool
	based  []based
	// unclear says of which files it is unknown what they are based on, and why.
	unclear []string
	// probe says that files which no pool lists are read.
	probe bool
}

// readFiles reads what a host has that may use a volume.
func readFiles(ctx context.Context, h *libvirt.Host, how search) (f *hostFiles, err error) {
	f = &hostFiles{host: h, named: map[Ref]string{}, listed: map[string]bool{}, probe: how.probe}
	if f.domains, f.copies, err = h.DomainsAndCopies(ctx); err != nil {
		return nil, err
	}
	if how.settle {
		if f.domains, err = settled(ctx, h, f.domains); err != nil {
			return nil, err
		}
	}
	if f.pools, err = h.StoragePools(ctx); err != nil {
		return nil, err
	}
	for _, d := range f.domains {
		f.paths = append(f.paths, pathsIn(d.LiveXML, d.PersistentXML)...)
		maps.Copy(f.named, filesIn(f.pools, d.LiveXML, d.PersistentXML))
	}
	for _, c := range f.copies {
		f.paths = append(f.paths, pathsIn(c.XML)...)
	}
	if err = f.addListed(ctx, how.list); err != nil {
		return nil, err
	}
	return f, f.addUnlisted(ctx)
}

// settled returns the domains, of which it reads those again that run with a removable drive: while their guest is
// asked to release a medium, libvirt shows the next one, and the old one again if the guest refuses.
func settled(ctx context.Context, h *libvirt.Host, domains []libvirt.Domain) ([]libvirt.Domain, error) {
	errs := make([]error, len(domains))
	var reading sync.WaitGroup
	for i, d := range domains {
		if !strings.Contains(d.LiveXML, "device='cdrom'") && !strings.Contains(d.LiveXML, "device='floppy'") {
			continue
		}
		reading.Go(func() {
			now, err := h.SettledDomain(ctx, d.UUID)
			switch {
			case errors.Is(err, libvirt.ErrNotFound):
				domains[i].LiveXML, domains[i].PersistentXML = "", ""
			case err != nil:
				errs[i] = fmt.Errorf("%w: VM %q may still have it in a drive: %w", ErrUsersUnknown, d.Name, err)
			default:
				domains[i] = *now
			}
		})
	}
	reading.Wait()
	return domains, errors.Join(errs...)
}

// addListed adds the volumes of the active pools that are based on another file.
func (f *hostFiles) addListed(ctx context.Context, list poolLister) error {
	files := slices.AppendSeq(slices.Clone(f.paths), maps.Values(f.named))
	for i, p := range f.pools {
		if !p.Active {
			continue
		}
		volumes, err := list(ctx, f.host, p.Name, files)
		if errors.Is(err, libvirt.ErrPoolInactive) || errors.Is(err, libvirt.ErrNoPool) {
			f.pools[i].Active = false // It was stopped at this moment. What was listed before still counts.
		} else if err != nil {
			return err
		}
		for _, v := range volumes {
			f.listed[path.Clean(v.Path)] = true
			if v.Backing != "" {
				f.based = append(f.based, based{on: v.Backing, user: User{Host: f.host.Name(), Volume: p.Name + "/" + v.Name}})
			}
		}
	}
	return nil
}

// based is a file that is based on another one. on is the path of that, or "" if only the volume is known.
type based struct {
	user User
	on   string
	ref  Ref
}

// diskFile is the file of a VM's disk, or one that such a file is based on.
type diskFile struct {
	vm   libvirt.Domain
	path string
}

// diskInXML finds disks whose image is a file or a volume, as libvirt writes them.
var diskInXML = regexp.MustCompile(`(?s)<disk type='(?:file|volume)'.*?</disk>`)

// sourceInXML finds what a disk's image is, and rawInXML a format that is based on nothing.
var (
	sourceInXML = regexp.MustCompile(`<source [^>]*>`)
	rawInXML    = regexp.MustCompile(`<driver [^>]*type='raw'`)
)

// imagesOf returns the files of a VM's disks of which its definitions don't say what they are based on. The definition
// of a VM that runs says that to the end, which is an empty element.
func imagesOf(d libvirt.Domain, pools []libvirt.StoragePool) []diskFile {
	files, known := map[string]bool{}, map[string]bool{}
	for _, document := range []string{d.LiveXML, d.PersistentXML} {
		for _, disk := range diskInXML.FindAllString(document, -1) {
			source := sourceInXML.FindString(disk)
			paths := slices.AppendSeq(pathsIn(source), maps.Values(filesIn(pools, source)))
			for _, p := range paths {
				p = path.Clean(p)
				files[p] = true
				known[p] = known[p] || strings.HasPrefix(p, "/dev/") || rawInXML.MatchString(disk) ||
					strings.Contains(disk, "<backingStore/>")
			}
		}
	}
	var images []diskFile
	for _, file := range slices.Sorted(maps.Keys(files)) {
		if !known[file] {
			images = append(images, diskFile{vm: d, path: file})
		}
	}
	return images
}

// Owner returns the name of the VM of a host whose own disk a volume is, "" for none. Such a volume is moved and
// deleted with the VM.
func (s *Storage) Owner(ctx context.Context, host string, v libvirt.Volume) (vm string, _ error) {
	h, err := s.host(host)
	if err != nil {
		return "", err
	}
	domains, err := h.Domains(ctx)
	for _, d := range domains {
		if _, own := ownDisks(d)[path.Clean(v.Path)]; own {
			return d.Name, nil
		}
	}
	return "", err
}

// ownDisks returns the disks that were created with a VM, by their paths.
func ownDisks(d libvirt.Domain) map[string]domain.OwnDisk {
	own := map[string]domain.OwnDisk{}
	for _, document := range []string{d.LiveXML, d.PersistentXML} {
		if !strings.Contains(document, domain.MetadataNamespace) {
			continue
		}
		if definition, err := domain.Parse(document); err == nil {
			for _, o := range definition.Metadata().OwnDisks {
				own[path.Clean(o.Path)] = o
			}
		}
	}
	return own
}

// addUnlisted adds what the files of disks are based on that aren't among the volumes. It reads them if f.probe is set.
// What was created with a VM is based on what the VM's metadata says, also while its file can't be read, for example
// because a filesystem isn't mounted.
func (f *hostFiles) addUnlisted(ctx context.Context) error {
	own := map[string]bool{}
	var unlisted []diskFile
	for _, d := range f.domains {
		for at, o := range ownDisks(d) {
			if f.listed[at] {
				continue
			}
			own[at] = true
			if pool, name, ok := strings.Cut(o.Image, "/"); ok && o.Based() {
				f.based = append(f.based, based{
					user: User{Host: f.host.Name(), VM: d.Name, UUID: d.UUID, Active: d.Active()}, ref: Ref{Pool: pool, Name: name},
				})
			}
		}
		for _, image := range imagesOf(d, f.pools) {
			if !f.listed[image.path] {
				unlisted = append(unlisted, image)
			}
		}
	}
	seen := map[string]bool{}
	for len(unlisted) > 0 {
		inDirectory := map[string][]diskFile{}
		for _, file := range unlisted {
			if seen[file.path] {
				continue
			}
			seen[file.path] = true
			pool := f.inactivePoolOf(file.path)
			switch {
			case own[file.path] && (pool != "" || !f.probe):
			case pool != "":
				f.unclear = append(f.unclear, file.isInStopped(pool, f.host.Name()))
			case !f.probe:
				f.unclear = append(f.unclear, fmt.Sprintf("%s of VM %q on host %q isn't in a storage pool", file.path, file.vm.Name,
					f.host.Name()))
			case f.host.HasFiles():
				inDirectory[path.Dir(file.path)] = append(inDirectory[path.Dir(file.path)], file)
			}
		}
		var err error
		if unlisted, err = f.readDirectories(ctx, inDirectory, own); err != nil {
			return err
		}
	}
	return nil
}

// isInStopped says why it is unknown what the file is based on.
func (file diskFile) isInStopped(pool, host string) string {
	return fmt.Sprintf("storage pool %q isn't active, so it is unknown what %s of VM %q on host %q is based on. Start "+
		"the pool, for example with \"virsh pool-start %s\", or undefine it if its files are gone",
		pool, file.path, file.vm.Name, host, pool)
}

// UnclearBases says of which disks of a host's VMs it is unknown what they are based on, because they are in one of the
// stopped pools. It calls no host: a plan uses it, and Release looks further.
func UnclearBases(host string, domains []libvirt.Domain, stopped []libvirt.StoragePool) (unclear []string) {
	if len(stopped) == 0 {
		return nil
	}
	f := &hostFiles{pools: stopped}
	own := map[string]domain.OwnDisk{}
	for _, d := range domains {
		maps.Copy(own, ownDisks(d))
	}
	for _, d := range domains {
		for _, image := range imagesOf(d, stopped) {
			pool := f.inactivePoolOf(image.path)
			if _, created := own[image.path]; pool != "" && !created {
				unclear = append(unclear, image.isInStopped(pool, host))
			}
		}
	}
	return unclear
}

// inactivePoolOf returns the pool that has the file when it is active, "" for none.
func (f *hostFiles) inactivePoolOf(file string) string {
	for _, is := range f.pools {
		p, err := ReadPool(is.XML)
		if is.Active || err != nil || p.Directory() == "" {
			continue
		}
		directory := path.Clean(p.Directory())
		if path.Dir(file) == directory || p.LosesVolumes() && strings.HasPrefix(file, directory+"/") {
			return p.Name
		}
	}
	return ""
}

// directoriesAtOnce is how many directories of a host are read at a time.
const directoriesAtOnce = 8

// readDirectories reads files, adds what they are based on, and returns the bases that have to be read, too. A file
// that doesn't exist is based on nothing: if it counted as unclear, a VM whose disk is gone would keep all volumes.
func (f *hostFiles) readDirectories(
	ctx context.Context, files map[string][]diskFile, own map[string]bool,
) (next []diskFile, _ error) {
	var mu sync.Mutex
	reads, ctx := errgroup.WithContext(ctx)
	reads.SetLimit(directoriesAtOnce)
	for directory, files := range files {
		reads.Go(func() error {
			var names []string
			for _, file := range files {
				names = append(names, path.Base(file.path))
			}
			volumes, err := readDirectory(ctx, f.host, directory, names)
			if err != nil && (ctx.Err() != nil || errors.Is(err, libvirt.ErrUnreachable)) {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			for _, file := range files {
				if err != nil {
					if !own[file.path] {
						f.unclear = append(f.unclear, fmt.Sprintf("what %s of VM %q on host %q is based on can't be read: %v. Make "+
							"it readable for libvirt, or remove it or the VM", file.path, file.vm.Name, f.host.Name(), err))
					}
					continue
				}
				if on := volumes[path.Base(file.path)].Backing; strings.HasPrefix(on, "/") {
					on = path.Clean(on)
					f.based = append(f.based, based{on: on, user: User{
						Host: f.host.Name(), VM: file.vm.Name, UUID: file.vm.UUID, Active: file.vm.Active(), Volume: file.path,
					}})
					if !f.listed[on] && !strings.HasPrefix(on, "/dev/") {
						next = append(next, diskFile{vm: file.vm, path: on})
					}
				}
			}
			return nil
		})
	}
	return next, reads.Wait()
}

// directoryTries is how often a directory is read, and directoryPause the wait before the next time: other files of it
// may be removed meanwhile, or its storage pool may be started.
const (
	directoryTries = 3
	directoryPause = time.Second
)

func readDirectory(
	ctx context.Context, h *libvirt.Host, directory string, names []string,
) (files map[string]libvirt.Volume, err error) {
	for try := 1; ; try++ {
		d, _, err := h.DirectoryIfThere(ctx, directory, names...)
		switch {
		case err == nil:
			return d.Files, nil
		case errors.Is(err, libvirt.ErrUnreachable) || try == directoryTries:
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(directoryPause):
		}
	}
}
