package soak

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

// Moves of states: what is planned, who has what, and hosts that are drained.

func stateMoves() moveList {
	return moveList{
		{name: "plan", weight: 4, do: func(w *world) { w.plan(draw(w, "state", 0, 0, 1)) }},
		{name: "apply", weight: 16, do: func(w *world) { w.apply(draw(w, "state", 0, 0, 0, 1)) }},
		{name: "refresh", weight: 2, do: func(w *world) {
			state := draw(w, "state", 0, 1)
			w.write(state)
			w.say("terraform apply -refresh-only # state %d", state)
			_, _ = w.run(state, "apply", "-refresh-only")
		}},
		on("state rm", 3, both(managed, known), stateRemove),
		on("import", 8, lost, imported),
		on("taint", 1, both(managed, known), taint),
		on("replace", 1, both(managed, known), replace),
		on("destroy", 1, both(managed, known), destroyed),
		{name: "maintenance", weight: 4, do: maintenance},
		on("twin", 2, managed, twin),
		{name: "heed", weight: 25, able: func(w *world) bool { return !w.fault && len(w.advice) > 0 }, do: heed},
	}
}

func stateRemove(w *world, v *vm) {
	w.say("terraform state rm %s # state %d", v.address(), v.state)
	if _, err := w.run(v.state, "state", "rm", v.address()); err == nil {
		v.state = -1
	}
}

// imported takes a VM that no state has into one.
func imported(w *world, v *vm) {
	v.state = draw(w, "state", 0, 1)
	w.write(v.state)
	id := draw(w, "id", v.uuid, v.name)
	w.say("terraform import %s %s # state %d", v.address(), id, v.state)
	if _, err := w.run(v.state, "import", v.address(), id); err != nil {
		v.state = -1
		return
	}
	w.adopt(v.state)
	v.imported = true
	w.applySoon(v)
}

func taint(w *world, v *vm) {
	w.say("terraform taint %s # state %d", v.address(), v.state)
	if _, err := w.run(v.state, "taint", v.address()); err != nil {
		return
	}
	if chance(w, "untaint", 3) {
		w.say("terraform untaint %s # state %d", v.address(), v.state)
		_, _ = w.run(v.state, "untaint", v.address())
	}
	w.applySoon(v)
}

func replace(w *world, v *vm) { w.apply(v.state, "-replace="+v.address()) }

// destroyed removes a VM from the configuration, applies, and declares it again.
func destroyed(w *world, v *vm) {
	state := v.state
	v.state = -1
	w.say("%s is removed from the configuration", v.key)
	w.apply(state)
	v.state = state
	w.say("%s is declared again", v.key)
}

// maintenance drains a host, or ends that.
func maintenance(w *world) {
	h := w.host("host")
	w.upkeep = maps.Clone(w.upkeep)
	if _, under := w.upkeep[h.Name]; under && !chance(w, "changed", 4) {
		delete(w.upkeep, h.Name)
		w.say("the maintenance of %s is removed", h.Name)
	} else {
		w.upkeep[h.Name] = draw(w, "maintenance", "", "restore = true\n", "move_stopped = true\n",
			"restore = true\nmove_stopped = true\n")
		w.say("maintenance of %s: %s", h.Name, w.upkeep[h.Name])
	}
	w.apply(0)
}

// twin declares a VM of one name, or with one writable disk, in the other state, and takes it back. It is refused while
// the first one is there.
func twin(w *world, v *vm) {
	if v.export == "" {
		w.say("# its disk is its own")
		return
	}
	other := *v
	other.attributes, other.seen, other.uuid = maps.Clone(v.attributes), seen{}, ""
	delete(other.attributes, "host")
	other.key, other.state = "twin", 1-v.state
	if draw(w, "twin", "name", "disk") == "disk" {
		other.name += "-twin"
		other.attributes["run_strategy"] = `"Always"`
	}
	other.guest = false
	w.vms = append(slices.Clone(w.vms), &other)
	w.say("state %d declares %s with the disk of %s", other.state, other.name, v.name)
	w.apply(other.state)
	w.check(" by a twin")
	w.advice = nil
	state := other.state
	other.state = -1
	w.say("the twin is removed from the configuration")
	w.apply(state)
	if attributes, _ := w.cli[state].State(w.t, other.address()); attributes != nil {
		other.state = state
		return
	}
	if other.uuid == "" {
		w.vms = slices.DeleteFunc(slices.Clone(w.vms), func(v *vm) bool { return v == &other })
	}
}

