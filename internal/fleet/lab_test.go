package fleet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/admission"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/fleettest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/lease"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/placement"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/records"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// labFleet is a fleet of the lab's hosts, reached through their sockets: what SSH adds is tested where SSH is.
func labFleet(t *testing.T, l *lab.Lab, owner string, change func(name string, hc *inventory.HostConfig)) *Fleet {
	t.Helper()

	// The tests share hosts: what others move is not to hold this one up.
	many := admission.Limits{PerFleet: 99, OutboundPerHost: 99, InboundPerHost: 99}
	cfg := Config{Hosts: map[string]inventory.HostConfig{}, Owner: owner, MigrationLimits: many}

	for _, h := range l.Hosts {
		hc := inventory.HostConfig{URI: "qemu+unix:///system?socket=" + h.Path("/run/libvirt/libvirt-sock")}
		if change != nil {
			change(h.Name, &hc)
		}

		cfg.Hosts[h.Name] = hc
	}

	return openFleet(t, cfg)
}

func waitAgent(t *testing.T, f *Fleet, vm *inventory.VM) *inventory.VM {
	t.Helper()

	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()

	vm, _, err := f.Wait(ctx, vm, WaitFor{GuestAgent: true})
	if err != nil {
		t.Fatal(err)
	}

	// Who hasn't heard from it yet gives it no more than five seconds.
	lab.Open(t).AwaitAgent(t, vm.Host, vm.Name)

	return vm
}

// Law 8: who shut the guest down, or that it could not be shut down, is told.
func TestLab_stopAsksTheGuestFirst(t *testing.T) {
	t.Parallel()

	tests := []struct {
		name, words string
		grace       time.Duration
		want        inventory.Outcome
	}{
		{"agent", "", 5 * time.Minute, inventory.OutcomeAgent},
		{"acpi", "noagent", 5 * time.Minute, inventory.OutcomeACPI}, // It hears the button once it has booted.
		{"deaf", "noagent noacpi", 8 * time.Second, inventory.OutcomeForced},
	}

	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()

			l := lab.Open(t)
			f := labFleet(t, l, t.Name(), nil)
			vm := create(t, f, l, guest(l, lab.Name(t), tt.words))

			if tt.want == inventory.OutcomeAgent {
				waitAgent(t, f, vm)
			}

			report, err := f.Delete(t.Context(), vm.UUID, inventory.LastKnown{Host: vm.Host, HostUUID: vm.HostUUID}, tt.grace)
			if err != nil {
				t.Fatal(err)
			}

			if report.Outcome != tt.want {
				t.Errorf("outcome %q, want %q", report.Outcome, tt.want)
			}

			for _, h := range l.Hosts {
				if l.Has(t, h.Name, "list", vm.Name) {
					t.Errorf("still there on %s", h.Name)
				}
			}
		})
	}
}

// A guest that is off here, because a user moved it while it was to be shut down, is not off: nothing of it is
// removed, and whoever asks again finds it.
func TestLab_stopSeesWhoWasMovedAway(t *testing.T) {
	t.Parallel()

	for name, how := range map[string][]string{"with its definition": {"--undefinesource"}, "leaving a definition": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			l := lab.Open(t)
			f := labFleet(t, l, t.Name(), nil)
			d := light(t, l, "moves", nil)
			d.Metadata.Host = "kvm1"
			d.Metadata.TerminationGracePeriod = new(5 * time.Minute)
			vm := create(t, f, l, d)
			moving := func(from, to string) {
				move := append([]string{"migrate", "--live", "--persistent", vm.Name, l.Host(to).SocketURI()}, how...)
				listen(f, &onLog{Message: "shutting down guest", Do: func() { l.Virsh(t, from, move...) }})
			}
			runsOn := func(now *inventory.VM, err error, host string) {
				t.Helper()

				if !errors.Is(err, inventory.ErrBusy) || !strings.Contains(err.Error(), "moved it to host "+strconv.Quote(host)) ||
					now == nil || now.Host != host || !now.Running() || len(now.StaleHosts) != 1-len(how) {
					t.Fatalf("%+v, %v; want to be told that it was moved to host %s", now, err, host)
				}
			}

			moving("kvm1", "kvm2")

			d.Metadata.RunStrategy = "Halted"
			now, err := f.Update(t.Context(), vm.UUID, lastOf(vm), d)
			runsOn(now, err, "kvm2")

			moving("kvm2", "kvm1")

			_, err = f.Delete(t.Context(), vm.UUID, lastOf(vm), 5*time.Minute)
			now, _ = f.FindNow(t.Context(), vm.UUID, lastOf(vm))
			runsOn(now, err, "kvm1")

			if _, err := f.Delete(t.Context(), vm.UUID, lastOf(vm), 0); err != nil {
				t.Error(err)
			}

			onlyOn(t, f, vm.UUID, "none")
		})
	}
}

