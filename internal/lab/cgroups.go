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

// joinCgroups runs a command in the cgroups of a machine. Its first argument is the file that lists them. A process
// that enters the machine's namespaces doesn't enter its cgroups. Those of version 2, as systemd mounts them, can't be
// entered from inside the namespaces.
const joinCgroups = `while read -r group _; do
	[ ! -d "$group/lab" ] || group=$group/lab
	echo 0 >"$group/cgroup.procs"
done <"$0"
exec "$@"`

// StartHostWithCgroups is StartHost with cgroups of its own, below those of this computer, by which its libvirt limits
// guests as on a real host. Kernels have them in two versions: the first has a hierarchy for each controller, the
// second one for all. The host has each controller in the version in which this computer has it.
func (l *Lab) StartHostWithCgroups(t testing.TB) *Host {
	t.Helper()
	return l.startHost(t, func(h *Host) { h.machine.cgroups = true })
}

// GuestCgroup returns the directory, inside the host, of the cgroup of a controller that a running domain has, and its
// version, by which its files are named.
func (h *Host) GuestCgroup(ctx context.Context, domain, controller string) (group string, version int, err error) {
	pid, err := h.Run(ctx, "cat", "/run/libvirt/qemu/"+domain+".pid")
	if err != nil {
		return "", 0, err
	}
	groups, err := h.Run(ctx, "cat", "/proc/"+strings.TrimSpace(pid)+"/cgroup")
	if err != nil {
		return "", 0, err
	}
	// The line of version 2, which names no controllers, is the last one.
	for line := range strings.Lines(groups) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 {
			continue
		}
		// libvirt has QEMU's own threads one level below, and each virtual CPU in another one.
		below := strings.TrimSuffix(fields[2], "/emulator")
		if slices.Contains(strings.Split(fields[1], ","), controller) {
			return filepath.Join("/sys/fs/cgroup", controller, below), 1, nil
		}
		if fields[1] == "" {
			return filepath.Join("/sys/fs/cgroup", unified, below), 2, nil
		}
	}
	return "", 0, fmt.Errorf("domain %s on %s has no cgroup of %s", domain, h.Name, controller)
}

// hierarchy is a mounted hierarchy of cgroups.
type hierarchy struct {
	// path is where it is mounted, own the cgroup below which the lab's are: that of this process. In version 2 it is
	// the root, since no other cgroup with processes can have controllers below it.
	path, own string
	// controllers are those that it has, separated by commas, as mount and libvirt name them.
	controllers string
	// enable is what gives cgroups the controllers of version 2.
	enable string
}

// unified is what the hierarchy of version 2 is called on the hosts.
const unified = "unified"

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
		if len(fields) != 3 {
			continue
		}
		if fields[1] == "" {
			two, err := unifiedHierarchy(string(mounts))
			if err != nil {
				return nil, err
			}
			found = append(found, two...)
		}
		if !slices.ContainsFunc(strings.Split(fields[1], ","), needsController) {
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

// unifiedHierarchy returns the hierarchy of version 2, if it has controllers that hosts need.
func unifiedHierarchy(mounts string) ([]hierarchy, error) {
	for mount := range strings.Lines(mounts) {
		m := strings.Fields(mount)
		if len(m) < 3 || m[2] != "cgroup2" {
			continue
		}
		has, err := os.ReadFile(filepath.Join(m[1], "cgroup.controllers"))
		if err != nil {
			return nil, fmt.Errorf("looking for cgroups: %w", err)
		}
		var enable, controllers []string
		for _, name := range strings.Fields(string(has)) {
			// A cgroup of version 2 accounts for CPU time without a controller.
			names := map[string][]string{"cpu": {"cpu", "cpuacct"}, "io": {"blkio"}, "cpuset": {name}, "memory": {name}}[name]
			if len(names) > 0 {
				enable, controllers = append(enable, "+"+name), append(controllers, names...)
			}
		}
		if len(enable) > 0 {
			return []hierarchy{{
				path: m[1], own: m[1], controllers: strings.Join(controllers, ","), enable: strings.Join(enable, " "),
			}}, nil
		}
		break
	}
	return nil, nil
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
		name := h.controllers
		if h.enable != "" {
			name = unified + " " + h.enable
		}
		list += filepath.Join(h.own, m.lab.cgroupPrefix()+m.name) + " " + name + "\n"
	}
	if !subset(cgroupControllers, there) {
		return fmt.Errorf("a host with cgroups needs the controllers %s, mounted below /sys/fs/cgroup; this "+
			"computer has %q",
			strings.Join(cgroupControllers, ", "), strings.Join(there, ", "))
	}
	if err := m.removeCgroups(ctx); err != nil {
		return err
	}
	// The weights of guests' I/O are bfq's, which is a module of Debian's kernel and part of others.
	_ = run(ctx, "modprobe", "--quiet", "bfq")
	for _, h := range all {
		if err := h.create(m.lab.cgroupPrefix() + m.name); err != nil {
			return fmt.Errorf("creating a cgroup of machine %s: %w", m.name, err)
		}
	}
	return writeFile(m.cgroupList(), list, 0o644)
}

func (m *machine) cgroupList() string { return filepath.Join(m.dir, "cgroups") }

// create makes a cgroup of a machine. One of cpuset has no CPUs until it is given some, in version 1. In version 2, the
// root lets its cgroups have the controllers from now on: to take them back could break a host that starts meanwhile.
func (h hierarchy) create(name string) error {
	if h.enable != "" {
		if err := os.WriteFile(filepath.Join(h.own, "cgroup.subtree_control"), []byte(h.enable), 0o644); err != nil {
			return err
		}
	}
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
