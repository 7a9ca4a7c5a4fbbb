package soak

import (
	"slices"
	"strings"
	"time"
)

// What people do to the power and the definition of a VM by hand.

func powerByHand() moveList {
	return moveList{
		on("suspend", 1, running, func(w *world, v *vm) {
			v.may.pause = true
			w.hand(v, "suspend")
		}),
		on("resume", 2, stands, func(w *world, v *vm) { w.hand(v, "resume") }),
		on("destroy by hand", 2, running, func(w *world, v *vm) {
			w.stopped(v)
			w.hand(v, "destroy", some(w, "--graceful"))
		}),
		on("shutdown", 2, running, func(w *world, v *vm) {
			w.asked(v)
			w.hand(v, "shutdown", draw(w, "mode", nil, []string{"--mode", "acpi"}, []string{"--mode", "agent"}))
			w.settle(v)
		}),
		on("reset", 1, running, func(w *world, v *vm) {
			v.may.restart = true
			w.hand(v, "reset")
		}),
		on("reboot", 1, guestsRun, func(w *world, v *vm) {
			w.asked(v)
			w.hand(v, "reboot", "--mode", draw(w, "mode", "acpi", "agent"))
			w.settle(v)
		}),
		on("start", 5, off, func(w *world, v *vm) {
			v.may.restart, v.may.pause = true, true
			w.hand(v, "start", some(w, "--paused"))
		}),
		on("managedsave", 3, both(running, persistent), func(w *world, v *vm) {
			v.may.stop = true
			w.hand(v, "managedsave", some(w, "--bypass-cache"), draw(w, "as", nil, []string{"--running"}, []string{"--paused"}))
		}),
		on("save and restore", 2, both(running, persistent), saveAndRestore),
		on("dump", 1, both(running, persistent), dump),
		on("freeze and thaw filesystems", 1, guestsRun, func(w *world, v *vm) {
			w.hand(v, "domfsfreeze")
			w.hand(v, "domfsthaw")
		}),
		on("dompmsuspend", 1, both(running, persistent), sleepAndWake),
		on("managedsave-remove", 1, off, func(w *world, v *vm) { w.hand(v, "managedsave-remove") }),
	}
}

func definitionByHand() moveList {
	return moveList{
		on("autostart", 2, persistent, func(w *world, v *vm) { w.hand(v, "autostart", some(w, "--disable")) }),
		on("undefine", 5, persistent, undefine),
		on("define again", 1, persistent, func(w *world, v *vm) { w.redefine(v, w.at(v), "as it is", as) }),
		on("edit", 3, persistent, edit),
		on("domrename", 1, off, func(w *world, v *vm) { w.hand(v, "domrename", v.name+"-by-hand") }),
		on("desc", 1, persistent, func(w *world, v *vm) {
			w.hand(v, "desc", "--new-desc", "by hand", some(w, "--config", "--title"))
		}),
		on("metadata --remove", 1, persistent, func(w *world, v *vm) {
			w.hand(v, "metadata", "urn:virtfleet:1", "--remove", some(w, "--config"))
		}),
	}
}

// sleepAndWake has a guest suspend itself, and wakes it. Its agent answers before it sleeps, and a guest that doesn't
// sleep yet isn't woken: no one here would wake it later. Without KVM, a guest that is woken often starts anew.
func sleepAndWake(w *world, v *vm) {
	v.may.pause, v.may.restart = true, true
	if !w.hand(v, "dompmsuspend", draw(w, "target", "mem", "disk", "hybrid")) {
		return
	}
	for begun := time.Now(); time.Since(begun) < bootPatience; <-time.After(100 * time.Millisecond) {
		s := w.look()[v.uuid]
		if s == nil || s.active() == "" || s.states[s.active()] == "pmsuspended" {
			break
		}
	}
	w.hand(v, "dompmwakeup")
}

// saveAndRestore saves the memory of a VM to a file, and resumes it from there.
func saveAndRestore(w *world, v *vm) {
	at, file := w.at(v), w.image(v, "save")
	v.may.stop, v.may.pause = true, true
	if !w.hand(v, "save", file, some(w, "--bypass-cache", "--paused")) {
		return
	}
	w.virsh(at, slices.Concat([]string{"restore", file}, some(w, "--bypass-cache", "--running"))...)
	_, err := w.ask(w.lab.Host(at), "rm", "-f", file)
	w.done("rm", err)
}

