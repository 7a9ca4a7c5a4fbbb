package faultmatrix

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestMain lets many tests run at the same time: they mostly wait, for daemons that are silent and for locks of runs
// that were killed. One after the other they would wait for longer than all other packages together need.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "12"); err != nil {
		panic(err)
	}
	acctest.Main(m)
}

const (
	address = "virtfleet_virtual_machine.this"
	// patience bounds what a host does by itself after a fault.
	patience = 2 * time.Minute
	// slack is what Terraform may take to end once the operation has ended, on a computer that is very busy.
	slack = 2 * time.Minute
	// brief is the timeout of an operation that a fault holds up for as long as it may. The next one needs half a minute
	// of it to take over the lock of a run that was killed, or couldn't reach the host.
	brief = 90 * time.Second
	// ample is the timeout of an operation that takes over several locks, one after the other.
	ample = 5 * time.Minute
)

// scene is a VM and two hosts that no other test uses. The provider reaches the hosts through proxies that let nothing
// pass before the trap has looked: a fault comes at a moment of the operation, not after some time.
type scene struct {
	l  *lab.Lab
	tf *acctest.CLI
	// from is the VM's host when an operation begins, to another host of the fleet.
	from, to *lab.Host
	name     string
	trap     *trap
	hosts    []acctest.Host
}

func newScene(t *testing.T) *scene {
	t.Helper()
	l := lab.Open(t)
	s := &scene{l: l, tf: acctest.NewCLI(t), from: l.StartHost(t), to: l.StartHost(t), name: lab.Name(t), trap: newTrap()}
	for _, h := range []*lab.Host{s.from, s.to} {
		p := l.Gate(t, h.Name, s.trap.look)
		s.hosts = append(s.hosts, acctest.Host{Of: h, URI: p.URI(), Settings: fmt.Sprintf(
			"migration_address = %q\n      ssh = { known_hosts_file = %q }", h.Address, p.KnownHostsFile)})
	}
	l.RemoveDomain(t, s.name)
	s.trap.watch(t)
	return s
}

// spread plays the faults of an operation in n scenes at the same time, because a scene mostly waits. Each scene goes
// through all of them in the same order. Before each it asks whether that is its turn: whether no other has begun it.
func spread(t *testing.T, n int, play func(t *testing.T, turn func() bool)) {
	t.Helper()
	var mu sync.Mutex
	begun := 0
	for i := range n {
		t.Run(fmt.Sprint("scene", i+1), func(t *testing.T) {
			t.Parallel()
			at := 0
			play(t, func() bool {
				mu.Lock()
				defer mu.Unlock()
				at++
				if at <= begun {
					return false
				}
				begun = at
				return true
			})
		})
	}
}

// block is the provider's.
func (s *scene) block() string {
	// One move at a time: the moments of a drain have an order.
	return acctest.Block{
		Lab: s.l, Hosts: s.hosts,
		Settings: "migration_limits = { per_fleet = 1, outbound_per_host = 1, inbound_per_host = 1 }",
	}.String()
}

// vm is a VM without anything to boot, with further attributes as HCL.
func (s *scene) vm(host *lab.Host, more string) string {
	return fmt.Sprintf("resource \"virtfleet_virtual_machine\" \"this\" {\n  name = %q\n  type = \"qemu\"\n  host = %q\n"+
		"  memory = { size = \"32Mi\" }\n  %s\n}\n", s.name, host.Name, more)
}

// guest is a VM with a guest and its agent, with further attributes as HCL.
func (s *scene) guest(more string) string {
	return fmt.Sprintf(`resource "virtfleet_virtual_machine" "this" {
  name        = %q
  type        = "qemu"
  memory      = { size = "128Mi" }
  kernel      = { path = %q, initrd = %q, cmdline = %q }
  guest_agent = { enabled = true }
  devices     = { serials = { log = { type = "file", path = %q } } }
  %s
}
`, s.name, s.l.KernelPath(), s.l.InitrdPath(), lab.GuestCmdline, lab.ConsoleLog(s.name), more)
}

// trap does harm as soon as something is so.
type trap struct {
	mu   sync.Mutex
	when func() bool
	harm func()
	// armed has an element if the trap was set since watch looked.
	armed chan struct{}
}

func newTrap() *trap { return &trap{armed: make(chan struct{}, 1)} }

// set has the trap wait for something.
func (p *trap) set(when func() bool, harm func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.when, p.harm = when, harm
	select {
	case p.armed <- struct{}{}:
	default:
	}
}

// look is what a gate does before it lets something pass. It never shuts.
func (p *trap) look() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.when != nil && p.when() {
		p.when = nil
		p.harm()
	}
	return false
}

