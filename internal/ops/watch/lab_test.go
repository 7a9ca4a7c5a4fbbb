package watch

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"regexp"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/ops/config"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/ops/opstest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider"
)

// TestLab_printsTheLifecycleOfAVM does to a VM what is done to VMs, and reads how its status and conditions
// change, and how its migration goes.
func TestLab_printsTheLifecycleOfAVM(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	from, to := l.Host("kvm1"), l.Host("kvm2")
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	export := l.NBD(t, name, 16<<20)
	r := opstest.Start(t, Run, opstest.Config(l, from, to), "--interval", "500ms")
	r.Out.Line(t, " on 2 hosts")
	told := func(host *lab.Host, what ...string) {
		t.Helper()
		r.Out.Line(t, append([]string{host.Name, name}, what...)...)
	}
	opstest.StartVM(t, l, from, export, "dirty=32")
	told(from, "new: ")
	told(from, "AgentConnected=True (ChannelOpen)")
	l.Virsh(t, from.Name, "suspend", name)
	told(from, "Running (Booted) -> Paused (User)", "Ready=False (PausedByUser)", "Paused=True (PausedByUser)")
	l.Virsh(t, from.Name, "resume", name)
	told(from, "Paused (User) -> Running (Unpaused)", "Ready=True (GuestRunning)", ", after ")

	// Slow enough to be seen, until it was.
	l.AwaitConsole(t, from.Name, name, lab.GuestWrites)
	l.Virsh(t, from.Name, "migrate-setspeed", name, "2")
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	moved := make(chan error, 1)
	go func() { moved <- from.Migrate(ctx, name, to) }()
	told(from, "Running (Unpaused) -> Migrating (kvm1 -> kvm2, PreCopy)")
	told(from, "kvm1 -> kvm2  PreCopy", "iteration 1", "% ", " sent, ", " left, ", "/s")
	l.Virsh(t, from.Name, "migrate-setspeed", name, "8")
	told(from, "iteration 2", "dirty ", "MiB/s")
	l.Virsh(t, from.Name, "migrate-setspeed", name, "8192")
	if err := <-moved; err != nil {
		t.Fatal(err)
	}
	told(to, "Migrating (kvm1 -> kvm2, ", " -> Running (Migrated) on kvm2, after ")
	told(to, "moved in ", " sent", "downtime ")

	// Back in post-copy, of which libvirt keeps no statistics on the target.
	l.Virsh(t, to.Name, "migrate-setspeed", name, "2")
	go func() { moved <- to.Migrate(ctx, name, from, "--postcopy") }()
	told(to, "kvm2 -> kvm1  PreCopy", "iteration 1", " sent, ")
	l.Virsh(t, to.Name, "migrate-postcopy", name)
	if err := <-moved; err != nil {
		t.Fatal(err)
	}
	told(from, "moved in ", "in the end by post-copy")

	l.Virsh(t, from.Name, "destroy", name)
	told(from, "-> Stopped (Destroyed)", "AgentConnected=False (GuestNotRunning)")
	l.Virsh(t, from.Name, "undefine", name)
	told(from, "undefined: no host has it any more")
	if err := r.Stop(); err != nil {
		t.Error(err)
	}
}

// TestLab_followsALostHost cuts a host off, starts a VM again meanwhile, and reads that this is told, though the VM's
// status is the same. Then it kills the daemon of the host, changes the VM, and reads that it is told once the host is
// back.
func TestLab_followsALostHost(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	h := l.StartHost(t)
	name := opstest.VM(t, l, h, "")
	r := opstest.Start(t, Run, opstest.Config(l, h), "--interval", "200ms")
	r.Out.Line(t, "1 VM on 1 host: 1 Running")

	start := l.StopSSH(t, h)
	r.Out.Line(t, h.Name, " - ", "does not answer: ")
	l.Virsh(t, h.Name, "destroy", name)
	l.Virsh(t, h.Name, "start", name)
	start()
	r.Out.Line(t, h.Name, " - ", "answers again, after ")
	r.Out.Line(t, h.Name, name, "the guest was started again")

	restart := l.KillLibvirtd(t, h)
	r.Out.Nth(t, 2, h.Name, " - ", "does not answer: ")
	l.Run(t, h.Name, "bash", "-c", "kill -KILL $(cat /run/libvirt/qemu/"+name+".pid)")
	restart()
	r.Out.Nth(t, 2, h.Name, " - ", "answers again, after ")
	r.Out.Line(t, h.Name, name, "Running (Booted) -> ")
	l.Virsh(t, h.Name, "start", name)
	r.Out.Line(t, h.Name, name, "-> Running (Booted)")
}

