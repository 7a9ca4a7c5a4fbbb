package soak

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// handPatience bounds what is done by hand.
const handPatience = 90 * time.Second

// world is a day: hosts, VMs on them, and two states that have them.
type world struct {
	*soak
	r      *rapid.T
	prefix string
	cli    [2]*acctest.CLI
	vms    []*vm
	// upkeep are the hosts that a maintenance of the first state drains, with its further attributes.
	upkeep map[string]string
	// settings are what the provider is told about hosts, silence about those that don't answer.
	settings map[string]string
	silence  string
	// policies are the fleet's, by type, and orders migrations that are declared, by the key of their VM.
	policies map[string]string
	orders   map[string]migrationOrder
	// exports are disks that every host reaches, by name.
	exports map[string]*lab.Export
	// script is what was done so far.
	script []string
	moves  int
	// sights is where the VMs were when they were last looked at.
	sights map[string]*sight
	// secret is in a sensitive variable.
	secret string
	// advice are the titles of the errors that were last read and not heeded.
	advice []string
	// killed is true once a run was killed: its locks are there until another run has waited for them.
	killed bool
	// fault says that a host is broken right now.
	fault  bool
	failed bool
}

func (s *soak) newWorld(r *rapid.T) *world {
	name := lab.Name(s.t)
	w := &world{
		soak: s, r: r, prefix: "s" + name[len(name)-6:], secret: "hush-" + name[len(name)-6:],
		exports: map[string]*lab.Export{},
	}
	w.plain()
	for i := range w.cli {
		w.cli[i] = acctest.NewCLI(s.t)
		file := filepath.Join(w.cli[i].Dir, "token.auto.tfvars")
		if err := os.WriteFile(file, fmt.Appendf(nil, "token = %q\n", w.secret), 0o600); err != nil {
			s.t.Fatal(err)
		}
	}
	w.newVMs()
	w.sights = w.look()
	return w
}

// fail ends the day, with all that led there.
func (w *world) fail(format string, args ...any) {
	w.t.Helper()
	if !w.failed {
		w.failed = true
		w.found = fmt.Sprintf(format, args...)
		w.t.Logf("FOUND: %s\nwhat led there:\n%s\n%s", w.found, strings.Join(w.script, "\n"), w.evidence())
	}
	w.r.Fatalf(format, args...)
}

// disksIn finds the disks in a definition.
var disksIn = regexp.MustCompile(`(?s)<disk .*</disk>`)

// evidence is what the hosts have of the VMs, and what QEMU said last.
func (w *world) evidence() string {
	var b strings.Builder
	for _, h := range w.hosts {
		out, err := w.ask(h, "virsh", "-q", "list", "--all", "--title")
		fmt.Fprintf(&b, "%s: %v\n%s\n", h.Name, err, out)
	}
	for _, v := range w.vms {
		fmt.Fprintf(&b, "%s %s in state %d: %+v\n", v.name, v.uuid, v.state, v.seen)
		for _, h := range w.hosts {
			if xml, err := w.ask(h, "virsh", "-q", "dumpxml", v.uuid); err == nil {
				fmt.Fprintf(&b, "on %s:\n%s\n", h.Name, disksIn.FindString(xml))
			}
			if log, err := w.ask(h, "tail", "-n", "8", "/var/log/libvirt/qemu/"+v.name+".log"); err == nil {
				fmt.Fprintf(&b, "QEMU's log on %s ends with\n%s\n", h.Name, log)
			}
		}
	}
	return b.String()
}

// write writes a state's configuration.
func (w *world) write(state int) {
	w.t.Helper()
	block := acctest.Block{Lab: w.lab, Settings: w.silence}
	for i, h := range w.hosts {
		settings := fmt.Sprintf("migration_address = %q\nlabels = { zone = %q }\n%s", h.Address, zones[i], w.settings[h.Name])
		block.Hosts = append(block.Hosts, acctest.Host{Of: h, Settings: settings})
	}
	var b strings.Builder
	b.WriteString(block.String() + "variable \"token\" {\n  type      = string\n  sensitive = true\n}\n")
	for _, v := range w.vms {
		if v.state == state {
			b.WriteString(v.hcl())
		}
	}
	b.WriteString(w.fleetHCL(state))
	w.cli[state].Config(w.t, b.String())
}

// clear takes everything of the day off the hosts.
func (w *world) clear() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(w.t.Context()), 3*time.Minute)
	defer cancel()
	var names []string
	for _, v := range w.vms {
		names = append(names, v.name)
	}
	for _, h := range w.hosts {
		err := errors.Join(heal(ctx, h), h.Undefine(ctx, names...), forget(ctx, h, w.prefix))
		if err != nil {
			w.t.Errorf("clearing %s: %v", h.Name, err)
		}
	}
}

