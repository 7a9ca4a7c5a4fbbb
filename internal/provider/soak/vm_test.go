package soak

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

const (
	typeName = "virtfleet_virtual_machine"
	// rootKey is the key of a VM's first disk, otherRootKey what that may be called instead. The keys of other disks come
	// after both in the alphabet, so that the disk is vda of a VM that is created again with all its disks.
	rootKey, otherRootKey = "base", "boot"
	// rootSize is what a guest takes for its first disk; all others are smaller.
	rootSize = 16 << 20
)

// vm is a VM of the configuration, and what was seen of it.
type vm struct {
	// key is its address in the configuration, name what libvirt calls it, uuid what it is.
	key, name, uuid string
	// state is the state that it is in, -1 none.
	state int
	// guest says that it boots one, which writes to its disk.
	guest bool
	// export is the NBD export of its first disk, "" if it has a file, local its path then. Both are "" for a VM whose
	// disk is its own.
	export, local string
	// aside is the file that has what the guest wrote last in place of the declared one, of a VM that a plan destroys.
	aside string
	// warned says that the plan which creates it again says that hosts have different files of its disk.
	warned bool
	// newest is the host that had the disk with all that the guest wrote, when the VM went with its definition.
	newest      string
	attributes  map[string]string
	disks, nics map[string]string

	seen
}

// seen is what is expected of a VM because it was seen before.
type seen struct {
	// home is the host that it ran on last, or was defined on.
	home string
	// ran says that it ran when it was last looked at, paused that it was paused then.
	ran, paused bool
	// boot is the boot of the guest, "" if another one may follow.
	boot string
	// number is the highest that it ever wrote.
	number int
	// overlays counts the images that its first disk was put into by hand.
	overlays int
	// may is what the move that is made may do to it.
	may may
	// asked says that its guest was asked to shut down or to reboot, and has done neither yet. It may do so at any time:
	// a guest that is busy, or that has yet to boot, does it after the move.
	asked bool
	// imported says that it was imported and not applied since: Terraform doesn't know yet which of its values are
	// those of sensitive variables, and a destroy prints them.
	imported bool
	// cut says that a run that may have moved it was killed. If that was at the handover, it is paused until the next
	// apply.
	cut bool
	// unread says why its disk can't be read from outside.
	unread string
}

// address is where it is in the state.
func (v *vm) address() string { return typeName + "." + v.key }

// hcl is its resource.
func (v *vm) hcl() string {
	var b strings.Builder
	fmt.Fprintf(&b, "resource %q %q {\n  name = %q\n  type = \"qemu\"\n", typeName, v.key, v.name)
	for _, k := range slices.Sorted(maps.Keys(v.attributes)) {
		fmt.Fprintf(&b, "  %s = %s\n", k, v.attributes[k])
	}
	for block, of := range map[string]map[string]string{"disks": v.disks, "interfaces": v.nics} {
		if of == nil {
			continue
		}
		fmt.Fprintf(&b, "  %s = {\n", block)
		for _, k := range slices.Sorted(maps.Keys(of)) {
			fmt.Fprintf(&b, "    %s = %s\n", k, of[k])
		}
		b.WriteString("  }\n")
	}
	b.WriteString("}\n")
	return b.String()
}

func nbd(e *lab.Export) string {
	return fmt.Sprintf(`{ network = { protocol = "nbd", name = %q, hosts = [%q] }, cache = "none" }`, e.Name, e.Address())
}

// cmdline is the kernel's, with a word that must not be printed.
func cmdline(words string) string {
	return fmt.Sprintf(`"%s beat %s token=${var.token}"`, lab.GuestCmdline, words)
}

func (w *world) kernel(words string) string {
	return fmt.Sprintf("{ path = %q, initrd = %q, cmdline = %s }", w.lab.KernelPath(), w.lab.InitrdPath(), cmdline(words))
}

// newVMs are a guest that can move at will, one whose disk is its own, one with a file that only its host has, a VM
// without a guest, and in the other state one that is only defined.
func (w *world) newVMs() {
	guest := map[string]string{
		"memory": `{ size = "128Mi" }`, "kernel": w.kernel(""), "guest_agent": "{ enabled = true }",
		"termination_grace_period": `"60s"`,
	}
	empty := map[string]string{"memory": `{ size = "64Mi" }`, "termination_grace_period": `"0s"`}
	add := func(v *vm, attributes map[string]string, more ...string) {
		v.name, v.attributes = w.prefix+"-"+v.key, maps.Clone(attributes)
		for i := 0; i < len(more); i += 2 {
			v.attributes[more[i]] = more[i+1]
		}
		w.vms = append(w.vms, v)
	}
	net := w.lab.NBD(w.t, w.prefix+"-net", rootSize)
	add(&vm{key: "net", guest: true, export: net.Name, disks: map[string]string{rootKey: nbd(net)}}, guest)
	add(&vm{key: "own", guest: true, disks: map[string]string{rootKey: `{ pool = "default", size = "16Mi" }`}}, guest)
	local := w.lab.Image(w.t, w.hosts[0].Name, w.prefix+"-local.raw", "raw", rootSize)
	add(&vm{
		key: "local", guest: true, local: local,
		disks: map[string]string{rootKey: fmt.Sprintf(`{ file = %q, format = "raw", cache = "none" }`, local)},
	}, guest, "host", fmt.Sprintf("%q", w.hosts[0].Name))
	light := w.lab.NBD(w.t, w.prefix+"-light", 1<<20)
	add(&vm{key: "light", disks: map[string]string{rootKey: nbd(light)}}, empty)
	other := w.lab.NBD(w.t, w.prefix+"-other", 1<<20)
	add(&vm{key: "other", state: 1, disks: map[string]string{rootKey: nbd(other)}}, empty, "run_strategy", `"Halted"`)
}
