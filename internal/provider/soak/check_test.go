package soak

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// bootPatience is how long a guest may take until it writes, where the lab shares its processors;
// hungPatience how long one may that was moved before it had booted.
const (
	bootPatience = 5 * time.Minute
	hungPatience = 40 * time.Second
)

// may is what a move may do to a VM, knowingly.
type may struct {
	// restart: the guest boots again; stop: it is off; pause: it is paused.
	restart, stop, pause bool
	// undefine: the definition goes, though it may run; vanish: nothing is left of it.
	undefine, vanish bool
}

// check looks at all VMs, and fails if something was lost.
func (w *world) check(after string) {
	w.t.Helper()
	for _, v := range w.vms {
		if v.asked && w.sights[v.uuid] != nil {
			w.stopped(v)
		}
	}
	before := w.sights
	w.sights = w.look()
	for _, v := range w.vms {
		if v.uuid == "" {
			continue
		}
		w.checkPlace(v, before[v.uuid], w.sights[v.uuid], after)
	}
	w.checkDisks()
	for _, v := range w.vms {
		if s := w.sights[v.uuid]; s != nil && v.guest {
			w.checkGuest(v, s)
		}
	}
	for _, v := range w.vms {
		v.may = may{}
		if s := w.sights[v.uuid]; s != nil {
			v.home, v.aside = w.at(v), ""
			v.ran = s.active() != ""
			v.asked = v.asked && v.ran
			v.paused = v.ran && s.states[v.home] == "paused"
		}
	}
}

// checkPlace looks at where a VM is: in one place at most, and not gone.
func (w *world) checkPlace(v *vm, before, now *sight, after string) {
	if now == nil {
		now = &sight{}
	}
	if len(now.processes) > 1 {
		w.fail("%s runs on %v", v.name, now.processes)
	}
	if before == nil || len(before.processes) == 0 && len(before.defined) == 0 {
		return
	}
	if now.active() == "" && len(now.defined) == 0 && !v.may.vanish {
		w.fail("%s is lost: it was on %v, defined on %v, and is nowhere now%s", v.name, before.processes,
			before.definedOn(), after)
	}
	if len(before.defined) > 0 && len(now.defined) == 0 && !v.may.vanish && !v.may.undefine {
		w.fail("the definition of %s is lost, it was on %v%s", v.name, before.definedOn(), after)
	}
	if v.ran && now.active() == "" && !v.may.stop {
		w.fail("%s was stopped, it ran on %s%s", v.name, v.home, after)
	}
	may := v.may.pause || v.cut && now.handedOver()
	if h := now.active(); h != "" && now.states[h] == "paused" && v.ran && !v.paused && !may {
		w.fail("%s is paused on %s%s", v.name, h, after)
	}
}

// checkDisks looks that no two VMs that run write to one disk.
func (w *world) checkDisks() {
	users := map[string][]string{}
	for _, s := range w.sights {
		for _, h := range s.processes {
			domain := s.live[h]
			if domain == nil {
				continue
			}
			for _, d := range sources(domain) {
				where := "export " + d.export
				if d.export == "" {
					where = h + ":" + d.file
				}
				if d.writable && (d.file != "" || d.export != "") {
					users[where] = append(users[where], domain.FindElement("name").Text())
				}
			}
		}
	}
	for where, names := range users {
		if len(names) > 1 {
			w.fail("%v write to %s at the same time", names, where)
		}
	}
}

// checkGuest checks that a guest runs, in the same boot, and that its disk has all that it wrote.
func (w *world) checkGuest(v *vm, s *sight) {
	host := s.active()
	if host == "" {
		w.checkStopped(v, s)
		return
	}
	if s.live[host] == nil {
		w.fail("libvirt on %s has no status of %s, which runs there", host, v.name)
	}
	first, err := w.read(v, host, s.live[host])
	w.progress(v, first, err, host)
	if s.states[host] == "paused" {
		return
	}
	begun, judged := time.Now(), false
	for {
		b, err := w.read(v, host, s.live[host])
		w.progress(v, b, err, host)
		// A guest that is new, or starts anew, writes for the first time in a boot that wasn't there before.
		if b.number > first.number && b.boot != "" {
			v.boot = b.boot
			return
		}
		if !judged && v.boot == "" && v.home != host && time.Since(begun) > hungPatience {
			judged = true
			// A guest that is moved in its first seconds may lack a write. One that didn't come live, or that hangs again
			// after the reset, is broken by something else.
			if w.mayLoseWrites(s, host) {
				w.say("  # %s was moved while it booted, and hangs", v.name)
				w.tally.moves["(a guest hung that was moved while it booted)"]++
				w.virsh(host, "reset", v.uuid)
				v.home, begun = host, time.Now()
			}
		}
		if v.asked && w.isOff(v) {
			return // The next look is about one that is off.
		}
		if time.Since(begun) > bootPatience {
			w.fail("the guest of %s on %s no longer counts: it is at %d", v.name, host, b.number)
		}
		<-time.After(50 * time.Millisecond)
	}
}

