package lab

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// cgroupControllers are what libvirt limits a guest with, and what a host with cgroups needs.
var cgroupControllers = []string{"cpu", "cpuacct", "cpuset", "memory", "blkio"}

// joinCgroups runs a command in the cgroups of a machine: to enter its namespaces doesn't move a process there.
const joinCgroups = `for procs in /sys/fs/cgroup/*/cgroup.procs; do echo 0 >"$procs"; done; exec "$@"`

// StartHostWithCgroups is StartHost with cgroups of its own, below those of this computer, by which its libvirt limits
// guests as on a real host. Kernels have them in two forms; this one is version 1, with one hierarchy for each
// controller.
func (l *Lab) StartHostWithCgroups(t testing.TB) *Host {
	t.Helper()
	return l.startHost(t, func(h *Host) { h.machine.cgroups = true })
}

// GuestCgroup returns the directory, inside the host, of the cgroup of a controller that a running domain has.
func (h *Host) GuestCgroup(ctx context.Context, domain, controller string) (string, error) {
	pid, err := h.Run(ctx, "cat", "/run/libvirt/qemu/"+domain+".pid")
	if err != nil {
		return "", err
	}
	groups, err := h.Run(ctx, "cat", "/proc/"+strings.TrimSpace(pid)+"/cgroup")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(groups) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) == 3 && slices.Contains(strings.Split(fields[1], ","), controller) {
			// libvirt has QEMU's own threads one level below, and each virtual CPU in another one.
			return filepath.Join("/sys/fs/cgroup", controller, strings.TrimSuffix(fields[2], "/emulator")), nil
		}
	}
	return "", fmt.Errorf("domain %s on %s has no cgroup of %s", domain, h.Name, controller)
}

// hierarchy is a mounted hierarchy of cgroups.
type hierarchy struct {
	// path is where it is mounted, own the cgroup of this process below it.
	path, own string
	// controllers are those that it has, separated by commas, as mount names them.
	controllers string
}

// hierarchies returns this computer's hierarchies with controllers that hosts need.
func hierarchies() ([]hierarchy, error) {
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return nil, fmt.Errorf("looking for cgroups: %w", err)
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, fmt.Errorf("looking for cgroups: %w", err)
	}
	var found []hierarchy
	for line := range strings.Lines(string(own)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 || !slices.ContainsFunc(strings.Split(fields[1], ","), needsController) {
			continue
		}
		for mount := range strings.Lines(string(mounts)) {
			m := strings.Fields(mount)
			if len(m) > 3 && m[2] == "cgroup" && subset(strings.Split(fields[1], ","), strings.Split(m[3], ",")) {
				found = append(found, hierarchy{path: m[1], own: filepath.Join(m[1], fields[2]), controllers: fields[1]})
				break
			}
		}
	}
	return found, nil
}

func needsController(name string) bool { return slices.Contains(cgroupControllers, name) }

func subset(these, those []string) bool {
	return !slices.ContainsFunc(these, func(one string) bool { return !slices.Contains(those, one) })
}

// cgroupPrefix is what the names of the lab's cgroups begin with: no other lab has its directory.
func (l *Lab) cgroupPrefix() string { return "virtfleet-lab" + url.QueryEscape(l.Dir) + "@" }

// createCgroups makes the cgroups of a machine, empty as after a boot, and lists them for its first process.
func (m *machine) createCgroups(ctx context.Context) error {
	all, err := hierarchies()
	if err != nil {
		return err
	}
	var there []string
	list := ""
	for _, h := range all {
		there = append(there, strings.Split(h.controllers, ",")...)
		list += filepath.Join(h.own, m.lab.cgroupPrefix()+m.name) + " " + h.controllers + "\n"
	}
	if !subset(cgroupControllers, there) {
		return fmt.Errorf("a host with cgroups needs the controllers %s in hierarchies of version 1, mounted below "+
			"/sys/fs/cgroup; this computer has %q: a kernel that is booted with systemd.unified_cgroup_hierarchy=0 has them",
			strings.Join(cgroupControllers, ", "), strings.Join(there, ", "))
	}
	if err := m.removeCgroups(ctx); err != nil {
		return err
	}
	for _, h := range all {
		if err := h.create(m.lab.cgroupPrefix() + m.name); err != nil {
			return fmt.Errorf("creating a cgroup of machine %s: %w", m.name, err)
		}
	}
	return writeFile(filepath.Join(m.dir, "cgroups"), list, 0o644)
}

// create makes a cgroup below the one of this process. One of cpuset has no CPUs until it is given some.
func (h hierarchy) create(name string) error {
	group := filepath.Join(h.own, name)
	if err := os.Mkdir(group, 0o755); err != nil {
		return err
	}
	for _, setting := range []string{"cpuset.cpus", "cpuset.mems"} {
		value, err := os.ReadFile(filepath.Join(h.own, setting))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(group, setting), value, 0o644)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// removeCgroups removes the cgroups of a machine that ended. Its last processes may end a little later.
func (m *machine) removeCgroups(ctx context.Context) error {
	groups, err := m.lab.cgroups()
	if err != nil {
		return err
	}
	for _, group := range groups {
		if filepath.Base(group) != m.lab.cgroupPrefix()+m.name {
			continue
		}
		if err := removeCgroup(ctx, group); err != nil {
			return err
		}
	}
	return nil
}

// removeCgroup removes a cgroup with all that are below it, if it is there.
func removeCgroup(ctx context.Context, group string) error {
	return waitFor(ctx, "the processes in cgroup "+group+" to end", func(context.Context) error {
		var below []string
		err := filepath.WalkDir(group, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.IsDir() {
				below = append(below, path)
			}
			return err
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return permanent(fmt.Errorf("removing cgroup %s: %w", group, err))
		}
		for _, one := range slices.Backward(below) {
			if err := syscall.Rmdir(one); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		return nil
	})
}

// cgroups returns the lab's cgroups that are there. They are below the cgroup of the process that made them.
func (l *Lab) cgroups() ([]string, error) {
	all, err := hierarchies()
	if err != nil {
		return nil, err
	}
	var found []string
	for _, h := range all {
		err := filepath.WalkDir(h.path, func(path string, entry fs.DirEntry, err error) error {
			switch {
			case errors.Is(err, fs.ErrNotExist):
				return nil // Another one's, that just went.
			case err != nil:
				return err
			case entry.IsDir() && strings.HasPrefix(entry.Name(), l.cgroupPrefix()):
				found = append(found, path)
				return filepath.SkipDir
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("looking for cgroups of the lab: %w", err)
		}
	}
	return found, nil
}
