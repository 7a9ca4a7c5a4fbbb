package virtualmachine_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// peers is a VM that is moved between two hosts of its own by their libvirt, slowly.
type peers struct {
	torn
	// listening says that the provider knows where the hosts' libvirt reach each other.
	listening bool
}

func newPeers(t *testing.T) *peers {
	t.Helper()
	l := lab.Open(t)
	b := &peers{torn: torn{
		t: t, l: l, tf: acctest.NewCLI(t), from: l.StartHost(t), to: l.StartHost(t), name: lab.Name(t),
	}, listening: true}
	b.boots, b.disk = &boots{l: l, name: b.name, disk: true}, diskOnBothHosts(t, l, b.name)
	l.Listen(t, b.from, nil)
	l.Listen(t, b.to, nil)
	l.RemoveDomain(t, b.name)
	b.config(b.from, "")
	b.tf.Run(t, "apply")
	b.sameBoot(b.from)
	return b
}

// config pins the VM to a host.
func (b *peers) config(on *lab.Host, options string) {
	b.t.Helper()
	block := acctest.Block{
		Lab: b.l, Settings: `migration_options = { bandwidth = "2Mi", peer_to_peer = true, ` + options + ` }`,
	}
	for _, h := range []*lab.Host{b.from, b.to} {
		settings := fmt.Sprintf("migration_address = %q\n", h.Address)
		if b.listening {
			settings += fmt.Sprintf("peer_uri = \"qemu+tcp://%s/system\"\n", h.Address)
		}
		block.Hosts = append(block.Hosts, acctest.Host{Of: h, Settings: settings})
	}
	b.tf.Config(b.t, block.String()+vmWithKernelWords(b.l, b.name, "dirty=16").with(talking).with(b.disk).with(hcl{
		"host": quote(on.Name), "termination_grace_period": quote("0s"),
	}).String())
}

// lineOf is the line of a text that begins so.
func lineOf(text, begin string) string {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, begin) {
			return strings.TrimSpace(line)
		}
	}
	return ""
}

// TestAccVirtualMachine_movePeers: a migration that the hosts' libvirt manage outlives the provider. Whoever plans
// meanwhile is told, whoever applies waits for it, and nothing is moved twice.
func TestAccVirtualMachine_movePeers(t *testing.T) {
	t.Parallel()
	b := newPeers(t)

	b.listening = false
	b.config(b.to, "")
	if out := b.tf.Fail(t, "plan"); !inOrder("OptionsNotSupported", fmt.Sprintf("hosts.%s.peer_uri", b.to.Name)).
		MatchString(out) {
		t.Errorf("without the URI: %s", out)
	}

	b.listening = true
	b.config(b.to, "")
	killed := b.tf.Start(t, "apply")
	killed.AwaitCopying(t, b.l, b.from.Name, b.name)
	if err := killed.Kill(); err != nil {
		t.Fatal(err)
	}
	if out, err := killed.Wait(); err == nil {
		t.Fatalf("the apply continued:\n%s", out)
	}
	processed := func() string {
		return lineOf(b.l.Virsh(t, b.from.Name, "domjobinfo", b.name), "Memory processed")
	}
	before := processed()
	lab.Await(t, "the migration to continue", func() bool { return processed() != before })

	if out := b.tf.Run(t, "plan"); !inOrder("Virtual machine is being moved already", b.to.Name).MatchString(out) {
		t.Errorf("plan: %s", out)
	}
	apply := b.tf.Start(t, "apply")
	lab.Await(t, "the apply to wait", func() bool { return strings.Contains(apply.Output(), "Still modifying") })
	b.l.Virsh(t, b.from.Name, "migrate-setspeed", b.name, "8192")
	if out, err := apply.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}

	if from, to := b.state(b.from), b.state(b.to); from != "" || to != "running (migrated)" {
		t.Errorf("at the source it is %q, on the target %q", from, to)
	}
	b.sameBoot(b.to)
	records := b.l.Virsh(t, b.to.Name, "metadata", b.name, "urn:virtfleet:1")
	if n := strings.Count(records, `phase="Succeeded"`); n != 1 || strings.Contains(records, `"PreparingTarget"`) {
		t.Errorf("%d of its migrations succeeded, want one alone: %s", n, records)
	}
	autostart := lineOf(b.l.Virsh(t, b.to.Name, "dominfo", b.name), "Autostart")
	if !strings.HasSuffix(autostart, "enable") {
		t.Errorf("on the target %q", autostart)
	}
	noChanges(t, b.tf)
	destroyAndCheck(t, b.l, b.tf, b.name)
}
