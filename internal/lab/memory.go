package lab

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

const (
	// A lab's files use at most a third of the memory that this machine can spare: guests need the rest.
	memoryShare = 3
	// A file uses memory only for what is written to it: these are limits, not what a lab uses.
	mostMemory, leastMemory = 8 << 30, 3 << 30
)

// intoMemory mounts a file system in memory, of limited size, on the lab's empty directory: what guests write to their
// disks need not be written to a disk of this machine. If that isn't possible, the directory stays as it is, and OnDisk
// says why.
func (l *Lab) intoMemory() error {
	available, err := availableMemory()
	if err != nil {
		return err
	}
	size := min(available/memoryShare, mostMemory)
	if size < leastMemory {
		l.OnDisk = fmt.Sprintf("%d MiB of memory are available, its files may need %d MiB",
			available>>20, leastMemory*memoryShare>>20)
		return nil
	}
	options := fmt.Sprintf("size=%d,mode=0755", size)
	err = syscall.Mount("virtfleet-lab", l.Dir, "tmpfs", 0, options+",huge=advise")
	if errors.Is(err, syscall.EINVAL) { // This kernel has no huge pages.
		err = syscall.Mount("virtfleet-lab", l.Dir, "tmpfs", 0, options)
	}
	if err != nil {
		l.OnDisk = fmt.Sprintf("no file system in memory can be mounted: %v", err)
		return nil
	}
	probe := filepath.Join(l.Dir, "direct")
	file, err := os.OpenFile(probe, os.O_CREATE|os.O_RDWR|syscall.O_DIRECT, 0o600)
	if err == nil {
		return errors.Join(file.Close(), os.Remove(probe))
	}
	// Disks with cache = "none" couldn't be used, which are those that migrate.
	l.OnDisk = fmt.Sprintf("this kernel's file systems in memory have no direct I/O, which Linux 6.6 has: %v", err)
	return l.outOfMemory()
}

// KeepProgram copies a program of this machine, which tests start thousands of times, to the lab's directory if that is
// in memory, and returns the path to use. The copy is in huge pages: a large program has a thousand page faults when it
// starts, each for a few small pages.
func (l *Lab) KeepProgram(program string) (string, error) {
	if l.OnDisk != "" {
		return program, nil
	}
	content, err := os.ReadFile(program)
	if err != nil {
		return "", fmt.Errorf("keeping %s in memory: %w", program, err)
	}
	kept := filepath.Join(l.Dir, "programs", filepath.Base(program))
	if err := writeFile(kept, "", 0o755); err != nil {
		return "", err
	}
	if err := writeHuge(kept, content); err != nil {
		return "", fmt.Errorf("keeping %s in memory: %w", program, err)
	}
	return kept, nil
}

// writeHuge writes the content of an empty file to huge pages, if the kernel has them and some are free. Only a mapping
// can ask for them.
func writeHuge(path string, content []byte) (err error) {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if err := file.Truncate(int64(len(content))); err != nil {
		return err
	}
	pages, err := syscall.Mmap(int(file.Fd()), 0, len(content), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return err
	}
	if err := syscall.Madvise(pages, syscall.MADV_HUGEPAGE); err != nil && !errors.Is(err, syscall.EINVAL) {
		return errors.Join(err, syscall.Munmap(pages))
	}
	copy(pages, content)
	return syscall.Munmap(pages)
}

// outOfMemory takes the file system in memory from the lab's directory, if there is one. Its files go first: other labs
// that started meanwhile may have the file system among their mounts.
func (l *Lab) outOfMemory() error {
	if len(linesWith("/proc/self/mountinfo", " "+l.Dir+" ")) == 0 {
		return nil
	}
	entries, err := os.ReadDir(l.Dir)
	if err != nil {
		return fmt.Errorf("removing the lab's files: %w", err)
	}
	for _, entry := range entries {
		if err := os.RemoveAll(filepath.Join(l.Dir, entry.Name())); err != nil {
			return fmt.Errorf("removing the lab's files: %w", err)
		}
	}
	if err := syscall.Unmount(l.Dir, syscall.MNT_DETACH); err != nil {
		return fmt.Errorf("unmounting %s: %w", l.Dir, err)
	}
	return nil
}

// availableMemory is how many bytes of memory programs can still have without others being swapped out.
func availableMemory() (int64, error) {
	file, err := os.Open("/proc/meminfo")
	if err != nil {
		return 0, fmt.Errorf("looking for free memory: %w", err)
	}
	defer func() { _ = file.Close() }()
	for scanner := bufio.NewScanner(file); scanner.Scan(); {
		fields := strings.Fields(scanner.Text())
		if len(fields) < 2 || fields[0] != "MemAvailable:" {
			continue
		}
		kib, err := strconv.ParseInt(fields[1], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("looking for free memory: %w", err)
		}
		return kib << 10, nil
	}
	return 0, errors.New("/proc/meminfo doesn't say how much memory is available")
}
