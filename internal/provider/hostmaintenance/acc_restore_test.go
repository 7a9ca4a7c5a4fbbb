package hostmaintenance_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// nothingLeft fails the test when a host keeps a record or a lock of ours, or a VM its mark.
func (p *pair) nothingLeft(t *testing.T, names ...string) {
	t.Helper()
	p.noneLeft(t, "virtfleet:", names...)
}

// noneLeft fails the test when a host keeps a secret whose name begins so, or a VM its mark.
func (p *pair) noneLeft(t *testing.T, secret string, names ...string) {
	t.Helper()
	for _, h := range []string{p.from.Name, p.to.Name} {
		if out := p.l.Secrets(t, h); strings.Contains(out, secret) {
			t.Errorf("left on host %s: %s", h, out)
		}
	}
	p.unmarked(t, names...)
}

// unmarked fails the test when a VM keeps its mark.
func (p *pair) unmarked(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		out := p.l.Virsh(t, p.where(t, name), "dumpxml", p.prefix+"-"+name)
		if strings.Contains(out, "eviction-requested") {
			t.Errorf("%s: the mark is left", name)
		}
	}
}

// howRuns is where the VM runs, and how it came to run there.
func (p *pair) howRuns(t *testing.T, name string) string {
	t.Helper()
	host := p.where(t, name)
	if host == "" {
		return "off"
	}
	return host + " " + strings.TrimSpace(p.l.Virsh(t, host, "domstate", "--reason", p.prefix+"-"+name))
}

// loseRecord removes the first host's record, as a reinstallation of the host does.
func (p *pair) loseRecord(t *testing.T) {
	t.Helper()
	uuid := p.l.SecretUUID(t, p.from.Name, "virtfleet:host-record")
	if uuid == "" {
		t.Fatalf("host %s has no record", p.from.Name)
	}
	p.l.Virsh(t, p.from.Name, "secret-undefine", uuid)
}

// recordIsRestored expects that a maintenance whose host has lost its record isn't taken for one that has ended: the
// plan warns, and the apply records again what the drain did, as was.
func (p *pair) recordIsRestored(t *testing.T, was string) {
	t.Helper()
	p.loseRecord(t)
	if out := unwrapped(p.tf.Run(t, "plan")); !strings.Contains(out, "Host has lost the record of its maintenance") ||
		!strings.Contains(out, address+" will be updated in-place") {
		t.Errorf("the plan without the host's record: %s", out)
	}
	p.tf.Run(t, "apply")
	if got := results(t, p.tf); got != was || !strings.Contains(p.record(t), `"cordon":`) {
		t.Errorf("results %s, want %s; recorded is %s", got, was, p.record(t))
	}
}

// TestAccHostMaintenance_restoreContinues: a maintenance outlasts the loss of its host's record. While a host
// doesn't answer its VM isn't brought back, and another one isn't started, which might run there. Destroying fails, and
// destroying again, with the host back, restores both.
func TestAccHostMaintenance_restoreContinues(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.defineVM(t, "live", "", "")
	p.defineVM(t, "none", "", "")
	policies := p.policies(map[string]string{"none": `"None"`})
	p.tf.Config(t, p.block()+policies)
	p.tf.Run(t, "apply")
	maintained := p.block() + policies + p.maintenance("restore = true")
	p.tf.Config(t, maintained)
	p.tf.Run(t, "apply")
	p.expect(t, map[string]string{"live": p.to.Name, "none": ""})
	p.recordIsRestored(t, "live=Moved none=ShutDown")

	start := p.l.StopSSH(t, p.to)
	out := p.tf.Fail(t, "destroy", "-target="+address)
	for _, want := range []string{
		fmt.Sprintf("%q is moved back to host %q while it runs, unless", p.prefix+"-live", p.from.Name),
		fmt.Sprintf("%q is started on host %q", p.prefix+"-none", p.from.Name),
		"Unable to end", p.prefix + "-live", p.prefix + "-none", p.to.Name, "destroy the maintenance again",
	} {
		if !strings.Contains(unwrapped(out), want) {
			t.Errorf("%q is missing in: %s", want, out)
		}
	}
	p.expect(t, map[string]string{"live": p.to.Name, "none": ""})

	start()
	if actions := p.tf.Actions(t); actions[address] != "update" {
		t.Errorf("with the maintenance still wanted: %v, want an update", actions)
	}
	other := acctest.NewCLI(t)
	other.Config(t, p.block()+p.maintenance(""))
	if out := unwrapped(other.Run(t, "plan")); !strings.Contains(out, "is being ended, or its end failed") {
		t.Errorf("the plan of another state doesn't say that it takes the host over: %s", out)
	}
	p.tf.Config(t, p.block()+policies)
	changes, out, err := p.tf.TryPlan(t)
	if err != nil || changes[address].Actions != "delete" {
		t.Errorf("with the maintenance not wanted: %v, %v, want that its end continues", changes, err)
	}
	if out = unwrapped(out); strings.Contains(out, "apply restore = false before") ||
		!strings.Contains(out, "An apply that keeps the maintenance drains the host again") {
		t.Errorf("what the plan advises would evacuate what has come back: %s", out)
	}
	p.tf.Run(t, "apply")
	if got, want := p.howRuns(t, "live"), p.from.Name+" running (migrated)"; got != want {
		t.Errorf("live is %s, want %s", got, want)
	}
	if got, want := p.howRuns(t, "none"), p.from.Name+" running (booted)"; got != want {
		t.Errorf("none is %s, want %s", got, want)
	}
	if out, empty := p.tf.Empty(t); !empty {
		t.Errorf("left to do:\n%s", out)
	}
	p.tf.Run(t, "destroy")
	p.nothingLeft(t, "live", "none")
}