// TestLab_asksInOnePass counts what looking costs: a call for each host, whatever is on it, and one for each migration.
func TestLab_asksInOnePass(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	from, to := l.StartHost(t), l.StartHost(t)
	var xmls []string
	for i := range 40 {
		xmls = append(xmls, fmt.Sprintf(`<domain type="qemu"><name>off-%d</name><memory unit="MiB">16</memory>`+
			`<os><type arch="x86_64" machine="pc">hvm</type></os></domain>`, i))
	}
	l.Define(t, from.Name, xmls...)
	opstest.VM(t, l, from, "")
	moves := opstest.WritingVM(t, l, from)
	f, err := config.Open(t.Context(), opstest.File(t, opstest.Config(l, from, to)), provider.Open,
		slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	w := newWatcher(f, f.AskedHosts(), time.Second)
	m := newModel(w.hosts)
	look := func() {
		t.Helper()
		for _, host := range w.hosts {
			w.pollHost(t.Context(), host)
			if err := w.polls[host].Err; err != nil {
				t.Fatal(err)
			}
		}
		w.mergePolls(m)
	}
	cost := func(what string, ticks int, wantFrom, wantTo map[string]int) {
		t.Helper()
		before := f.Calls()
		for range ticks {
			look()
		}
		for host, want := range map[string]map[string]int{from.Name: wantFrom, to.Name: wantTo} {
			calls := maps.Clone(f.Calls()[host])
			for procedure, n := range before[host] {
				calls[procedure] -= n
			}
			// Another question at the same time takes another connection.
			delete(calls, "virConnectOpen")
			delete(calls, "virDomainLookupByUUIDString")
			maps.DeleteFunc(calls, func(_ string, n int) bool { return n == 0 })
			if diff := cmp.Diff(want, calls); diff != "" {
				t.Errorf("%s: %d ticks cost %s: %s", what, ticks, host, diff)
			}
		}
	}
	look() // Connects and reads the definitions.
	if n := len(m.vms); n != 42 {
		t.Fatalf("%d VMs", n)
	}
	pass := func(n int) map[string]int { return map[string]int{"virConnectGetAllDomainStats": n} }
	cost("at rest", 5, pass(5), pass(5))

	l.Virsh(t, from.Name, "migrate-setspeed", moves, "1")
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	moved := make(chan error, 1)
	go func() { moved <- from.Migrate(ctx, moves, to) }()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for len(m.migratingVMs()) == 0 || m.migratingVMs()[0].migration.Statistics.Data.Total == 0 {
		select {
		case <-tick.C:
			look()
		case err := <-moved:
			t.Fatalf("the migration was never seen: %v", err)
		}
	}
	moving := pass(5)
	moving["virDomainGetJobStats"] = 5
	cost("with a migration", 5, moving, pass(5))
	if lines := m.liveLines(80, 24); len(lines) != 3 ||
		!regexp.MustCompile(`^  \[[=> ]+\]  [ 0-9]{2}%  .* sent, .* of .* left`).MatchString(lines[1]) {
		t.Errorf("got %q", lines)
	}
	l.Virsh(t, from.Name, "domjobabort", moves)
	if err := <-moved; err == nil {
		t.Error("the migration wasn't aborted")
	}
}