// forget removes files of the day, and what the provider keeps on a host.
func forget(ctx context.Context, h *lab.Host, prefix string) error {
	const script = `rm -f /var/lib/libvirt/images/$1* /var/log/libvirt/qemu/$1*
for id in $(virsh -q secret-list | grep virtfleet: | cut -d' ' -f2); do virsh -q secret-undefine $id; done`
	_, err := h.Run(ctx, "bash", "-c", script, "forget", prefix)
	return errors.Join(err, h.RefreshPool(ctx))
}

// ask runs a command on a host, to look at it.
func (w *world) ask(h *lab.Host, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(w.t.Context()), handPatience)
	defer cancel()
	return h.Run(ctx, name, args...)
}

// virsh does something by hand on a host. It may be refused.
func (w *world) virsh(host string, args ...string) bool {
	w.say("%s$ virsh %s", host, strings.Join(args, " "))
	ctx, cancel := context.WithTimeout(w.t.Context(), handPatience)
	defer cancel()
	_, err := w.lab.Host(host).Virsh(ctx, args...)
	return w.done(args[0], err)
}

// hand does something to a VM by hand where it is: "virsh <verb> <uuid> <args>". VMs are named by UUID: names change.
func (w *world) hand(v *vm, verb string, args ...any) bool {
	all := []string{verb, v.uuid}
	for _, a := range args {
		switch a := a.(type) {
		case string:
			all = append(all, a)
		case []string:
			all = append(all, a...)
		}
	}
	return w.virsh(w.at(v), all...)
}

// done notes whether something that was done by hand was refused.
func (w *world) done(verb string, err error) bool {
	if err == nil {
		return true
	}
	said := err.Error()
	if at := strings.Index(said, "error: "); at >= 0 {
		said = said[at:]
	}
	said = strings.ReplaceAll(strings.TrimSpace(said), "\n", " ")
	w.say("  # refused: %s", said)
	for _, v := range w.vms {
		said = strings.ReplaceAll(said, v.name, "<vm>")
	}
	w.tally.virsh[verb+": "+said[:min(len(said), 110)]]++
	return false
}

// host draws one of the hosts.
func (w *world) host(what string, not ...string) *lab.Host {
	var from []string
	for _, h := range w.hosts {
		if !slices.Contains(not, h.Name) {
			from = append(from, h.Name)
		}
	}
	return w.lab.Host(draw(w, what, from...))
}

// pick draws one of the VMs that are so.
func (w *world) pick(is func(*vm) bool) *vm {
	return draw(w, "vm", w.those(is)...)
}

func (w *world) those(is func(*vm) bool) []*vm {
	var out []*vm
	for _, v := range w.vms {
		if is(v) {
			out = append(out, v)
		}
	}
	return out
}

// with makes a condition of a move out of one of a VM.
func with(is func(*world, *vm) bool) func(*world) bool {
	return func(w *world) bool {
		return len(w.those(func(v *vm) bool { return is(w, v) })) > 0
	}
}

// to does something to one of the VMs that are so.
func to(is func(*world, *vm) bool, do func(*world, *vm)) func(*world) {
	return func(w *world) { do(w, w.pick(func(v *vm) bool { return is(w, v) })) }
}

// on makes a move that is about one VM.
func on(name string, weight int, is func(*world, *vm) bool, do func(*world, *vm)) move {
	return move{name: name, weight: weight, able: with(is), do: to(is, do)}
}

// What a VM may be.
func known(w *world, v *vm) bool   { return w.sights[v.uuid] != nil && w.at(v) != "" }
func managed(_ *world, v *vm) bool { return v.state >= 0 }
func lost(w *world, v *vm) bool    { return v.state < 0 && known(w, v) }
func running(w *world, v *vm) bool { return known(w, v) && w.sights[v.uuid].active() != "" }
func off(w *world, v *vm) bool     { return known(w, v) && !running(w, v) }
func persistent(w *world, v *vm) bool {
	return known(w, v) && slices.Contains(w.sights[v.uuid].definedOn(), w.at(v))
}

func both(a, b func(*world, *vm) bool) func(*world, *vm) bool {
	return func(w *world, v *vm) bool { return a(w, v) && b(w, v) }
}

// at is the host where a VM runs, or else where it is defined.
func (w *world) at(v *vm) string {
	s := w.sights[v.uuid]
	if s == nil {
		return ""
	}
	if h := s.active(); h != "" {
		return h
	}
	defined := s.definedOn()
	if slices.Contains(defined, v.home) {
		return v.home
	}
	if len(defined) > 0 {
		return defined[0]
	}
	return ""
}