// watch looks also while nothing passes, a thousand times a second as long as the trap is set.
func (p *trap) watch(t *testing.T) {
	t.Helper()
	done := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		for {
			select {
			case <-p.armed:
				p.await(done)
			case <-done:
				return
			}
		}
	})
	t.Cleanup(func() {
		close(done)
		watching.Wait()
	})
}

// await looks until harm was done, or the test is done.
func (p *trap) await(done <-chan struct{}) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !p.sprung() {
		select {
		case <-tick.C:
			p.look()
		case <-done:
			return
		}
	}
}

// sprung says that harm was done.
func (p *trap) sprung() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.when == nil
}

// harm is what a fault does to a host, and how that is undone.
type harm struct{ do, undo func(context.Context) error }

// cut, killed, frozen, ... are the faults of a host.
func cut(h *lab.Host) harm          { return harm{h.StopSSH, h.StartSSH} }
func daemonKilled(h *lab.Host) harm { return harm{h.KillLibvirtd, h.StartLibvirtd} }
func daemonFrozen(h *lab.Host) harm { return harm{h.FreezeLibvirtd, h.ThawLibvirtd} }
func linkCut(h *lab.Host) harm      { return harm{h.Cut, h.Restore} }

// definitionsFull leaves no room for what libvirt keeps of its domains.
func definitionsFull(h *lab.Host) harm {
	const dir = "/etc/libvirt/qemu"
	return harm{
		func(ctx context.Context) error { return h.FillDisk(ctx, dir) },
		func(ctx context.Context) error { return h.FreeDisk(ctx, dir) },
	}
}

// qemuKilled and qemuFrozen hit each of the VMs that is active on the host: at least one has to be.
func qemuKilled(h *lab.Host, names ...string) harm {
	return harm{
		func(ctx context.Context) error { return hit(ctx, h.KillQEMU, names) },
		func(context.Context) error { return nil },
	}
}

func qemuFrozen(h *lab.Host, names ...string) harm {
	return harm{
		func(ctx context.Context) error { return hit(ctx, h.FreezeQEMU, names) },
		func(ctx context.Context) error { return each(ctx, h.ThawQEMU, names) },
	}
}

// hit is each for a fault, which has to hit one of them.
func hit(ctx context.Context, do func(context.Context, string) error, names []string) error {
	missed := 0
	err := each(ctx, func(ctx context.Context, name string) error {
		err := do(ctx, name)
		if errors.Is(err, lab.ErrNoProcess) && missed < len(names)-1 {
			missed++
			return nil
		}
		return err
	}, names)
	return err
}

func each(ctx context.Context, do func(context.Context, string) error, names []string) error {
	var failures error
	for _, name := range names {
		failures = errors.Join(failures, do(ctx, name))
	}
	return failures
}

// within does something to a host in bounded time, also after the test's own context has ended.
func within(t *testing.T, what string, do func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
	defer cancel()
	if err := do(ctx); err != nil {
		t.Errorf("%s: %v", what, err)
	}
}

// struck is an apply that a fault hits.
type struck struct {
	fault string
	// when is the moment at which the harm is done.
	when func() bool
	harm harm
	// fails says that the apply fails, unless only chance decides that. sees are texts that it prints.
	fails bool
	sees  []string
	// again are texts that another apply prints before the fault is undone: it fails as well. nil: there is none.
	again []string
	// plan are texts of the next plan, after the fault.
	plan []string
	// chance says that whether the apply fails depends on when the host notices, or on when the apply continues.
	chance bool
	// failed is what is seen instead if the apply fails, where chance decides that; nil: chance changes nothing else.
	failed *struck
	// limit is the operation's timeout, after which the apply ends soon; 0: that isn't looked at.
	limit time.Duration
}

// play applies the configuration while the fault hits, mends the fault, and applies until nothing is left to do.
func (s *scene) play(t *testing.T, c struck) {
	t.Helper()
	undo := func() { within(t, c.fault+", undone", c.harm.undo) }
	t.Cleanup(undo)
	var hit time.Time
	s.trap.set(c.when, func() { within(t, c.fault, c.harm.do); hit = time.Now() })
	out, err := s.tf.Try(t, "apply")
	if !s.trap.sprung() {
		t.Fatalf("%s: the moment never came:\n%s", c.fault, out)
	}
	if took := time.Since(hit); c.limit > 0 && took > c.limit+fleet.Grace+slack {
		t.Errorf("%s: the apply took %v from then on, with a timeout of %v:\n%s", c.fault, took, c.limit, out)
	}
	if c.failed != nil && err != nil {
		c.fails, c.sees, c.plan = true, c.failed.sees, c.failed.plan
	}
	if (err != nil) != c.fails && !c.chance {
		t.Errorf("%s: the apply ended with %v:\n%s", c.fault, err, out)
	}
	expect(t, c.fault+": the apply", out, c.sees...)
	if state, tainted := s.tf.State(t, address); state != nil && tainted {
		t.Errorf("%s: the VM is tainted", c.fault)
	}
	if c.again != nil {
		out, err := s.tf.Try(t, "apply")
		if err == nil {
			t.Errorf("%s: another apply before it is undone ended well:\n%s", c.fault, out)
		}
		expect(t, c.fault+": another apply", out, c.again...)
	}
	undo()
	s.converge(t, c)
}