// dump writes the memory of a guest to a file, as people do before they report a crash.
func dump(w *world, v *vm) {
	at, file := w.at(v), w.image(v, "core")
	how := draw(w, "dump", []string{"--live"}, nil, []string{"--crash"}, []string{"--reset"}, []string{"--memory-only"})
	switch {
	case slices.Contains(how, "--crash"):
		w.stopped(v)
	case slices.Contains(how, "--reset"):
		v.may.restart = true
	}
	w.hand(v, "dump", file, how)
	_, err := w.ask(w.lab.Host(at), "rm", "-f", file)
	w.done("rm", err)
}

func stands(w *world, v *vm) bool    { return running(w, v) && v.paused }
func guestsRun(w *world, v *vm) bool { return v.guest && running(w, v) && !v.paused }

// stopped notes that a VM is stopped by hand. What isn't defined is gone then: another host may have a definition
// still, with the disk as it was when the VM left.
func (w *world) stopped(v *vm) {
	v.may.stop, v.may.restart = true, true
	s := w.sights[v.uuid]
	if len(s.defined) == 0 {
		v.may.vanish, v.may.undefine = true, true
	} else if !persistent(w, v) && v.export == "" {
		v.number = 0
	}
}

// asked notes that a guest is asked to stop, which it may do later.
func (w *world) asked(v *vm) {
	w.stopped(v)
	v.asked = v.guest
}

// cutShort notes that what a plan stops may still stop, now that its apply has ended before its time.
func (w *world) cutShort() {
	for _, v := range w.vms {
		v.asked = v.asked || v.guest && v.may.stop
	}
}

// isOff looks whether no host runs a VM now.
func (w *world) isOff(v *vm) bool {
	s := w.look()[v.uuid]
	return s == nil || s.active() == ""
}

// settle waits until a VM has done what it was asked to, or doesn't.
func (w *world) settle(v *vm) {
	for range 40 {
		if w.isOff(v) {
			return
		}
		<-time.After(100 * time.Millisecond)
	}
}

func undefine(w *world, v *vm) {
	v.may.undefine = true
	if !running(w, v) {
		// It goes altogether, unless another host has a definition.
		v.may.vanish = true
	}
	w.hand(v, "undefine", draw(w, "with", nil, []string{
		"--managed-save", "--snapshots-metadata", "--checkpoints-metadata", "--nvram",
	}, []string{"--keep-nvram"}))
}

func as(xml string) string { return xml }

// redefine defines a VM on a host with its own definition, changed.
func (w *world) redefine(v *vm, host, what string, change func(string) string) {
	w.say("%s$ virsh define: that of %s, %s", host, v.uuid, what)
	xml, err := w.ask(w.lab.Host(w.at(v)), "virsh", "-q", "dumpxml", "--inactive", "--security-info", v.uuid)
	if err == nil {
		const script = `f=$(mktemp); printf %s "$1" >"$f"; virsh -q define "$f"; s=$?; rm -f "$f"; exit $s`
		_, err = w.ask(w.lab.Host(host), "bash", "-c", script, "define", change(xml))
	}
	w.done("define", err)
}

// edit changes the definition as "virsh edit" does.
func edit(w *world, v *vm) {
	const devices = "</devices>"
	type change struct{ what, from, to string }
	c := draw(w, "edit",
		change{"on_crash", "<on_crash>destroy</on_crash>", "<on_crash>restart</on_crash>"},
		change{"a rng", devices, "<rng model='virtio'><backend model='random'>/dev/random</backend></rng>" + devices},
		change{"a NIC", devices, "<interface type='user'><model type='virtio'/></interface>" + devices},
		change{"a description", "<memory", "<description>edited</description><memory"},
		change{"a boot menu", "</os>", "<bootmenu enable='yes'/></os>"},
		change{"a drive", devices, "<disk type='file' device='cdrom'><target dev='sdz' bus='sata'/></disk>" + devices},
	)
	w.redefine(v, w.at(v), "with "+c.what, func(xml string) string { return strings.Replace(xml, c.from, c.to, 1) })
}
