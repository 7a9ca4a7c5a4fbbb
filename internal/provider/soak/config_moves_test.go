package soak

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"

	"pgregory.net/rapid"
)

// Moves of the configuration. Most are applied at once, some are left for later.

func configMoves() moveList {
	return moveList{
		on("memory", 3, managed, setting("memory", `{ size = "128Mi" }`, `{ size = "160Mi" }`, `{ size = "144Mi" }`,
			`{ size = "96Mi" }`, `{ size = "128Mi", max_size = "1Gi" }`)),
		on("cpu", 2, managed, setting("cpu", "{ vcpus = 1 }", "{ vcpus = 2 }", "{ sockets = 1, max_sockets = 2 }",
			"{ sockets = 2, max_sockets = 2 }", `{ mode = "maximum" }`)),
		on("update policy", 3, managed, setting("update_policy", "", `"Live"`, `"Restart"`, `"Stage"`)),
		on("run strategy", 4, managed, setting("run_strategy", "", `"Always"`, `"Halted"`, `"Manual"`,
			`"RerunOnFailure"`, `"Once"`)),
		on("labels", 1, managed, setting("labels", "", `{ app = "web" }`, `{ app = "web", tier = "" }`, `{ b = null }`)),
		on("words", 1, managed, setting("title", "", `"A title"`, `""`, `" blanks "`)),
		on("description", 1, managed, setting("description", "", `"What it is for.\n"`, `""`)),
		on("eviction strategy", 1, managed, setting("eviction_strategy", "", `"LiveMigrate"`, `"None"`)),
		on("protection", 1, managed, setting("deletion_protection", "", "true", "false")),
		on("migration options", 3, managed, setting("migration_options", "",
			`{ copy_storage = "full", keep_source_disks = false }`, `{ copy_storage = "full" }`,
			`{ allow_post_copy = true }`, `{ transport = "ssh_relay" }`)),
		on("guest agent", 1, managed, setting("guest_agent", "", "{ enabled = true }", "{ enabled = false }")),
		on("devices", 2, managed, setting("devices", "", `{ watchdog = { model = "i6300esb", action = "none" } }`,
			`{ rng = { model = "none" } }`, `{ rng = { rate_bytes = 1024 } }`, `{ consoles = { a = { type = "null" } } }`,
			`{ consoles = {} }`)),
		on("devices as XML", 1, managed, setting("extra_device_xml", "", `{ hub = "<hub type='usb'/>" }`,
			`{ other = "<hub type='usb'></hub>" }`)),
		on("arguments for QEMU", 1, managed, setting("qemu_commandline", "", `{ env = { A = "b" } }`, `{ env = {} }`)),
		on("events", 1, managed, setting("platform", "", `{ events = { on_crash = "preserve" } }`,
			`{ events = { on_crash = "destroy" } }`)),
		on("kernel words", 2, guests, kernelWords),
		on("host", 9, managed, pin),
		on("disk", 5, managed, disk),
		on("rename disk", 2, managed, renameDisk),
		on("grow a disk", 2, managed, grow),
		on("interface", 5, managed, nic),
		on("rename interface", 2, managed, renameNIC),
		on("rename", 2, managed, rename),
	}
}

func guests(w *world, v *vm) bool { return v.guest && managed(w, v) }

// setting changes an attribute to one of some values; "" removes it.
func setting(attribute string, values ...string) func(*world, *vm) {
	return func(w *world, v *vm) {
		value := draw(w, attribute, values...)
		// Half of the time the policy that lets the change be applied comes with it.
		if attribute != "update_policy" && rapid.Bool().Draw(w.r, "with Restart") {
			w.change(v, "update_policy", `"Restart"`)
		}
		w.change(v, attribute, value)
		w.applySoon(v)
	}
}

func (w *world) change(v *vm, attribute, value string) {
	if v.guest && attribute == "memory" && value == `{ size = "96Mi" }` {
		value = `{ size = "144Mi" }`
	}
	w.say("%s.%s = %s", v.key, attribute, or(value, "(removed)"))
	if v.attributes[attribute] = value; value == "" && attribute != "memory" {
		delete(v.attributes, attribute)
	}
}

// applySoon applies, most of the time.
func (w *world) applySoon(v *vm) {
	if !chance(w, "later", 5) && v.state >= 0 {
		w.apply(v.state)
	}
}

func kernelWords(w *world, v *vm) {
	w.change(v, "kernel", w.kernel(draw(w, "words", "", "one", "two ", "one  two")))
	w.applySoon(v)
}

// pin moves a VM to a host, or lets it be where it is.
func pin(w *world, v *vm) {
	value := ""
	if !chance(w, "unpinned", 4) {
		value = fmt.Sprintf("%q", w.host("host").Name)
	}
	w.change(v, "host", value)
	w.applySoon(v)
}

