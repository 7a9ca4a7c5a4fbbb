package hostmaintenance_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccHostMaintenance_peerMigrationContinues: a drain is killed, and the migration that the hosts' libvirt manage
// continues without it. The next apply finds the VM where it arrived, and the host is empty.
func TestAccHostMaintenance_peerMigrationContinues(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	block := acctest.Block{Lab: p.l, Settings: "migration_options = { peer_to_peer = true }"}
	for _, h := range []*lab.Host{p.from, p.to} {
		p.l.Listen(t, h, nil)
		of := p.host(h)
		of.Settings += fmt.Sprintf("\npeer_uri = \"qemu+tcp://%s/system\"", h.Address)
		block.Hosts = append(block.Hosts, of)
	}
	p.defineVM(t, "slow", "dirty=16 data", "")
	p.l.Virsh(t, p.from.Name, "autostart", p.prefix+"-slow")
	const after = "depends_on = [virtfleet_eviction_policy.slow]"
	crawl := block.String() + p.policies(map[string]string{"slow": crawling})
	p.tf.Config(t, crawl)
	p.tf.Run(t, "apply")
	p.tf.Config(t, crawl+p.maintenance(after))
	apply := p.tf.Start(t, "apply")
	p.awaitCopying(t, apply)
	if err := apply.Kill(); err != nil {
		t.Fatal(err)
	}
	if out, err := apply.Wait(); err == nil {
		t.Fatalf("killed, it succeeded: %s", out)
	}
	_ = os.Remove(p.tf.Dir + "/.terraform.tfstate.lock.info")
	if !p.copying(t) {
		t.Error("the migration doesn't continue")
	}
	p.l.Virsh(t, p.from.Name, "migrate-setmaxdowntime", p.prefix+"-slow", "2000")
	p.l.Virsh(t, p.from.Name, "migrate-setspeed", p.prefix+"-slow", "8192")
	lab.Await(t, "the VM to arrive", func() bool {
		state, err := p.l.TryVirsh(t, p.to.Name, "domstate", "--reason", p.prefix+"-slow")
		_, left := p.l.TryVirsh(t, p.from.Name, "domstate", p.prefix+"-slow")
		return err == nil && strings.TrimSpace(state) == "running (migrated)" && left != nil
	})

	p.tf.Config(t, block.String()+p.policies(map[string]string{"slow": `"LiveMigrate"`})+p.maintenance(after))
	p.tf.Run(t, "apply")
	p.expect(t, map[string]string{"slow": p.to.Name})
	p.l.AwaitData(t, p.to.Name, p.prefix+"-slow")
	if got := results(t, p.tf); got != "slow=Moved" {
		t.Errorf("results %s", got)
	}
	records := p.l.Virsh(t, p.to.Name, "metadata", p.prefix+"-slow", "urn:virtfleet:1")
	if strings.Count(records, `phase="Succeeded"`) != 1 || strings.Contains(records, "eviction-requested") {
		t.Errorf("records: %s", records)
	}
	if out := p.l.Virsh(t, p.from.Name, "list", "--all", "--name"); strings.TrimSpace(out) != "" {
		t.Errorf("left on host %s: %s", p.from.Name, out)
	}
	if out := p.l.Virsh(t, p.to.Name, "list", "--autostart", "--name"); !strings.Contains(out, p.prefix+"-slow") {
		t.Error("its new host doesn't start it when it boots")
	}
	if out, empty := p.tf.Empty(t); !empty {
		t.Errorf("left to do:\n%s", out)
	}

	p.tf.Run(t, "destroy")
	p.expect(t, map[string]string{"slow": p.to.Name})
	// The locks of the run that was killed stay until another run wants them, and keep none out.
	p.noneLeft(t, "virtfleet:host-record", "slow")
}
