package soak

import (
	"fmt"
	"slices"
)

// What people do to the devices of a VM by hand.

// mac is what NICs that are attached by hand begin with.
const mac = "52:54:00:5a:00:"

func deviceByHand() moveList {
	return moveList{
		on("attach-disk", 2, persistent, attachDisk),
		// Never the first one: what is on it isn't lost, but its guest has nothing to write to.
		on("detach-disk", 2, persistent, func(w *world, v *vm) {
			w.hand(v, "detach-disk", draw(w, "target", "vdb", "vdc", "vdy"), w.where(v))
		}),
		on("attach-interface", 2, persistent, func(w *world, v *vm) {
			w.hand(v, "attach-interface", "--type", "bridge", "--source", "br-lab", "--model", "virtio", "--mac",
				mac+draw(w, "mac", "01", "02"), w.where(v))
		}),
		on("detach-interface", 2, persistent, func(w *world, v *vm) {
			w.hand(v, "detach-interface", "--type", "bridge", "--mac", mac+draw(w, "mac", "01", "02"), w.where(v))
		}),
		on("setmem", 2, persistent, func(w *world, v *vm) {
			w.hand(v, "setmem", draw(w, "size", "112M", "128M", "120M"), some(w, "--live", "--config"))
		}),
		on("setmaxmem", 1, persistent, func(w *world, v *vm) {
			w.hand(v, "setmaxmem", draw(w, "size", "128M", "160M"), "--config")
		}),
		on("setvcpus", 2, persistent, func(w *world, v *vm) {
			w.hand(v, "setvcpus", draw(w, "count", "1", "2"), draw(w, "where", "--live", "--config"), some(w, "--maximum"))
		}),
		on("blkdeviotune", 1, both(running, persistent), func(w *world, v *vm) {
			w.hand(v, "blkdeviotune", "vda", "--total-iops-sec", "500", some(w, "--config"))
		}),
		on("snapshot", 6, files, snapshot),
		on("blockcommit", 3, overlaid, func(w *world, v *vm) {
			if w.hand(v, "blockcommit", "vda", "--active", "--pivot", "--wait") {
				v.overlays = 0
			}
		}),
		on("blockcopy", 4, files, func(w *world, v *vm) {
			v.overlays++
			w.hand(v, "blockcopy", "vda", w.image(v, fmt.Sprintf("copy%d.raw", v.overlays)), "--format", "raw", "--wait",
				"--pivot", "--transient-job")
		}),
	}
}

// ofFile says that the first disk of a VM is a file.
func ofFile(_ *world, v *vm) bool   { return v.guest && v.export == "" }
func files(w *world, v *vm) bool    { return running(w, v) && persistent(w, v) && ofFile(w, v) }
func overlaid(w *world, v *vm) bool { return running(w, v) && v.overlays > 0 }
func (w *world) dir() string        { return "/var/lib/libvirt/images/" + w.prefix }
func (w *world) image(v *vm, name string) string {
	return fmt.Sprintf("%s-%s-%s", w.dir(), v.key, name)
}

// where draws to which of its definitions something is done.
func (w *world) where(v *vm) []string {
	if !running(w, v) {
		return some(w, "--config", "--persistent")
	}
	return some(w, "--live", "--config", "--persistent")
}

func attachDisk(w *world, v *vm) {
	path := w.image(v, "hand.raw")
	if _, err := w.ask(w.lab.Host(w.at(v)), "qemu-img", "create", "-q", "-f", "raw", path, "1M"); err != nil {
		w.done("qemu-img", err)
		return
	}
	w.hand(v, "attach-disk", path, "vdy", "--subdriver", "raw", w.where(v))
}

// snapshot makes an external snapshot of the first disk, as backup tools do.
func snapshot(w *world, v *vm) {
	v.overlays++
	name := fmt.Sprintf("snap%d", v.overlays)
	args := []string{name, "--disk-only", "--diskspec", "vda,file=" + w.image(v, name+".qcow2")}
	for _, d := range sources(w.sights[v.uuid].live[w.at(v)]) {
		if d.target != "vda" {
			args = append(args, "--diskspec", d.target+",snapshot=no")
		}
	}
	w.hand(v, "snapshot-create-as", slices.Concat(args, some(w, "--no-metadata", "--atomic")))
}
