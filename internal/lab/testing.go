package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab/guest"
)

// stepTimeout bounds what a test asks of the lab: starting a daemon on a busy machine is the longest.
const stepTimeout = 2 * time.Minute

// Open finds the running lab. Without TF_ACC, which is how acceptance tests are asked for, it skips the test; with it,
// a lab that isn't up is a failure. The tests of all packages share one lab: they give everything that they create
// names of their own (see Name), and remove it.
func Open(t testing.TB) *Lab {
	t.Helper()
	if os.Getenv("TF_ACC") == "" {
		t.Skip("this test needs real hosts: \"make test\" runs it, or \"make lab-up\" and TF_ACC=1")
	}
	l, err := Load("")
	if err != nil {
		t.Fatalf("TF_ACC is set, but %v", err)
	}
	for _, m := range l.machines() {
		if pid, err := m.pid(); err != nil || pid == 0 {
			t.Fatalf("TF_ACC is set, but machine %s of the lab in %s doesn't run (%v): make lab-down lab-up", m.name, l.Dir, err)
		}
	}
	return l
}

// Name makes a name for something that the test creates: no other test and no other run of this one has it.
func Name(t testing.TB) string {
	t.Helper()
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(t.Name()))
	if len(name) > 40 {
		name = name[len(name)-40:]
	}
	return strings.Trim(name, "-") + "-" + fmt.Sprintf("%06x", time.Now().UnixNano()&0xffffff)
}