// converge applies until nothing is left to do, which may be at once. What an apply prints has what a plan would say:
// the texts of plan are of changes, and of warnings that only planning has.
func (s *scene) converge(t *testing.T, c struck) {
	t.Helper()
	if !slices.Contains(c.plan, noChanges) {
		expect(t, c.fault+": the next plan", s.tf.Run(t, "apply"), c.plan...)
	}
	if out, empty := s.tf.Empty(t); !empty {
		t.Errorf("%s: left to do after the next apply, if one is needed:\n%s", c.fault, out)
	}
}

// playKilled kills Terraform and the provider in the midst of an apply.
func (s *scene) playKilled(t *testing.T, c struck) {
	t.Helper()
	apply := s.start(t, c, (*acctest.Running).Kill)
	if out, err := apply.Wait(); err == nil {
		t.Fatalf("%s: the apply succeeded:\n%s", c.fault, out)
	}
	_ = os.Remove(filepath.Join(s.tf.Dir, ".terraform.tfstate.lock.info"))
	s.converge(t, c)
}

// playFrozen freezes Terraform and the provider in the midst of an apply. Another run does what is left, and then the
// frozen one continues: it must not change anything. From then on the scene is the other run's.
func (s *scene) playFrozen(t *testing.T, c struck) {
	t.Helper()
	apply := s.start(t, c, (*acctest.Running).Freeze)
	other := acctest.NewCLI(t)
	other.Share(t, s.tf)
	s.tf = other
	s.converge(t, c)
	before := s.seen(t)
	if err := apply.Thaw(); err != nil {
		t.Fatal(err)
	}
	out, err := apply.Wait()
	if (err != nil) != c.fails && !c.chance {
		t.Errorf("%s: the frozen apply ended with %v:\n%s", c.fault, err, out)
	}
	expect(t, c.fault+": the frozen apply", out, c.sees...)
	if after := s.seen(t); after != before {
		t.Errorf("%s: when it continued, the frozen apply made\n%s\nof\n%s", c.fault, after, before)
	}
	if out, empty := s.tf.Empty(t); !empty {
		t.Errorf("%s: left to do after the frozen apply continued:\n%s", c.fault, out)
	}
}

// start starts an apply in a process of its own, and does something to it at the moment.
func (s *scene) start(t *testing.T, c struck, do func(*acctest.Running) error) *acctest.Running {
	t.Helper()
	apply := s.tf.Start(t, "apply")
	s.trap.set(c.when, func() {
		if err := do(apply); err != nil {
			t.Errorf("%s: %v", c.fault, err)
		}
	})
	for tick := time.NewTicker(10 * time.Millisecond); !s.trap.sprung(); {
		select {
		case <-tick.C:
		case <-apply.Done(): // What was done to it may have ended it.
			if !s.trap.sprung() {
				t.Fatalf("%s: the moment never came:\n%s", c.fault, apply.Output())
			}
		}
	}
	return apply
}

// seen is what both hosts have of the VMs.
func (s *scene) seen(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	for _, h := range []*lab.Host{s.from, s.to} {
		fmt.Fprintf(&all, "%s: %s", h.Name, s.l.Virsh(t, h.Name, "list", "--all", "--uuid", "--name"))
		for name := range strings.FieldsSeq(s.l.Virsh(t, h.Name, "list", "--all", "--name")) {
			all.WriteString(s.l.Virsh(t, h.Name, "domstate", "--reason", name))
			all.WriteString(s.l.Virsh(t, h.Name, "dumpxml", "--inactive", name))
		}
	}
	return all.String()
}

// expect fails the test unless all texts are in what Terraform printed.
func expect(t *testing.T, what, out string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(out, text) {
			t.Errorf("%s doesn't say %q:\n%s", what, text, out)
		}
	}
}

// state is what virsh says of the VM on a host, "" if it has none.
func (s *scene) state(t *testing.T, h *lab.Host) string {
	t.Helper()
	out, err := s.l.TryVirsh(t, h.Name, "domstate", "--reason", s.name)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(out)
}

// becomes waits until virsh says so of the VM on a host.
func (s *scene) becomes(t *testing.T, fault string, h *lab.Host, state string) {
	t.Helper()
	lab.Await(t, fmt.Sprintf("%s: host %s has it %s", fault, h.Name, state), func() bool {
		return strings.HasPrefix(s.state(t, h), state)
	})
}

const noChanges = "No changes."