// mayLoseWrites says that a VM has come to a host live, with a QEMU that may lose a write of a guest on the way: before
// version 9.0 one without KVM does, see lab.GuestCmdline.
func (w *world) mayLoseWrites(s *sight, host string) bool {
	if !slices.Contains(s.received, host) || s.live[host].SelectAttrValue("type", "") != "qemu" {
		return false
	}
	out, err := w.ask(w.lab.Host(host), s.live[host].FindElement("devices/emulator").Text(), "--version")
	if err != nil {
		w.t.Fatal(err)
	}
	_, version, _ := strings.Cut(out, "version ")
	major, _, _ := strings.Cut(version, ".")
	number, err := strconv.Atoi(major)
	if err != nil {
		w.t.Fatalf("the version of QEMU: %q", out)
	}
	return number < 9
}

// checkStopped looks that the disk of a VM that is off has all that was written.
func (w *world) checkStopped(v *vm, s *sight) {
	v.boot = ""
	at := w.at(v)
	if at == "" || !slices.Contains(s.definedOn(), v.home) && len(s.defined) > 1 {
		return
	}
	b, err := w.read(v, at, s.defined[at])
	w.progress(v, b, err, at)
}

// progress compares a number with what is known already.
func (w *world) progress(v *vm, b beat, err error, host string) {
	if errors.Is(err, errHole) {
		w.fail("%s: %v", v.name, err)
	}
	if err != nil {
		if v.number > 0 && v.unread == "" {
			w.fail("the disk of %s can't be read on %s: %v", v.name, host, err)
		}
		return
	}
	if b.number < v.number {
		<-time.After(2 * time.Second) // A disk that is read while QEMU writes its tables has the number by then.
		s := w.look()[v.uuid]
		later, err := w.read(v, host, cmp.Or(s.live[host], s.defined[host]))
		w.fail("the guest of %s had written %d, and its disk on %s has %d: writes are lost. Two seconds later it has %d "+
			"(%v)", v.name, v.number, host, b.number, later.number, err)
	}
	v.number = b.number
	if v.boot != "" && b.boot != v.boot {
		if !v.may.restart {
			w.fail("the guest of %s was started anew on %s: its boot was %s, is %s", v.name, host, v.boot, b.boot)
		}
		v.boot, v.asked = "", false
	}
}

// awaitGuests looks once more when the guests have begun to write.
func (w *world) awaitGuests() {
	w.t.Helper()
	w.check("")
}

// hostFiles are what a plan mustn't change: what libvirt has in its directory, and the images that there are.
func (w *world) hostFiles() map[string]string {
	all := map[string]string{}
	for _, h := range w.hosts {
		for path, content := range tree(w.t, h.Path("/etc/libvirt"), true) {
			all[h.Name+":/etc/libvirt/"+path] = content
		}
		for path := range tree(w.t, h.Path("/var/lib/libvirt/images"), false) {
			all[h.Name+":images/"+path] = ""
		}
	}
	return all
}

// locks are the leases that there are.
func (w *world) locks() map[string]string {
	locks := map[string]string{}
	for name, content := range w.hostFiles() {
		if strings.Contains(name, "/secrets/") && strings.Contains(content, "virtfleet:lock:") {
			locks[name] = content
		}
	}
	return locks
}

// differences names the files that were written, made or removed.
func differences(before, after map[string]string) []string {
	var out []string
	for name, content := range after {
		if was, there := before[name]; !there {
			out = append(out, "made "+name)
		} else if was != content {
			out = append(out, fmt.Sprintf("changed %s\nfrom %s\nto %s", name, was, content))
		}
	}
	for name := range maps.Keys(before) {
		if _, there := after[name]; !there {
			out = append(out, "removed "+name)
		}
	}
	slices.Sort(out)
	return out
}

func decoded(out string) ([]byte, error) {
	return base64.StdEncoding.DecodeString(strings.TrimSpace(out))
}
