package soak

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

// What people do by hand to where a VM is.

func placeByHand() moveList {
	return moveList{
		on("migrate", 18, running, migrate),
		on("migrate offline", 5, both(off, persistent), migrateOffline),
		on("define elsewhere", 4, both(known, persistent), func(w *world, v *vm) {
			to := w.host("to", w.at(v))
			w.redefine(v, to.Name, "as it is", as)
		}),
		on("undefine stale definition", 2, leaves, func(w *world, v *vm) {
			v.may.undefine = len(w.sights[v.uuid].defined) == 1
			w.virsh(draw(w, "host", w.leftovers(v)...), "undefine", v.uuid, "--managed-save", "--snapshots-metadata",
				"--checkpoints-metadata")
		}),
		{name: "pool-refresh", weight: 1, do: func(w *world) { w.virsh(w.host("host").Name, "pool-refresh", "default") }},
	}
}

func leaves(w *world, v *vm) bool { return len(w.leftovers(v)) > 0 }

// leftovers are the hosts that have a definition of a VM which is elsewhere.
func (w *world) leftovers(v *vm) []string {
	s := w.sights[v.uuid]
	if s == nil || s.active() == "" {
		return nil
	}
	return slices.DeleteFunc(s.definedOn(), func(h string) bool { return h == w.at(v) })
}

// ways are further forms of a migration.
var ways = []string{
	"--p2p", "--p2p --tunnelled", "--suspend", "--change-protection", "--abort-on-error", "--auto-converge",
	"--compressed", "--postcopy --postcopy-after-precopy", "--parallel --parallel-connections 2", "--bandwidth 200",
	"--timeout 5", "--timeout 5 --timeout-suspend", "--dname by-hand",
}

// migrate moves a VM with any of the flags that people use. The source's and the target's libvirt are both reached from
// outside, as from an administrator's desk.
func migrate(w *world, v *vm) {
	from := w.lab.Host(w.at(v))
	to := w.host("to", from.Name)
	flags := append([]string{"--live"}, some(w, "--persistent", "--undefinesource", "--unsafe")...)
	if chance(w, "not live", 6) {
		flags = flags[1:]
	}
	if ofFile(w, v) || chance(w, "copy", 5) {
		flags = append(flags, draw(w, "copy", "--copy-storage-all", "--copy-storage-all", "--copy-storage-inc"))
		w.makeImages(v, from, to)
	}
	if chance(w, "in another way", 3) {
		flags = append(flags, strings.Fields(draw(w, "way", ways...))...)
	}
	v.may.pause = slices.Contains(flags, "--suspend")
	// Without --persistent it is transient on the target; with --undefinesource alone it has no definition then.
	v.may.undefine = slices.Contains(flags, "--undefinesource") && !slices.Contains(flags, "--persistent")
	if s := w.sights[v.uuid]; !slices.Contains(flags, "--persistent") && len(s.defined) == 1 {
		v.may.undefine = true
	}
	w.moveByHand(v, from, to, flags...)
}

func (w *world) moveByHand(v *vm, from, to *lab.Host, flags ...string) bool {
	w.say("virsh -c %s migrate %s %s %s", from.Name, strings.Join(flags, " "), v.uuid, to.Name)
	ctx, cancel := context.WithTimeout(w.t.Context(), handPatience)
	defer cancel()
	for i, flag := range flags {
		if flag == "by-hand" {
			flags[i] = v.name + "-by-hand"
		}
	}
	target := []string{to.SocketURI(), "--migrateuri", "tcp://" + to.Address}
	switch {
	case slices.Contains(flags, "--offline"):
		target = target[:1]
	case slices.Contains(flags, "--p2p"):
		target = []string{"qemu+ssh://root@" + to.Address + "/system?command=" + w.ssh()}
	}
	args := append([]string{"--quiet", "--connect", from.SocketURI(), "migrate"}, flags...)
	args = slices.Concat(args, []string{v.uuid}, target)
	out, err := exec.CommandContext(ctx, "virsh", args...).CombinedOutput()
	if err != nil {
		err = errors.Join(errors.New(strings.TrimSpace(string(out))), err)
	}
	return w.done("migrate", err)
}

// ssh is one for a host's libvirt that has a key and knows the other hosts, as its root's own would.
func (w *world) ssh() string {
	command := filepath.Join(w.cli[0].Dir, "ssh")
	script := fmt.Sprintf("#!/bin/sh\nexec ssh -F %s \"$@\"\n", w.lab.SSHConfigFile())
	if err := os.WriteFile(command, []byte(script), 0o700); err != nil { //nolint:gosec // It is to be run.
		w.t.Fatal(err)
	}
	return command
}

func migrateOffline(w *world, v *vm) {
	from := w.lab.Host(w.at(v))
	to := w.host("to", from.Name)
	flags := append([]string{"--offline", "--persistent"}, some(w, "--undefinesource")...)
	if ofFile(w, v) {
		// Whoever moves a definition takes its files along.
		w.copyImages(v, from, to)
	}
	if w.moveByHand(v, from, to, flags...) {
		v.home = to.Name
	}
}

// makeImages makes empty images on the target, which a copy of the storage needs.
func (w *world) makeImages(v *vm, from, to *lab.Host) {
	for _, d := range sources(w.sights[v.uuid].live[from.Name]) {
		if d.file == "" || !d.writable {
			continue
		}
		const script = `[ -e "$1" ] || qemu-img create -q -f "$2" "$1" "$3"`
		size, err := w.ask(from, "bash", "-c",
			`qemu-img info -U --output=json "$1" | sed -n 's/.*"virtual-size": //p' | tail -1 | tr -d ,`, "size", d.file)
		if err == nil {
			w.say("%s$ qemu-img create -f %s %s", to.Name, d.format, d.file)
			_, err = w.ask(to, "bash", "-c", script, "make", d.file, d.format, strings.TrimSpace(size))
		}
		w.done("qemu-img create", err)
	}
}

// copyImages copies the files of a VM that is off, as scp does.
func (w *world) copyImages(v *vm, from, to *lab.Host) {
	for _, d := range sources(w.sights[v.uuid].defined[from.Name]) {
		if d.file == "" || !d.writable {
			continue
		}
		w.say("scp %s:%s %s:", from.Name, d.file, to.Name)
		cp := exec.CommandContext(w.t.Context(), "cp", "--sparse=always", from.Path(d.file), to.Path(d.file))
		out, err := cp.CombinedOutput()
		if err != nil {
			err = fmt.Errorf("%w: %s", err, out)
		}
		w.done("scp", err)
	}
}