// heed does what the last errors say, as people do before they continue.
func heed(w *world) {
	for _, a := range w.advice {
		switch a {
		case "Change needs a restart", "Name can't be staged":
			w.forAll(func(v *vm) { w.change(v, "update_policy", `"Restart"`) })
		case "Virtual machine resumes from saved memory":
			w.forAll(func(v *vm) {
				if off(w, v) {
					v.may.restart = true
					w.hand(v, "managedsave-remove")
				}
			})
		case "Virtual machine is protected", "Unable to delete virtual machine":
			w.forAll(func(v *vm) { w.change(v, "deletion_protection", "") })
		case "Disk was switched to another image":
			w.forAll(func(v *vm) {
				if overlaid(w, v) && w.hand(v, "blockcommit", "vda", "--active", "--pivot", "--wait") {
					v.overlays = 0
				}
			})
		case "Host can't be drained", "Unable to create host maintenance":
			w.say("all maintenances and policies are removed")
			w.plain()
		default:
			w.plain()
			w.say("all wishes are given up that are about hosts and devices")
			w.forAll(func(v *vm) {
				for _, a := range []string{
					"host", "placement", "devices", "platform", "cpu", "migration_options", "run_strategy",
				} {
					delete(v.attributes, a)
				}
				v.attributes["memory"], v.nics = `{ size = "160Mi" }`, nil
				// The hosts may have different files of its disk.
				if at := cmp.Or(v.home, v.newest); v.local != "" && a == "No host can take the VM" && at != "" {
					v.attributes["host"] = fmt.Sprintf("%q", at)
				}
			})
		}
	}
	w.advice = nil
	for state := range w.cli {
		w.apply(state)
	}
}

func (w *world) forAll(do func(*vm)) {
	for _, v := range w.vms {
		if v.state >= 0 {
			do(v)
		}
	}
}

// export is a small disk for all hosts.
func (w *world) export(name string) *lab.Export {
	full := fmt.Sprintf("%s-%s", w.prefix, name)
	if w.exports[full] == nil {
		w.exports = maps.Clone(w.exports)
		w.exports[full] = w.lab.NBD(w.t, full, 1<<20)
	}
	return w.exports[full]
}

// evening asks for a configuration without any special wishes, and then destroys it. Either may be refused; nothing may
// be lost by it.
func (w *world) evening() {
	w.begin("evening")
	w.plain()
	for _, v := range w.vms {
		if running(w, v) && v.paused {
			w.virsh(w.at(v), "resume", v.uuid)
		}
		delete(v.attributes, "deletion_protection")
		delete(v.attributes, "host")
		v.attributes["update_policy"] = `"Restart"`
	}
	w.check(" in the evening")
	for state := range w.cli {
		if !w.apply(state) {
			w.tally.refusals["(in the evening)"]++
		}
	}
	w.check(" in the evening")
	for state := range w.cli {
		var there []*vm
		for _, v := range w.vms {
			if attributes, _ := w.cli[state].State(w.t, v.address()); attributes != nil && v.state == state {
				v.may = may{true, true, true, true, true}
				there = append(there, v)
			}
		}
		w.say("terraform destroy # state %d", state)
		if text, err := w.run(state, "destroy"); err != nil && !w.destroyAnyway(state, text) {
			w.tally.refusals["(destroy in the evening)"]++
			continue
		}
		sights := w.look()
		for _, v := range there {
			if s := sights[v.uuid]; s != nil && !w.forgotten(v, s) {
				w.fail("%s was destroyed, and is on %v, defined on %v", v.name, s.processes, s.definedOn())
			}
		}
	}
	w.check(" by destroying")
}

// destroyAnyway destroys as the errors say.
func (w *world) destroyAnyway(state int, said string) bool {
	if !strings.Contains(strings.Join(strings.Fields(said), " "), "destroy -refresh=false") {
		return false
	}
	w.say("terraform destroy -refresh=false # state %d", state)
	_, err := w.run(state, "destroy", "-refresh=false")
	return err == nil
}
