package soak

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

const (
	// planPatience bounds a plan, also of hosts that don't answer; applyPatience an apply.
	planPatience  = 5 * time.Minute
	applyPatience = 8 * time.Minute
	// tidyPatience is how long what ran on a host for Terraform may take to end after it.
	tidyPatience = time.Minute
)

// lies are what no provider may say, whatever was done.
var lies = regexp.MustCompile(`(?i)Provider produced|inconsistent|unexpected new value|panic:|bug in the provider|` +
	`plugin crashed|is not as planned|nil pointer|Plugin did not respond`)

var title = regexp.MustCompile(`(?m)^[│╷ ]*Error: (.*)$`)

// goesDown is what an apply says whose time was over before a guest was off.
var goesDown = regexp.MustCompile(`still\W+shutting\W+down`)

// services are what runs on a host of the lab when it is idle.
var services = []string{"bash", "sleep", "sshd", "virtlogd", "libvirtd", "dnsmasq", "swtpm", "ps", "virtlockd"}

// apply plans and applies the configuration of a state. It tells whether nothing is left to do.
func (w *world) apply(state int, args ...string) bool {
	w.t.Helper()
	changes, text, ok := w.plan(state, args...)
	if !ok {
		return false
	}
	if !does(changes) {
		return true
	}
	w.permit(state, changes, text)
	w.tally.applies++
	w.say("terraform apply # state %d: %s", state, summary(changes))
	if said, err := w.run(state, "apply", "planned"); err != nil {
		if goesDown.MatchString(said) {
			w.cutShort()
		}
		w.adopt(state)
		return false
	}
	w.tally.applied++
	w.advice = nil
	for _, v := range w.vms {
		v.imported = v.imported && v.state != state
	}
	w.adopt(state)
	w.forgetDestroyed(state, changes)
	if !w.fault {
		w.moveEnded(state)
		w.again(state)
	}
	return true
}

// plan plans, and looks that nothing on any host has changed by it.
func (w *world) plan(state int, args ...string) (map[string]acctest.Change, string, bool) {
	w.t.Helper()
	w.write(state)
	w.tally.plans++
	before, begun := w.hostFiles(), time.Now()
	w.say("terraform plan %s # state %d", strings.Join(args, " "), state)
	changes, text, err := w.cli[state].TryPlan(w.t, args...)
	w.judge("plan", text, time.Since(begun), planPatience)
	if d := differences(before, w.hostFiles()); len(d) > 0 {
		w.fail("a plan has changed hosts:\n%s\n%s", strings.Join(d, "\n"), text)
	}
	w.left("plan", nil)
	if err != nil {
		w.refused(text)
		return nil, text, false
	}
	return changes, text, true
}

// again plans once more after an apply: there must be nothing to do.
func (w *world) again(state int) {
	w.t.Helper()
	changes, text, ok := w.plan(state)
	if !ok {
		w.fail("after an apply that succeeded the plan fails:\n%s", text)
	}
	for at, c := range changes {
		// It continues with the devices that it was saved with: which, only its next start or the saved image tells.
		if c.Before["status_reason"] == "Restored" && c.Before["restart_required"] == true {
			delete(changes, at)
		}
	}
	if does(changes) {
		w.fail("after an apply that succeeded the plan isn't empty:\n%s", text)
	}
}

// run runs a command of Terraform.
func (w *world) run(state int, args ...string) (string, error) {
	w.t.Helper()
	begun, locks := time.Now(), w.locks()
	text, err := w.cli[state].TryText(w.t, args...)
	if args[0] == "destroy" && slices.ContainsFunc(w.vms, func(v *vm) bool { return v.state == state && v.imported }) {
		text = strings.ReplaceAll(text, w.secret, "(imported)")
	}
	w.judge(args[0], text, time.Since(begun), applyPatience)
	w.left(args[0], locks)
	if err != nil {
		w.refused(text)
	}
	return text, err
}

// judge looks at what Terraform printed, and how long it took.
func (w *world) judge(command, text string, took, patience time.Duration) {
	w.t.Helper()
	if strings.Contains(text, w.secret) {
		w.fail("the %s prints the value of a sensitive variable:\n%s", command, text)
	}
	if lies.MatchString(text) {
		w.fail("the %s says what no provider may say:\n%s", command, text)
	}
	if !w.fault && strings.Contains(text, "last seen: it is Starting") {
		w.fail("the %s waited in vain for a start that nothing holds up:\n%s", command, text)
	}
	if took > patience {
		w.fail("the %s took %s:\n%s", command, took.Round(time.Second), text)
	}
}

// left looks that nothing of a command that has ended runs on, or is locked.
func (w *world) left(command string, locks map[string]string) {
	w.t.Helper()
	if w.fault {
		return // It is looked at when the host is mended.
	}
	deadline := time.Now().Add(tidyPatience)
	for {
		found := w.strangers()
		if locks != nil && !w.killed {
			for name := range w.locks() {
				if _, before := locks[name]; !before {
					found = append(found, "lock "+name)
				}
			}
		}
		if len(found) == 0 {
			return
		}
		if time.Now().After(deadline) {
			w.fail("the %s has ended and left on the hosts: %v", command, found)
		}
		<-time.After(100 * time.Millisecond)
	}
}

// strangers are processes on hosts that belong neither to them nor to a VM.
func (w *world) strangers() []string {
	var found []string
	for _, h := range w.hosts {
		for _, p := range w.processes(h) {
			session := p.name == "sshd" && !strings.Contains(p.args, "listener")
			service := slices.Contains(services, p.name) && !session &&
				(p.name != "bash" || strings.Contains(p.args, "init.sh"))
			if !service && p.uuid() == "" && !strings.HasPrefix(p.stat, "Z") {
				found = append(found, h.Name+": "+p.args)
			}
		}
	}
	return found
}