// A VM that can't be started leaves nothing behind, and says why.
func TestLab_createUndoesWhatCannotStart(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	f := labFleet(t, l, t.Name(), nil)
	d := guest(l, lab.Name(t), "")
	d.Spec.Disks = map[string]domain.Disk{
		"root": {Source: domain.DiskSource{File: "/nowhere/disk.qcow2"}, Format: "qcow2"},
	}

	l.RemoveDomain(t, d.Spec.Name)

	vm, err := f.Create(t.Context(), d)
	if vm != nil || err == nil || !strings.Contains(err.Error(), "/nowhere/disk.qcow2") {
		t.Fatalf("Create = %v, %v; want no VM and an error that names the file", vm, err)
	}

	for _, h := range l.Hosts {
		if l.Has(t, h.Name, "list", d.Spec.Name) {
			t.Errorf("left behind on %s", h.Name)
		}
	}
}

// Law 14: two runs can't hold one lock; a lock left behind is taken over.
func TestLab_lockKeepsOtherRunsOut(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	first, second := labFleet(t, l, "alice", nil), labFleet(t, l, "bob", nil)
	name := lab.Name(t)

	_, release, err := first.Lock(t.Context(), first.Configured[0], name, "updating")
	if err != nil {
		t.Fatal(err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()

	go func() { // It loses its patience when it has knocked, has seen who is there, and has knocked again.
		defer cancel()

		for defined(second, second.Configured[0].Name) < 2 {
			if admission.Pause(ctx, 50*time.Millisecond) != nil {
				return
			}
		}
	}()

	_, _, err = second.Lock(ctx, second.Configured[0], name, "updating")
	if !errors.Is(err, records.ErrLocked) || !strings.Contains(err.Error(), "alice is updating") {
		t.Fatalf("the second run got %v, want to be told that alice is updating", err)
	}

	release()

	_, release, err = second.Lock(t.Context(), second.Configured[0], name, "updating")
	if err != nil {
		t.Fatalf("after the release: %v", err)
	}

	release()
}

// What a killed run leaves is taken over. While the next run waits for the first lock, it also watches the others, on
// this host and on the other ones that it has reached.
func TestLab_lockOfAKilledRunIsTakenOver(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	f := labFleet(t, l, "bob", nil)
	here, there := f.Configured[0], f.Configured[1]
	name := lab.Name(t)

	if _, err := there.Conn.Info(t.Context()); err != nil {
		t.Fatal(err)
	}

	// What a run leaves that was killed: the secrets, which are no longer renewed.
	leave := func(h *inventory.Host, usage string) {
		err := h.Conn.DefineOwnSecret(t.Context(), libvirt.OwnSecret{
			UsageType: libvirt.SecretUsageVTPM, UsageID: lease.UsagePrefix + usage, Value: []byte(`{"owner":"` + name + `"}`),
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	// take takes a lock that was left, and returns in how many look-ups of secrets.
	take := func(h *inventory.Host, name string) int {
		ctx, cancel := context.WithTimeout(t.Context(), 9*lease.TakeoverTime)
		defer cancel()

		before := h.Conn.Calls()["virSecretLookupByUsage"]

		_, release, err := f.Lock(ctx, h, name, "updating")
		if err != nil {
			t.Errorf("not taken over: %v", err)

			return 0
		}

		calls := h.Conn.Calls()["virSecretLookupByUsage"] - before

		release()

		_, err = h.Conn.OwnSecret(t.Context(), lease.UsagePrefix+name)
		if !errors.Is(err, inventory.ErrNotFound) {
			t.Errorf("the lock is still there: %v", err)
		}

		return calls
	}

	leave(here, name)
	leave(here, name+"-second")
	leave(there, name)

	take(here, name)

	var all sync.WaitGroup
	defer func() { fleettest.AwaitAll(t, &all) }()

	for h, name := range map[*inventory.Host]string{here: name + "-second", there: name} {
		all.Go(func() {
			if calls := take(h, name); calls > 30 {
				t.Errorf("a further lock, on %s, was watched from the beginning, with %d look-ups", h.Name, calls)
			}
		})
	}
}

// leaveCreating leaves on the host what a run leaves there that is killed when it has defined the VM, and made its
// disks, and not started it. It returns the VM's UUID.
func leaveCreating(t *testing.T, l *lab.Lab, d placement.Desired, host string) string {
	t.Helper()

	killed := labFleet(t, l, "killed", nil)
	off := d
	off.Metadata.RunStrategy, off.Metadata.Host = "Halted", host

	vm, err := killed.Create(t.Context(), off)
	if err != nil {
		t.Fatal(err)
	}

	metadata := vm.Metadata
	metadata.RunStrategy, metadata.Host = d.Strategy(), d.Metadata.Host
	metadata.Creating = &domain.Creating{Owner: "killed", SpecHash: d.Hash(), Since: time.Now().UTC()}

	if _, err := records.WriteMetadata(t.Context(), vm, metadata); err != nil {
		t.Fatal(err)
	}

	if err := killed.Close(); err != nil { // Its lock goes with it.
		t.Fatal(err)
	}

	return vm.UUID
}

// Law 10: what an interrupted creation left behind is completed, once.
func TestLab_interruptedCreateIsAdopted(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	f := labFleet(t, l, t.Name(), nil)
	d := guest(l, lab.Name(t), "")
	l.RemoveDomain(t, d.Spec.Name)

	left := leaveCreating(t, l, d, "kvm2")

	vm, err := f.Create(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}

	if vm.UUID != left || vm.Host != "kvm2" || !vm.Active || !vm.Autostart {
		t.Errorf("adopted %s on %s, active %v, autostart %v; want %s on kvm2, running and autostarted",
			vm.UUID, vm.Host, vm.Active, vm.Autostart, left)
	}

	if err := f.FinishCreate(t.Context(), vm); err != nil {
		t.Fatal(err)
	}

	// Complete, it is a VM that exists: the same wish is refused now.
	refused := func() {
		t.Helper()

		vm, err := f.Create(t.Context(), d)
		if vm != nil || !errors.Is(err, inventory.ErrExists) || existingID(err) != left {
			t.Errorf("a second Create gave %v, %v", vm, err)
		}
	}
	refused()

	// The same if its mark couldn't be removed, and it has run for long.
	if vm, err = f.FindNow(t.Context(), left, inventory.LastKnown{}); err != nil {
		t.Fatal(err)
	}

	metadata := vm.Metadata
	metadata.Creating = &domain.Creating{Owner: "another", SpecHash: d.Hash(), Since: time.Now().Add(-2 * time.Hour)}

	if _, err := records.WriteMetadata(t.Context(), vm, metadata); err != nil {
		t.Fatal(err)
	}

	f.ForgetAll()
	refused()

	planned, err := f.CheckCreate(t.Context(), d)
	if said := fmt.Sprint(planned); err != nil || !strings.Contains(said, "It may be managed from elsewhere") {
		t.Errorf("the plan says %s, %v", said, err)
	}
}

// A VM whose creation was interrupted once its guest ran, and which is off by now, keeps what the guest has left with
// it: it is completed with that, and isn't undone if it doesn't start.
func TestLab_interruptedCreateKeepsWhatRan(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	f := labFleet(t, l, t.Name(), nil)
	d := light(t, l, "ran", nil)
	d.Spec.Firmware.Type = new("efi")

	l.RemoveDomain(t, d.Spec.Name)

	left := leaveCreating(t, l, d, "kvm2")

	l.Virsh(t, "kvm2", "start", left) // The first start makes the variables.
	l.Virsh(t, "kvm2", "destroy", left)

	nvram := "/var/lib/libvirt/qemu/nvram/" + d.Spec.Name + "_VARS.fd"
	mark := "dd bs=1 %s=500000 count=4 status=none 2>&1 "
	l.Run(t, "kvm2", "sh", "-c", "printf mark | "+fmt.Sprintf(mark, "seek")+"conv=notrunc of="+nvram)

	// While its disk belongs to another VM, it doesn't start.
	rival := d
	rival.Spec.Name += "-rival"
	rival.Metadata.Host = "kvm1"
	other := create(t, f, l, rival)

	if vm, err := f.Create(t.Context(), d); vm != nil || !errors.Is(err, placement.ErrShared) ||
		!strings.Contains(err.Error(), "undefine --nvram --managed-save "+left) {
		t.Fatalf("Create = %v, %v; want to be told of the other VM, and how to remove this one", vm, err)
	}

	// Another configuration doesn't complete it.
	changed := d
	changed.Spec.Memory.Size = new(uint64(48 << 20))

	if _, err := f.Create(t.Context(), changed); !errors.Is(err, inventory.ErrExists) ||
		!strings.Contains(errRemedy(err), "undefine --nvram --managed-save "+left) {
		t.Errorf("another configuration: %v, %s", err, errRemedy(err))
	}

	l.Virsh(t, "kvm1", "destroy", other.UUID)
	l.Virsh(t, "kvm1", "undefine", "--nvram", "--managed-save", other.UUID)
	f.ForgetAll()

	vm, err := f.Create(t.Context(), d)
	if err != nil || vm.UUID != left {
		t.Fatalf("%+v, %v; want %s to be completed", vm, err, left)
	}

	if err := f.FinishCreate(t.Context(), vm); err != nil {
		t.Fatal(err)
	}

	if got := l.Run(t, "kvm2", "sh", "-c", fmt.Sprintf(mark, "skip")+"if="+nvram); got != "mark" {
		t.Errorf("the variables of its firmware have %q, want what its guest had written", got)
	}
}

func errRemedy(err error) string {
	if e, ok := errors.AsType[*inventory.Error](err); ok {
		return e.Remedy
	}

	return ""
}

// existingID returns the id of the VM that exists already, as an error tells it.
func existingID(err error) string {
	if e, ok := errors.AsType[*inventory.Error](err); ok {
		return e.Existing
	}

	return ""
}

// Law 3: a definition left behind never starts while the VM runs.
func TestLab_twoRunningCopiesAreRefused(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	f := labFleet(t, l, t.Name(), nil)
	d := guest(l, lab.Name(t), "")
	d.Metadata.Host = "kvm1"
	vm := create(t, f, l, d)

	xml := l.Virsh(t, "kvm1", "dumpxml", "--inactive", vm.UUID)
	file := t.TempDir() + "/copy.xml"

	if err := os.WriteFile(file, []byte(xml), 0o600); err != nil {
		t.Fatal(err)
	}

	l.Define(t, "kvm2", xml)

	last := inventory.LastKnown{Host: vm.Host, HostUUID: vm.HostUUID}

	now, err := f.FindNow(t.Context(), vm.UUID, last)
	if err != nil || now.Host != "kvm1" || len(now.StaleHosts) != 1 {
		t.Fatalf("with a stale definition: %+v, %v", now, err)
	}

	l.Virsh(t, "kvm2", "start", vm.UUID)

	for what, do := range map[string]func() error{
		"find":   func() error { _, err := f.FindNow(t.Context(), vm.UUID, last); return err },
		"update": func() error { _, err := f.Update(t.Context(), vm.UUID, last, d); return err },
		"delete": func() error { _, err := f.Delete(t.Context(), vm.UUID, last, 0); return err },
	} {
		if err := do(); !errors.Is(err, inventory.ErrTwoCopies) {
			t.Errorf("%s: %v, want ErrTwoCopies", what, err)
		}
	}
}

// Hosts don't answer at one moment. What they say of a VM that was handed over in between is no second copy.
func TestLab_handedOverBetweenTwoAnswers(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	f := labFleet(t, l, t.Name(), nil)
	vm := unpinned(t, f, l, "")

	var target string

	for _, name := range []string{"kvm1", "kvm2"} {
		if name != vm.Host {
			target = name
		}
	}

	last := inventory.LastKnown{Host: vm.Host, HostUUID: vm.HostUUID}

	// What the source said is known for a minute: it says that it runs there.
	if _, err := f.Find(t.Context(), vm.UUID, last); err != nil {
		t.Fatal(err)
	}

	if err := l.Host(vm.Host).Migrate(t.Context(), vm.Name, l.Host(target)); err != nil {
		t.Fatal(err)
	}

	arrived := func() { f.Host(target).Forget() }

	arrived()

	if now, err := f.Find(t.Context(), vm.UUID, last); err != nil || now.Host != target || !now.Running() {
		t.Errorf("found %+v: %v", now, err)
	}

	arrived()

	all, _, err := f.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}

	for _, m := range all {
		if m.UUID == vm.UUID && (m.Err != nil || m.VM.Host != target || !m.VM.Running() || m.Inconsistent) {
			t.Errorf("listed as %+v: %v", m.VM, m.Err)
		}
	}
}