// Virsh runs virsh on a host and returns what it printed.
func (l *Lab) Virsh(t testing.TB, host string, args ...string) string {
	t.Helper()
	out, err := l.TryVirsh(t, host, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// SecretUUID returns the UUID of the host's libvirt secret with this usage id, "" if there is none.
func (l *Lab) SecretUUID(t testing.TB, host, usage string) string {
	t.Helper()
	for line := range strings.Lines(l.Virsh(t, host, "secret-list")) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[2] == usage {
			return fields[0]
		}
	}
	return ""
}

// Secrets returns a host's libvirt secrets, a line each, without the records of VMs that were moved from there: those
// stay as long as the host doesn't have the VM again, and its new host may not be known.
func (l *Lab) Secrets(t testing.TB, host string) string {
	t.Helper()
	has := strings.Fields(l.Virsh(t, host, "list", "--all", "--uuid"))
	var left strings.Builder
	for line := range strings.Lines(l.Virsh(t, host, "--quiet", "secret-list")) {
		_, moved, is := strings.Cut(strings.TrimSpace(line), "virtfleet:moved:")
		if strings.TrimSpace(line) != "" && (!is || slices.Contains(has, moved)) {
			left.WriteString(line)
		}
	}
	return left.String()
}

// TryVirsh is Virsh for commands that may fail.
func (l *Lab) TryVirsh(t testing.TB, host string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := stepContext(t)
	defer cancel()
	return l.need(t, host).Virsh(ctx, args...)
}

// Has reports whether a host has an object of that name. list is virsh's command for such objects, as pool-list.
func (l *Lab) Has(t testing.TB, host, list, name string) bool {
	t.Helper()
	return slices.Contains(strings.Fields(l.Virsh(t, host, list, "--all", "--name")), name)
}

// State returns the state of a host's VM in virsh's words, "" where it isn't defined.
func (l *Lab) State(t testing.TB, host, name string) string {
	t.Helper()
	for tries := 0; ; tries++ {
		out, err := l.TryVirsh(t, host, "domstate", name)
		switch {
		case err == nil:
			return strings.TrimSpace(out)
		case !l.Has(t, host, "list", name):
			return ""
		case tries > 0: // It didn't arrive just now.
			t.Fatal(err)
		}
	}
}

// Run runs a command on a host and returns what it printed.
func (l *Lab) Run(t testing.TB, host, name string, args ...string) string {
	t.Helper()
	ctx, cancel := stepContext(t)
	defer cancel()
	out, err := l.need(t, host).Run(ctx, name, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// NBD serves an empty disk of that many bytes to all hosts, until the test ends.
func (l *Lab) NBD(t testing.TB, name string, size int64) *Export {
	t.Helper()
	ctx, cancel := stepContext(t)
	defer cancel()
	export, err := l.CreateExport(ctx, name, size)
	if err != nil {
		t.Fatal(err)
	}
	cleanup(t, "removing export "+name, func(ctx context.Context) error { return l.RemoveExport(ctx, name) })
	return export
}

// Image creates a disk image in the host's pool "default", until the test ends. Format is raw or qcow2. It returns the
// path on the host.
func (l *Lab) Image(t testing.TB, host, name, format string, size int64) string {
	t.Helper()
	path := "/var/lib/libvirt/images/" + name
	l.Run(t, host, "qemu-img", "create", "-q", "-f", format, path, fmt.Sprint(size))
	l.RefreshPool(t, host)
	h := l.need(t, host)
	cleanup(t, "removing "+path, func(ctx context.Context) error {
		if err := os.Remove(h.Path(path)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		return h.RefreshPool(ctx)
	})
	return path
}

// IgnitionDisk makes a raw image on a host, until the test ends, with the archive that adds Ignition to a guest:
// "busybox cpio -i" unpacks it.
func (l *Lab) IgnitionDisk(t testing.TB, host, name string) string {
	t.Helper()
	archive, err := guest.Ignition()
	if err != nil {
		t.Fatal(err)
	}
	path := l.Image(t, host, name, "raw", int64(len(archive)))
	sectors := slices.Concat(archive, make([]byte, -len(archive)&511))
	if err := os.WriteFile(l.Host(host).Path(path), sectors, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// LoopDevice makes a block device of that many bytes on a host, until the test ends.
func (l *Lab) LoopDevice(t testing.TB, host, name string, bytes int64) string {
	t.Helper()
	file := "/var/lib/libvirt/" + name + ".img"
	l.Run(t, host, "truncate", "--size", fmt.Sprint(bytes), file)
	device := strings.TrimSpace(l.Run(t, host, "losetup", "--find", "--show", "--partscan", file))
	h := l.need(t, host)
	cleanup(t, "removing "+device, func(ctx context.Context) error {
		_, err := h.Run(ctx, "losetup", "--detach", device)
		return errors.Join(err, os.Remove(h.Path(file)))
	})
	return device
}

// Define defines domains, many as quickly as one, and removes them when the test ends.
func (l *Lab) Define(t testing.TB, host string, xmls ...string) {
	t.Helper()
	ctx, cancel := stepContext(t)
	defer cancel()
	h := l.need(t, host)
	names, err := h.Define(ctx, xmls...)
	cleanup(t, "removing domains", func(ctx context.Context) error { return h.Undefine(ctx, names...) })
	for _, name := range names {
		l.explain(t, name)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// RefreshPool is [Host.RefreshPool].
func (l *Lab) RefreshPool(t testing.TB, host string) {
	t.Helper()
	ctx, cancel := stepContext(t)
	defer cancel()
	if err := l.need(t, host).RefreshPool(ctx); err != nil {
		t.Fatal(err)
	}
}

// RemoveDomain makes sure that a domain is gone from every host when the test ends, whatever state it is in. When the
// test failed, it first logs what each host's QEMU and the guest's console said at the end.
func (l *Lab) RemoveDomain(t testing.TB, name string) {
	t.Helper()
	for _, h := range l.Hosts {
		cleanup(t, "removing domain "+name, func(ctx context.Context) error { return h.Undefine(ctx, name) })
	}
	l.explain(t, name)
}

func (l *Lab) need(t testing.TB, host string) *Host {
	t.Helper()
	h := l.Host(host)
	if h == nil {
		t.Fatalf("the lab has no host %q", host)
	}
	return h
}

// stepContext bounds a step, also one of a cleanup: the test's own context has ended by then.
func stepContext(t testing.TB) (context.Context, context.CancelFunc) {
	t.Helper()
	return context.WithTimeout(context.WithoutCancel(t.Context()), stepTimeout)
}

// cleanup registers a cleanup that may fail.
func cleanup(t testing.TB, what string, do func(context.Context) error) {
	t.Helper()
	t.Cleanup(func() {
		ctx, cancel := stepContext(t)
		defer cancel()
		if err := do(ctx); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	})
}
