package hostmaintenance_test

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// awaitCopying waits until an apply has the slow VM's memory on its way.
func (p *pair) awaitCopying(t *testing.T, apply *acctest.Running) {
	t.Helper()
	apply.AwaitCopying(t, p.l, p.from.Name, p.prefix+"-slow")
}

// hurry lets every migration of the slow VM come to its end, until apply has.
func (p *pair) hurry(t *testing.T, apply *acctest.Running) {
	t.Helper()
	for tick := time.NewTicker(500 * time.Millisecond); ; {
		select {
		case <-apply.Done():
			return
		case <-tick.C: // There may be none just now, which both say.
			_, _ = p.l.TryVirsh(t, p.from.Name, "migrate-setmaxdowntime", p.prefix+"-slow", "2000")
			_, _ = p.l.TryVirsh(t, p.from.Name, "migrate-setspeed", p.prefix+"-slow", "8192")
		}
	}
}

// TestAccHostMaintenance_connectionCut: the drained host's SSH server is gone for some seconds in the middle of it, and
// with it every connection. The VM that was on its way isn't harmed, and the same apply continues with it: that a
// host can't be seen for a while doesn't mean that given steps no longer hold.
func TestAccHostMaintenance_connectionCut(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.defineVM(t, "slow", "dirty=16 data", "")
	p.defineVM(t, "next", "", "")
	crawl := p.policies(map[string]string{"slow": crawling})
	p.tf.Config(t, p.block()+crawl)
	p.tf.Run(t, "apply")
	p.tf.Config(t, p.block()+crawl+p.plan()+p.maintenance(exactly+`timeouts = { create = "8m" }`))
	apply := p.tf.Start(t, "apply")
	p.awaitCopying(t, apply)
	if out := p.l.Virsh(t, p.from.Name, "dumpxml", p.prefix+"-slow"); !strings.Contains(out, "eviction-requested") {
		t.Errorf("who looks at the VM can't see that it is to leave:\n%s", out)
	}
	start := p.l.StopSSH(t, p.from)
	if p.where(t, "slow") != p.from.Name {
		t.Error("it had gone already")
	}
	start()
	p.hurry(t, apply)
	out, err := apply.Wait()
	if err != nil {
		t.Fatalf("apply: %v\n%s", err, out)
	}
	p.expect(t, map[string]string{"slow": p.to.Name, "next": p.to.Name})
	if got := results(t, p.tf); !strings.Contains(got, "slow=Moved") || !strings.Contains(got, "next=Moved") {
		t.Errorf("results %s", got)
	}
	for _, name := range []string{"slow", "next"} {
		reason := p.l.Virsh(t, p.to.Name, "domstate", "--reason", p.prefix+"-"+name)
		if strings.TrimSpace(reason) != "running (migrated)" {
			t.Errorf("%s is %s", name, reason)
		}
		if out := p.l.Virsh(t, p.to.Name, "dumpxml", p.prefix+"-"+name); strings.Contains(out, "eviction-requested") {
			t.Errorf("%s: the mark is left", name)
		}
	}
	p.l.AwaitData(t, p.to.Name, p.prefix+"-slow")
	if out := p.l.Virsh(t, p.from.Name, "list", "--all", "--name"); strings.TrimSpace(out) != "" {
		t.Errorf("left on host %s: %s", p.from.Name, out)
	}
	if out := p.l.Virsh(t, p.from.Name, "secret-list"); strings.Contains(out, "virtfleet:lock") {
		t.Errorf("a lock is left: %s", out)
	}
	if out, empty := p.tf.Empty(t); !empty {
		t.Errorf("left to do:\n%s", out)
	}
	p.tf.Run(t, "destroy")
}

// isCordoned says that the first host has recorded its cordon.
func (p *pair) isCordoned() bool {
	files, _ := filepath.Glob(p.from.Path("/etc/libvirt/secrets/*.base64"))
	for _, file := range files {
		text, _ := os.ReadFile(file)
		record, _ := base64.StdEncoding.DecodeString(strings.TrimSpace(string(text)))
		if strings.Contains(string(record), `"cordon":`) {
			return true
		}
	}
	return false
}

// breakLocks removes the locks of a run that could not give them back. Another run would wait for each.
func (p *pair) breakLocks(t *testing.T) {
	t.Helper()
	for line := range strings.Lines(p.l.Virsh(t, p.from.Name, "secret-list")) {
		if words := strings.Fields(line); strings.Contains(line, "virtfleet:lock") {
			p.l.Virsh(t, p.from.Name, "secret-undefine", words[0])
		}
	}
}

// TestAccHostMaintenance_cordonUnanswered: the host cordons itself, and falls silent before it has said so. The
// maintenance is in the state, so the host is uncordoned also if the user doesn't want the maintenance any more.
func TestAccHostMaintenance_cordonUnanswered(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	gate := p.l.Gate(t, p.from.Name, p.isCordoned)
	silent := p.host(p.from)
	silent.URI = gate.URI()
	silent.Settings += fmt.Sprintf("\n      ssh = { known_hosts_file = %q }", gate.KnownHostsFile)
	p.tf.Config(t, acctest.Block{Lab: p.l, Hosts: []acctest.Host{silent, p.host(p.to)}}.String()+p.maintenance(""))
	apply := p.tf.Start(t, "apply")
	for tick := time.NewTicker(10 * time.Millisecond); !p.isCordoned(); <-tick.C {
		select {
		case <-apply.Done():
			t.Fatalf("apply has ended: %s", apply.Output())
		default:
		}
	}
	if err := apply.Interrupt(); err != nil {
		t.Fatal(err)
	}
	out, err := apply.Wait()
	if err == nil || !strings.Contains(out, "the host's record was written is not known") {
		t.Errorf("apply: %v\n%s", err, out)
	}
	state, tainted := p.tf.State(t, address)
	if id := fmt.Sprint(state["id"]); !tainted || state["drained"] != false || !strings.Contains(p.record(t), id) {
		t.Fatalf("the state has %v, tainted %v; the host %s", state, tainted, p.record(t))
	}
	p.breakLocks(t)
	other := acctest.NewCLI(t)
	other.Config(t, p.block()+p.maintenance(""))
	if out := unwrapped(other.Run(t, "plan")); !strings.Contains(out, "Host is under another maintenance") ||
		!strings.Contains(out, "apply continues it as this maintenance") {
		t.Errorf("the plan of another state doesn't say that it takes the host over: %s", out)
	}
	p.tf.Config(t, p.block())
	p.tf.Run(t, "apply")
	if out, empty := p.tf.Empty(t); !empty {
		t.Errorf("left to do:\n%s", out)
	}
	p.nothingLeft(t)
}
