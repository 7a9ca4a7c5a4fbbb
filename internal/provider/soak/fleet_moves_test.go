package soak

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Moves of what a configuration says about the fleet: its hosts, its policies, and orders to move a VM.

func fleetMoves() moveList {
	return moveList{
		{name: "host's settings", weight: 2, do: hostSettings},
		{name: "silent hosts", weight: 1, do: func(w *world) {
			w.silence = draw(w, "on_unreachable", "", `on_unreachable = "keep"`, `on_unreachable = "error"`)
			w.say("provider: %s", or(w.silence, "on_unreachable is removed"))
		}},
		{name: "eviction policy", weight: 2, do: policy("virtfleet_eviction_policy", `strategy = "LiveMigrate"`,
			`strategy = "LiveMigrateIfPossible", fallback = "Save"`, `strategy = "LiveMigrate", fallback = "ColdMigrate"`,
			`strategy = "LiveMigrate", fallback = "Shutdown", on_cancel = "finish"`, `strategy = "None"`,
			`strategy = "External", timeout = "5s"`, `strategy = "LiveMigrate", selector = { labels = { app = "web" } }`)},
		{name: "migration policy", weight: 2, do: policy("virtfleet_migration_policy",
			`migration_options = { bandwidth = "500Mi" }`, `migration_options = { allow_post_copy = true }`,
			`migration_options = { copy_storage = "full" }`, `migration_options = { compression = "zlib" }`,
			`migration_options = { transport = "ssh_relay" }, selector = { labels = { app = "web" } }`)},
		on("placement", 2, managed, setting("placement", "", `{ host_labels = { zone = "b" } }`,
			`{ host_labels = { zone = "nowhere" } }`, `{ anti_affinity = { labels = { app = "web" } } }`,
			`{ anti_affinity = { labels = { app = "web" }, required = true } }`)),
		on("order a migration", 6, both(managed, known), order),
	}
}

// zones are the labels of the hosts.
var zones = []string{"a", "b", "c"}

// hostSettings changes what the provider is told about a host.
func hostSettings(w *world) {
	h := w.host("host")
	w.settings = maps.Clone(w.settings)
	w.settings[h.Name] = draw(w, "settings", "", "schedulable = false", `memory_limit = "600Mi"`, `memory_reserve = "1Gi"`)
	w.say("provider: %s: %s", h.Name, or(w.settings[h.Name], "(nothing)"))
	w.apply(draw(w, "state", 0, 1))
}

// policy declares the fleet's policy of a kind in the first state, or removes it.
func policy(kind string, bodies ...string) func(*world) {
	return func(w *world) {
		w.policies = maps.Clone(w.policies)
		if _, there := w.policies[kind]; there && chance(w, "removed", 2) {
			delete(w.policies, kind)
			w.say("%s is removed", kind)
		} else {
			w.policies[kind] = draw(w, "policy", bodies...)
			w.say("%s: %s", kind, w.policies[kind])
		}
		w.apply(0)
	}
}

// order declares a virtfleet_migration of a VM and applies it; most are withdrawn afterwards.
func order(w *world, v *vm) {
	if v.uuid == "" {
		return
	}
	w.orders = maps.Clone(w.orders)
	target := ""
	if !chance(w, "best", 3) {
		target = fmt.Sprintf("\n  target_host = %q", w.host("target").Name)
	}
	o := migrationOrder{state: v.state, body: fmt.Sprintf("  virtual_machine_id = %q%s\n  triggers = { move = %q }\n",
		v.uuid, target, fmt.Sprint(w.moves))}
	w.orders[v.key] = o
	w.say("state %d orders a migration of %s:%s", o.state, v.key, strings.ReplaceAll(target, "\n", ""))
	if w.apply(o.state) && !chance(w, "withdrawn", 2) {
		return
	}
	w.orders = maps.Clone(w.orders)
	delete(w.orders, v.key)
	w.say("the migration of %s is withdrawn", v.key)
	w.apply(o.state)
}

// migrationOrder is a virtfleet_migration in the configuration of a state.
type migrationOrder struct {
	state int
	body  string
}

// fleetHCL are the resources of a state that are about the fleet.
func (w *world) fleetHCL(state int) string {
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(w.orders)) {
		if o := w.orders[key]; o.state == state {
			fmt.Fprintf(&b, "resource \"virtfleet_migration\" %q {\n%s}\n", key, o.body)
		}
	}
	if state != 0 {
		return b.String()
	}
	for _, kind := range slices.Sorted(maps.Keys(w.policies)) {
		body := strings.ReplaceAll(w.policies[kind], ", selector", "\n  selector")
		body = strings.ReplaceAll(body, "\", ", "\"\n  ")
		fmt.Fprintf(&b, "resource %q \"all\" {\n  name = %q\n  %s\n}\n", kind, w.prefix, body)
	}
	for _, h := range w.hosts {
		if more, under := w.upkeep[h.Name]; under {
			fmt.Fprintf(&b, "resource \"virtfleet_host_maintenance\" %q {\n  host = %q\n", h.Name, h.Name)
			fmt.Fprintf(&b, "  timeouts = { create = \"90s\" }\n%s}\n", more)
		}
	}
	return b.String()
}

// plain takes back what the configuration says of the fleet.
func (w *world) plain() {
	w.upkeep, w.settings, w.policies = map[string]string{}, map[string]string{}, map[string]string{}
	w.orders, w.silence = map[string]migrationOrder{}, ""
}
