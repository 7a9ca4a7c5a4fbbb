package soak

import (
	"slices"
	"strings"
)

// What people tune by hand, and what their backup tools do to disks.

func tuningByHand() moveList {
	return moveList{
		on("tune", 6, persistent, tune),
		on("change-media", 1, hasDrive, func(w *world, v *vm) {
			args := draw(w, "medium", []string{"--eject"}, []string{"--insert", w.image(v, "hand.raw")})
			w.hand(v, "change-media", draw(w, "drive", w.targets(v, "cdrom")...), args, w.where(v))
		}),
		on("domif-setlink", 2, hasNIC, func(w *world, v *vm) {
			w.hand(v, "domif-setlink", draw(w, "mac", w.macs(v)...), draw(w, "link", "up", "down"), some(w, "--config"))
		}),
		on("domiftune", 1, hasNIC, func(w *world, v *vm) {
			w.hand(v, "domiftune", draw(w, "mac", w.macs(v)...), "--inbound", draw(w, "rate", "1000", "0"), w.liveOrConfig(v))
		}),
		on("attach-device", 2, persistent, func(w *world, v *vm) { w.device(v, "attach-device") }),
		on("detach-device", 1, persistent, func(w *world, v *vm) { w.device(v, "detach-device") }),
		on("detach-device-alias", 1, persistent, func(w *world, v *vm) {
			w.hand(v, "detach-device-alias", draw(w, "alias", "ua-disk-data", "ua-net-lan", "ua-disk-scratch"), w.where(v))
		}),
		on("blockresize", 2, both(running, persistent), func(w *world, v *vm) {
			w.hand(v, "blockresize", "vda", draw(w, "size", "17M", "20M"))
		}),
		on("blockpull", 2, overlaid, func(w *world, v *vm) { w.hand(v, "blockpull", "vda", "--wait") }),
		on("backup-begin", 1, files, func(w *world, v *vm) {
			if w.hand(v, "backup-begin") && chance(w, "aborted", 2) {
				w.hand(v, "domjobabort")
			}
		}),
		on("internal snapshot", 2, both(persistent, owner), func(w *world, v *vm) {
			v.may.pause = true
			flags := some(w, "--halt", "--atomic")
			if slices.Contains(flags, "--halt") {
				w.stopped(v)
			}
			w.hand(v, "snapshot-create-as", "inside", flags)
		}),
		on("snapshot-revert", 1, both(persistent, owner), revert),
		on("snapshot-delete", 2, both(persistent, owner), func(w *world, v *vm) {
			w.hand(v, "snapshot-delete", "--current", some(w, "--metadata", "--children"))
		}),
		on("checkpoint", 1, both(running, persistent), func(w *world, v *vm) { w.hand(v, "checkpoint-create-as", "point") }),
		on("checkpoint-delete", 2, persistent, func(w *world, v *vm) {
			w.hand(v, "checkpoint-delete", "point", some(w, "--metadata"))
		}),
	}
}

// owner says that the first disk of a VM was made with it.
func owner(_ *world, v *vm) bool    { return v.guest && v.export == "" && v.local == "" }
func hasNIC(w *world, v *vm) bool   { return persistent(w, v) && len(w.macs(v)) > 0 }
func hasDrive(w *world, v *vm) bool { return persistent(w, v) && len(w.targets(v, "cdrom")) > 0 }

// tune changes what a VM may use of its host, or what becomes of it.
func tune(w *world, v *vm) {
	how := strings.Fields(draw(w, "tune", "vcpupin --vcpu 0 --cpulist 0", "emulatorpin --cpulist 0-1",
		"schedinfo --set cpu_shares=512", "memtune --hard-limit 1G", "blkiotune --weight 300", "numatune --nodeset 0",
		"iothreadadd --id 7", "iothreaddel --id 7", "set-lifecycle-action crash preserve", "setvcpu 1 --disable",
		"guestvcpus --cpulist 0 --enable", "domtime --sync", "domblkthreshold vda 8M", "perf --enable cpu_clock"))
	args := how[1:]
	switch how[0] {
	case "guestvcpus", "domtime", "domblkthreshold":
	default:
		args = slices.Concat(args, w.liveOrConfig(v))
	}
	w.hand(v, how[0], args)
}

// liveOrConfig draws to which of its definitions a VM is tuned.
func (w *world) liveOrConfig(v *vm) []string {
	if !running(w, v) {
		return []string{"--config"}
	}
	return some(w, "--live", "--config")
}

// device attaches or detaches a device that is written as XML.
func (w *world) device(v *vm, verb string) {
	xml := draw(w, "device", "<rng model='virtio'><backend model='random'>/dev/urandom</backend></rng>",
		"<channel type='null'><target type='virtio' name='by.hand'/></channel>",
		"<watchdog model='i6300esb' action='none'/>", "<input type='mouse' bus='virtio'/>",
		"<interface type='user'><mac address='"+mac+"03'/><model type='virtio'/></interface>")
	const script = `f=$(mktemp); printf %s "$1" >"$f"; shift; virsh -q "$@" "$f"; s=$?; rm -f "$f"; exit $s`
	args := append([]string{verb, v.uuid}, w.where(v)...)
	w.say("%s$ virsh %s: %s", w.at(v), strings.Join(args, " "), xml)
	_, err := w.ask(w.lab.Host(w.at(v)), "bash", append([]string{"-c", script, "device", xml}, args...)...)
	w.done(verb, err)
}

// revert takes a VM back to what it was: what its guest wrote since is given up on purpose.
func revert(w *world, v *vm) {
	v.may.pause, v.may.stop, v.may.restart = true, true, true
	if w.hand(v, "snapshot-revert", "--current", some(w, "--running", "--paused", "--force")) {
		v.number = 0
	}
}

// macs are the addresses of a VM's interfaces.
func (w *world) macs(v *vm) []string {
	var macs []string
	for _, m := range w.sights[v.uuid].defined[w.at(v)].FindElements("devices/interface/mac") {
		macs = append(macs, m.SelectAttrValue("address", ""))
	}
	return macs
}

// targets are the names of a VM's drives of a kind.
func (w *world) targets(v *vm, device string) []string {
	var targets []string
	for _, d := range w.sights[v.uuid].defined[w.at(v)].FindElements("devices/disk[@device='" + device + "']/target") {
		targets = append(targets, d.SelectAttrValue("dev", ""))
	}
	return targets
}