// TestAccHostMaintenance_killedAndAbandoned: an apply that was killed leaves nothing in the state, and the host
// cordoned with its VM marked, after another one had gone. Imported, the maintenance can be destroyed: neither cordon
// nor mark is left, and what has gone stays where it is.
func TestAccHostMaintenance_killedAndAbandoned(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.defineVM(t, "quick", "", "")
	p.defineVM(t, "slow", "dirty=16", "")
	crawl := p.policies(map[string]string{"slow": crawling})
	p.tf.Config(t, p.block()+crawl)
	p.tf.Run(t, "apply")
	p.tf.Config(t, p.block()+crawl+p.maintenance("restore = true\n  depends_on = [virtfleet_eviction_policy.slow]"))
	apply := p.tf.Start(t, "apply")
	p.awaitCopying(t, apply)
	for tick := time.NewTicker(200 * time.Millisecond); !strings.Contains(p.record(t), `"result":"Moved"`); <-tick.C {
		select {
		case <-apply.Done():
			t.Fatalf("apply has ended: %s", apply.Output())
		default:
		}
	}
	if err := apply.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := apply.Wait(); err == nil {
		t.Fatal("it was not killed")
	}
	_ = os.Remove(p.tf.Dir + "/.terraform.tfstate.lock.info")
	if out := p.record(t); !strings.Contains(out, `"cordon":`) {
		t.Errorf("the host isn't cordoned: %s", out)
	}
	p.tf.Run(t, "import", address, p.from.Name)
	p.tf.Run(t, "destroy")
	if got, want := p.howRuns(t, "slow"), p.from.Name+" running"; !strings.HasPrefix(got, want) {
		t.Errorf("slow is %s, want %s", got, want)
	}
	if got, want := p.howRuns(t, "quick"), p.to.Name+" running (migrated)"; got != want {
		t.Errorf("quick is %s, want %s", got, want)
	}
	// What was done stays recorded, for a maintenance that begins soon. The lock that the killed run had on the other
	// host stays until another run wants it, and keeps none out.
	if out := p.record(t); strings.Contains(out, `"cordon":`) || !strings.Contains(out, `"abandoned":`) {
		t.Errorf("recorded is %s", out)
	}
	p.unmarked(t, "quick", "slow")
}

// TestAccHostMaintenance_wantedAgain: a maintenance whose end failed, and which is wanted after all, continues: what
// was started again leaves again, and the end brings everything back. If it names the steps, it follows them. The end
// also brings everything back if the host has lost its record.
func TestAccHostMaintenance_wantedAgain(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.defineVM(t, "away", "", "")
	p.tf.Config(t, p.block()+p.maintenance("restore = true"))
	p.tf.Run(t, "apply")
	start := p.l.StopSSH(t, p.to)
	p.tf.Fail(t, "destroy")
	start()
	p.defineVM(t, "came", "", "")
	p.tf.Config(t, p.block()+p.maintenance("restore = true\n  steps = []"))
	if out := unwrapped(p.tf.Fail(t, "apply")); !strings.Contains(out, fmt.Sprintf("%q has come", p.prefix+"-came")) {
		t.Errorf("steps that don't hold: %s", out)
	}
	p.expect(t, map[string]string{"away": p.to.Name, "came": p.from.Name})
	p.tf.Config(t, p.block()+p.maintenance("restore = true"))
	p.tf.Run(t, "apply")
	p.expect(t, map[string]string{"away": p.to.Name, "came": p.to.Name})
	if got := results(t, p.tf); got != "away=Moved came=Moved" {
		t.Errorf("results %s", got)
	}
	if out, empty := p.tf.Empty(t); !empty {
		t.Errorf("left to do:\n%s", out)
	}
	p.loseRecord(t)
	p.tf.Run(t, "destroy")
	p.expect(t, map[string]string{"away": p.from.Name, "came": p.from.Name})
	p.nothingLeft(t, "away", "came")
}
