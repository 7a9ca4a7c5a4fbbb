package lab

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// privatePaths are what a machine has for itself; everything else it shares with the machine that the lab runs on.
var privatePaths = []string{
	"/etc/group", "/etc/hostname", "/etc/hosts", "/etc/libvirt", "/etc/passwd", "/etc/shadow", "/etc/ssh",
	"/run", "/srv", "/var/cache/libvirt", "/var/lib/libvirt", "/var/lib/swtpm-localca", "/var/log",
}

// skeletonDepth is how deep below a directory of the distribution its layout is taken over. What running hypervisors
// make there is deeper or is left empty.
const skeletonDepth = 4

// prepare makes the private files of a machine, as a freshly installed host has them.
func (m *machine) prepare() error {
	for _, path := range []string{
		"/var/cache/libvirt", "/var/lib/libvirt", "/var/lib/swtpm-localca", "/var/log/libvirt", "/var/log/swtpm",
	} {
		if err := copyLayout(path, m.path(path)); err != nil {
			return fmt.Errorf("preparing the files of %s: %w", m.name, err)
		}
	}
	for _, path := range []string{"/etc/libvirt", "/etc/ssh", "/srv", "/var/log"} {
		if err := os.MkdirAll(m.path(path), 0o755); err != nil {
			return fmt.Errorf("preparing the files of %s: %w", m.name, err)
		}
	}
	var hosts strings.Builder
	hosts.WriteString("127.0.0.1 localhost\n::1 localhost\n")
	known := m.lab.machines()
	if !slices.ContainsFunc(known, func(other *machine) bool { return other.name == m.name }) {
		known = append(known, m)
	}
	for _, other := range known {
		fmt.Fprintf(&hosts, "%s %s\n", other.address, other.name)
	}
	fstab := ""
	for _, path := range privatePaths {
		// What this machine hasn't got can't be covered.
		if _, err := os.Stat(path); err == nil {
			fstab += m.bind(path)
		}
	}
	for _, accounts := range []string{"/etc/group", "/etc/passwd"} {
		if err := copyFile(accounts, m.path(accounts)); err != nil {
			return fmt.Errorf("preparing the files of %s: %w", m.name, err)
		}
	}
	for path, content := range map[string]string{
		m.path("/etc/hosts"):          hosts.String(),
		m.path("/etc/hostname"):       m.name + "\n",
		filepath.Join(m.dir, "fstab"): fstab,
	} {
		if err := writeFile(path, content, 0o644); err != nil {
			return err
		}
	}
	// A locked root account, which images of distributions have, would not be let in by SSH.
	return writeFile(m.path("/etc/shadow"), "root:*:19000:0:99999:7:::\n", 0o600)
}

// bind is the line of the machine's fstab for a private path: a space is written as a number there.
func (m *machine) bind(path string) string {
	return strings.ReplaceAll(m.path(path), " ", `\040`) + " " + path + " none bind\n"
}

// copyLayout copies the directories below from with their owners and modes, without their files.
func copyLayout(from, to string) error {
	if _, err := os.Stat(from); errors.Is(err, os.ErrNotExist) {
		return os.MkdirAll(to, 0o755)
	}
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if strings.Count(rel, "/") >= skeletonDepth {
			return filepath.SkipDir
		}
		return copyDir(path, filepath.Join(to, rel))
	})
}

func copyDir(from, to string) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fmt.Errorf("no owner known of %s", from)
	}
	if err := os.Chown(to, int(owner.Uid), int(owner.Gid)); err != nil {
		return err
	}
	return os.Chmod(to, info.Mode().Perm())
}

// copyFile copies a file; the copy is readable by all users and belongs to root. It appears at once: whoever reads an
// older one keeps reading that.
func copyFile(from, to string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return fmt.Errorf("copying %s: %w", from, err)
	}
	if err := writeFile(to+".new", string(data), 0o644); err != nil {
		return err
	}
	if err := os.Rename(to+".new", to); err != nil {
		return fmt.Errorf("copying %s: %w", from, err)
	}
	return nil
}

// linkFile gives a file one more name, which replaces what had it.
func linkFile(from, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return fmt.Errorf("linking %s: %w", from, err)
	}
	if err := os.Remove(to + ".new"); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("linking %s: %w", from, err)
	}
	if err := os.Link(from, to+".new"); err != nil {
		return fmt.Errorf("linking %s: %w", from, err)
	}
	// Renaming one name of a file to another does nothing: then the old one is removed.
	if err := os.Rename(to+".new", to); err != nil {
		return fmt.Errorf("linking %s: %w", from, err)
	}
	if err := os.Remove(to + ".new"); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("linking %s: %w", from, err)
	}
	return nil
}
