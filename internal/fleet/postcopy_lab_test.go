package fleet

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

// A host whose kernel doesn't let its unprivileged QEMU take a guest in post-copy is no candidate where post-copy is
// asked for: every attempt would fail. Where it isn't, the host is as good as any.
func TestLab_postCopyIsAskedOfEachCandidate(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	f := labFleet(t, l, t.Name(), func(_ string, hc *inventory.HostConfig) {
		hc.ReadEnd = func(_ context.Context, path string, _ int) ([]byte, error) { return os.ReadFile(path) }
	})
	uuid := small(t, l, l.Host("kvm1"), lab.Name(t), "")

	setting, err := os.ReadFile(inventory.UserFaults)
	if err != nil || string(setting) != "0\n" {
		t.Fatalf("the kernel of the lab's hosts lets all users: %q, %v", setting, err)
	}

	for _, postCopy := range []bool{true, false} {
		_, candidates, _, err := f.MoveCandidates(t.Context(), uuid, inventory.LastKnown{}, migration.Options{
			AllowPostCopy: &postCopy,
		}, false)
		if err != nil {
			t.Fatal(err)
		}

		for _, c := range candidates {
			refused := slices.ContainsFunc(c.Blockers, func(b migration.Blocker) bool {
				return b.Reason == migration.OptionsNotSupported && b.Attribute == "migration_options.allow_post_copy"
			})
			if want := postCopy && l.Host(c.Host).Unprivileged; refused != want || !c.Current && c.Fits() == want {
				t.Errorf("post-copy %v, host %s: %+v", postCopy, c.Host, c.Blockers)
			}
		}
	}
}

// Of a guest that a user's migration has brought to another host in post-copy, the source keeps a process for good if
// virsh ended before it said so. Nothing of the guest is missing where it runs, and without that process, the VM is
// like any other.
func TestLab_sourceLeftByPostCopy(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	f := labFleet(t, l, t.Name(), nil)
	vm := unpinned(t, f, l, "dirty=16")
	from, to := l.Host("kvm1"), l.Host("kvm2")

	// Post-copy takes so long that virsh is stopped before it ends.
	virsh := exec.CommandContext(t.Context(), "virsh", "--quiet", "--connect", from.SocketURI(), "migrate", "--live",
		"--persistent", "--postcopy", "--bandwidth", "1", "--postcopy-bandwidth", "8", vm.UUID, to.SocketURI(),
		"tcp://"+to.Address)
	if err := virsh.Start(); err != nil {
		t.Fatal(err)
	}

	lab.Await(t, "memory to be on its way", func() bool { return l.Copying(t, from.Name, vm.UUID) })
	l.Virsh(t, from.Name, "migrate-postcopy", vm.UUID)

	reasonAt := func(host string) string {
		d, err := f.Host(host).Conn.Domain(t.Context(), vm.UUID)
		if err != nil {
			return ""
		}

		return d.State.String() + " " + d.Reason
	}

	lab.Await(t, "the guest to run on the target", func() bool {
		if err := virsh.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}

		if strings.HasPrefix(reasonAt(to.Name), "Running ") {
			return true
		}

		return virsh.Process.Signal(syscall.SIGCONT) != nil
	})
	lab.Await(t, "all memory to be there", func() bool { return reasonAt(to.Name) == "Running Migrated" })

	if err := virsh.Process.Kill(); err != nil {
		t.Fatal(err)
	}

	_ = virsh.Wait()

	lab.Await(t, "the source to notice that", func() bool { return reasonAt(from.Name) == "Paused PostcopyFailed" })

	now, err := f.FindNow(t.Context(), vm.UUID, lastOf(vm))
	if err != nil || now.Host != to.Name || now.LeftSource != from.Name || now.RequireIdle() == nil {
		t.Fatalf("%+v, %v", now, err)
	}

	// This is what the error says.
	l.Virsh(t, from.Name, "destroy", vm.UUID)

	now, err = f.FindNow(t.Context(), vm.UUID, lastOf(vm))
	if err != nil || now.Host != to.Name || now.RequireIdle() != nil || !now.Running() {
		t.Errorf("%+v, %v", now, err)
	}
}