// refused counts why a command failed.
func (w *world) refused(text string) {
	titles := title.FindAllStringSubmatch(text, -1)
	if len(titles) == 0 {
		w.fail("a command failed and doesn't say why:\n%s", text)
	}
	w.advice = nil
	for _, t := range titles {
		if !slices.Contains(w.advice, t[1]) {
			w.advice = append(w.advice, t[1])
		}
		w.say("  # refused: %s", t[1])
		w.tally.refusals[t[1]]++
	}
	if testing.Verbose() {
		w.t.Log(text)
	}
}

func does(changes map[string]acctest.Change) bool {
	for _, c := range changes {
		if c.Actions != "no-op" && c.Actions != "read" {
			return true
		}
	}
	return false
}

func summary(changes map[string]acctest.Change) string {
	var out []string
	for at, c := range changes {
		if c.Actions != "no-op" {
			out = append(out, at+" "+c.Actions)
		}
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

// permit notes what a plan says that its apply does to VMs.
func (w *world) permit(state int, changes map[string]acctest.Change, text string) {
	drained := false
	for at, c := range changes {
		drained = drained || strings.HasPrefix(at, "virtfleet_host_maintenance") && c.Actions != "no-op"
	}
	for _, v := range w.vms {
		// A drain shuts down what can't be moved live, unless it is told not to.
		live := strings.Contains(text, v.name+": moves to") ||
			v.attributes["eviction_strategy"] == `"LiveMigrate"` && len(w.policies) == 0
		if drained && !live {
			v.may.restart, v.may.stop = true, true
		}
		c, planned := changes[v.address()]
		if !planned || v.state != state && v.state >= 0 {
			continue
		}
		if strings.Contains(c.Actions, "create") {
			v.warned = strings.Contains(text, "Disks are used again: "+v.name)
		}
		if strings.Contains(c.Actions, "delete") {
			v.may.vanish, v.may.undefine, v.may.stop, v.may.restart = true, true, true, true
			if v.aside = w.written(v); v.aside != "" && !strings.Contains(text, v.aside) {
				w.fail("the plan of a destroy doesn't say that what %s wrote last is in %s:\n%s", v.name, v.aside, text)
			}
		}
		if c.Actions != "update" {
			continue
		}
		before, after := fmt.Sprint(c.Before["status"]), fmt.Sprint(c.After["status"])
		restarts := strings.Contains(text, fmt.Sprintf("will be restarted: %v", c.Before["name"]))
		v.may.restart = v.may.restart || restarts || before != "Running" || after != before
		v.may.stop = v.may.stop || after == "Stopped" || restarts
	}
}

// adopt reads from a state which VM is which.
func (w *world) adopt(state int) {
	for _, v := range w.vms {
		if v.state != state {
			continue
		}
		attributes, _ := w.cli[state].State(w.t, v.address())
		if id, ok := attributes["id"].(string); ok && id != v.uuid {
			if v.uuid != "" {
				w.renewed(v)
			}
			v.uuid = id
			w.chosen(v)
		}
	}
}

// renewed forgets what was seen of a VM that was destroyed, and created again. What its disk has stays if that does. If
// its guest wrote to another file than the declared one, that file stays instead.
func (w *world) renewed(v *vm) {
	number := v.number
	if v.export == "" && v.local == "" || v.aside != "" {
		number = 0
	}
	v.aside = ""
	if v.home != "" {
		v.newest = v.home
	}
	v.seen = seen{number: number, may: v.may}
}

// written is the file that a guest writes to in place of the declared one, "" for none.
func (w *world) written(v *vm) string {
	s := w.sights[v.uuid]
	if s == nil || v.local == "" || v.number == 0 {
		return ""
	}
	at := w.at(v)
	domain := s.live[at]
	if domain == nil {
		domain = s.defined[at]
	}
	if domain == nil {
		return ""
	}
	if is, ok := root(v, domain); ok && is.file != v.local {
		return is.file
	}
	return ""
}

// chosen looks on which host a VM was created, if its disk is a file that several hosts may have. It begins with an
// older one only if the host was declared and the plan has warned, or if a host didn't answer.
func (w *world) chosen(v *vm) {
	if v.local == "" || v.newest == "" {
		return
	}
	s := w.look()[v.uuid]
	if s == nil || s.active() == v.newest || slices.Contains(s.definedOn(), v.newest) {
		return
	}
	if v.attributes["host"] != "" && v.warned || w.fault {
		w.say("  # %s begins with an older file", v.name)
		v.number = 0
	}
}

// forgetDestroyed looks that nothing is left of a VM that was destroyed.
func (w *world) forgetDestroyed(state int, changes map[string]acctest.Change) {
	sights := w.look()
	for _, v := range w.vms {
		if c, planned := changes[v.address()]; !planned || c.Actions != "delete" || v.uuid == "" {
			continue
		}
		if attributes, _ := w.cli[state].State(w.t, v.address()); attributes != nil {
			continue
		}
		if s := sights[v.uuid]; s != nil && !w.forgotten(v, s) {
			w.fail("%s was destroyed, and is on %v, defined on %v", v.name, s.processes, s.definedOn())
		}
		w.renewed(v)
		v.uuid = ""
	}
}

// tree reads the files below a directory, or only their names. A file that goes meanwhile isn't there.
func tree(t *testing.T, dir string, contents bool) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		name := strings.TrimPrefix(path, dir+"/")
		if files[name] = ""; !contents || e.Type() != 0 {
			return nil
		}
		data, err := os.ReadFile(path)
		files[name] = string(data)
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return files
}
