package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
)

// The store is a machine that serves disks to all hosts, over the NBD protocol, and addresses to the guests' network.

const (
	firstExportPort = 10809
	lastExportPort  = 11808
	// exportClients is how many connections an export takes: a guest's on both hosts while it migrates, and some more.
	exportClients = 10
)

var exportName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`)

// Export is a disk that every host can reach at the same address.
type Export struct {
	// Name is the export's name in the NBD protocol.
	Name string
	// Host and Port are where it is served.
	Host string
	Port int
}

// exportDir is where an export's files are, seen from inside and outside alike.
func (l *Lab) exportDir(name string) string { return filepath.Join(l.store.dir, "exports", name) }

// ExportFile is the file behind an export, on the machine that the lab runs on: what a guest wrote and synced is in it.
func (l *Lab) ExportFile(name string) string { return filepath.Join(l.exportDir(name), "disk") }

// Address is the export's host and port in one.
func (e *Export) Address() string { return e.Host + ":" + strconv.Itoa(e.Port) }

// startStore starts the machine and its DHCP server.
func (l *Lab) startStore(ctx context.Context) error {
	m := l.store
	if pid, err := m.pid(); err != nil || pid != 0 {
		return err
	}
	if err := m.prepare(); err != nil {
		return err
	}
	if err := os.MkdirAll(l.exportDir(""), 0o755); err != nil {
		return fmt.Errorf("preparing the store: %w", err)
	}
	if err := m.start(ctx); err != nil {
		return err
	}
	if err := m.connect(ctx); err != nil {
		return err
	}
	if _, err := m.run(ctx, "ip", "addr", "add", l.lanPrefix()+".1/24", "dev", LANBridge); err != nil {
		return err
	}
	// Not asking around whether an address is in use saves 3 s per guest.
	_, err := m.run(ctx, "dnsmasq", "--conf-file=/dev/null", "--port=0", "--interface="+LANBridge, "--bind-interfaces",
		"--no-ping", "--dhcp-authoritative",
		"--dhcp-range="+l.lanPrefix()+".10,"+l.lanPrefix()+".250,1h", "--dhcp-leasefile=/run/dnsmasq.leases",
		"--pid-file=/run/dnsmasq.pid", "--user=root", "--log-facility=/var/log/dnsmasq.log")
	if err != nil {
		return fmt.Errorf("starting the DHCP server of the guests' network (log: %s): %w",
			m.path("/var/log/dnsmasq.log"), err)
	}
	return nil
}

// CreateExport makes an empty disk of that many bytes and serves it to all hosts. It takes room as it is written.
func (l *Lab) CreateExport(ctx context.Context, name string, size int64) (*Export, error) {
	return l.createExport(ctx, name, size)
}

// createExport is CreateExport with options of qemu-nbd.
func (l *Lab) createExport(ctx context.Context, name string, size int64, options ...string) (*Export, error) {
	dir, port, err := l.claimExport(name, size)
	if err != nil {
		return nil, err
	}
	args := append([]string{
		"--fork", "--persistent", "--shared=" + strconv.Itoa(exportClients), "--format=raw", "--discard=unmap",
		"--bind=" + l.store.address, "--port=" + strconv.Itoa(port), "--export-name=" + name,
		"--pid-file=" + filepath.Join(dir, "pid"), l.ExportFile(name),
	}, options...)
	if _, err = l.store.run(ctx, "qemu-nbd", args...); err != nil {
		return nil, errors.Join(fmt.Errorf("creating export %s: %w", name, err), os.RemoveAll(dir))
	}
	return &Export{Name: name, Host: l.store.address, Port: port}, nil
}

// claimExport makes an empty disk that is going to be served, and picks the port for it.
func (l *Lab) claimExport(name string, size int64) (dir string, port int, err error) {
	if !exportName.MatchString(name) {
		return "", 0, fmt.Errorf("the name %q doesn't do for an export", name)
	}
	unlock, err := lockDir(l.exportDir(""))
	if err != nil {
		return "", 0, err
	}
	defer unlock()
	dir = l.exportDir(name)
	if _, err := os.Stat(dir); err == nil {
		return "", 0, fmt.Errorf("export %s: %w", name, os.ErrExist)
	}
	if port, err = l.freeExportPort(); err != nil {
		return "", 0, err
	}
	disk := filepath.Join(dir, "disk")
	err = errors.Join(writeFile(filepath.Join(dir, "port"), strconv.Itoa(port), 0o644), writeFile(disk, "", 0o644),
		os.Truncate(disk, size))
	if err != nil {
		return "", 0, fmt.Errorf("creating export %s: %w", name, err)
	}
	return dir, port, nil
}

// RemoveExport stops serving a disk and deletes it. It is no error if there is none of that name.
func (l *Lab) RemoveExport(ctx context.Context, name string) error {
	dir := l.exportDir(name)
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	const script = `pid=$(cat "$1/pid" 2>/dev/null) || exit 0; kill -KILL "$pid" 2>/dev/null || exit 0
while kill -0 "$pid" 2>/dev/null; do sleep 0.01; done`
	if _, err := l.store.run(ctx, "bash", "-c", script, "remove", dir); err != nil {
		return fmt.Errorf("removing export %s: %w", name, err)
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("removing export %s: %w", name, err)
	}
	return nil
}

// freeExportPort picks a port that no export has. The lock must be held.
func (l *Lab) freeExportPort() (int, error) {
	files, err := filepath.Glob(l.exportDir("*/port"))
	if err != nil {
		return 0, fmt.Errorf("looking for a free port: %w", err)
	}
	taken := map[string]bool{}
	for _, file := range files {
		// An export that is being removed right now frees its port a moment later.
		if data, err := os.ReadFile(file); err == nil {
			taken[strings.TrimSpace(string(data))] = true
		}
	}
	for port := firstExportPort; port <= lastExportPort; port++ {
		if !taken[strconv.Itoa(port)] {
			return port, nil
		}
	}
	return 0, errors.New("no free port for another export")
}

// lockDir takes a lock that tests of several packages, which are processes of their own, respect.
func lockDir(dir string) (unlock func(), err error) {
	file, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("locking %s: %w", dir, err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("locking %s: %w", dir, err)
	}
	return func() { _ = file.Close() }, nil
}