// disk adds a disk, or removes one that isn't the first.
func disk(w *world, v *vm) {
	key := draw(w, "key", "data", "logs", "scratch", "empty")
	if v.disks = maps.Clone(v.disks); v.disks[key] != "" {
		delete(v.disks, key)
		w.say("%s.disks.%s is removed", v.key, key)
		w.applySoon(v)
		return
	}
	switch key {
	case "scratch":
		v.disks[key] = draw(w, "scratch", `{ pool = "default", size = "1Mi" }`, `{ pool = "default", size = "2Mi" }`)
	case "empty":
		v.disks[key] = `{ device = "cdrom", bus = "sata" }`
	default:
		v.disks[key] = nbd(w.export(v.key + "-" + key))
		if chance(w, "serial", 3) {
			v.disks[key] = v.disks[key][:len(v.disks[key])-1] + `, serial = "S1" }`
		}
	}
	w.say("%s.disks.%s = %s", v.key, key, v.disks[key])
	w.applySoon(v)
}

// renameDisk calls a disk something else in the configuration.
func renameDisk(w *world, v *vm) {
	keys := slices.Sorted(maps.Keys(v.disks))
	key := draw(w, "key", keys...)
	other := map[string]string{rootKey: otherRootKey, otherRootKey: rootKey, "data": "more", "more": "data"}[key]
	if other == "" || v.disks[other] != "" {
		w.say("# nothing to rename")
		return
	}
	if is := w.diskInState(v, key); sized.MatchString(v.disks[key]) && is != nil &&
		fmt.Sprint(is["size"]) != sized.FindStringSubmatch(v.disks[key])[1]+"Mi" {
		w.say("# it has to grow first: with another key and another size it would be another disk")
		return
	}
	v.disks = maps.Clone(v.disks)
	v.disks[other] = v.disks[key]
	delete(v.disks, key)
	w.say("%s.disks.%s is called %s", v.key, key, other)
	w.applySoon(v)
}

var sized = regexp.MustCompile(`size = "(\d+)Mi"`)

// grow gives a disk that was made with the VM another size. A smaller one is refused, and taken back.
func grow(w *world, v *vm) {
	for _, key := range slices.Sorted(maps.Keys(v.disks)) {
		was := sized.FindStringSubmatch(v.disks[key])
		if was == nil {
			continue
		}
		if v.uuid != "" && w.diskInState(v, key) == nil {
			w.say("# it has to be made or renamed first")
			return
		}
		size, err := strconv.Atoi(was[1])
		if err != nil {
			w.t.Fatal(err)
		}
		by := draw(w, "by", 1, 2, -1)
		size += by
		before := v.disks
		v.disks = maps.Clone(v.disks)
		v.disks[key] = sized.ReplaceAllString(v.disks[key], fmt.Sprintf(`size = "%dMi"`, max(size, 1)))
		w.say("%s.disks.%s = %s", v.key, key, v.disks[key])
		w.applySoon(v)
		if by < 0 {
			v.disks = before
			w.say("%s.disks.%s = %s", v.key, key, v.disks[key])
		}
		return
	}
	w.say("# nothing to grow")
}

// diskInState is a disk of a VM as the last apply or refresh left it, nil if there is none.
func (w *world) diskInState(v *vm, key string) map[string]any {
	attributes, _ := w.cli[v.state].State(w.t, v.address())
	disks, _ := attributes["disks"].(map[string]any)
	is, _ := disks[key].(map[string]any)
	return is
}

// renameNIC calls an interface something else in the configuration.
func renameNIC(w *world, v *vm) {
	keys := slices.Sorted(maps.Keys(v.nics))
	if len(keys) == 0 {
		w.say("# nothing to rename")
		return
	}
	key := draw(w, "key", keys...)
	other := map[string]string{"lan": "wan", "wan": "lan", "dmz": "zone", "zone": "dmz"}[key]
	if other == "" || v.nics[other] != "" {
		w.say("# nothing to rename")
		return
	}
	v.nics = maps.Clone(v.nics)
	v.nics[other] = v.nics[key]
	delete(v.nics, key)
	w.say("%s.interfaces.%s is called %s", v.key, key, other)
	w.applySoon(v)
}

// nic adds an interface, changes or removes one.
func nic(w *world, v *vm) {
	key := draw(w, "key", "lan", "dmz", "mgmt")
	if v.nics = maps.Clone(v.nics); v.nics == nil {
		v.nics = map[string]string{}
	}
	value := draw(w, "interface", "{ user = true }", `{ bridge = "br-lab" }`, `{ network = "default" }`,
		`{ user = true, model = "e1000" }`, `{ bridge = "br-lab", link_up = false }`, "")
	w.say("%s.interfaces.%s = %s", v.key, key, or(value, "(removed)"))
	if v.nics[key] = value; value == "" {
		delete(v.nics, key)
	}
	w.applySoon(v)
}

// rename calls the VM something else.
func rename(w *world, v *vm) {
	name := w.prefix + "-" + v.key
	if v.name == name {
		name += "2"
	}
	w.say("%s.name = %q", v.key, name)
	v.name = name
	w.applySoon(v)
}
