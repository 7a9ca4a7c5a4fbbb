package hostmaintenance_test

import (
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
