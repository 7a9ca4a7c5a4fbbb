package migration_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccMigration_peers: a migration that the hosts' libvirt manage continues when its run is killed. The next apply
// knows it by its id and waits for it, rather than aborting it or beginning another. Where no run waits for it the
// VM arrives on a host that wouldn't start it when it boots, which its own plan shows and its apply mends.
func TestAccMigration_peers(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	tf := start(t, l, name)
	from, to := l.StartHost(t), l.StartHost(t)
	block := acctest.Block{Lab: l, Settings: `migration_options = { bandwidth = "2Mi", peer_to_peer = true }`}
	for _, h := range []*lab.Host{from, to} {
		l.Listen(t, h, nil)
		block.Hosts = append(block.Hosts, acctest.Host{Of: h, Settings: fmt.Sprintf(
			"migration_address = %q\npeer_uri = \"qemu+tcp://%[1]s/system\"", h.Address)})
	}
	block.Hosts[1].Settings += "\n" + schedulable
	config := block.String() + writing(l, name)
	begin(t, tf, config)

	orphan := func(from, to *lab.Host) {
		t.Helper()
		tf.Config(t, config+migration(fmt.Sprintf("target_host = %q", to.Name)))
		killed := tf.Start(t, "apply")
		killed.AwaitCopying(t, l, from.Name, name)
		if err := killed.Kill(); err != nil {
			t.Fatal(err)
		}
		if out, err := killed.Wait(); err == nil {
			t.Fatalf("killed, it succeeded:\n%s", out)
		}
	}
	orphan(from, to)

	// It has not ended, so it can't be imported, which would hide that there is something to do.
	id := regexp.MustCompile(`<migration [^>]*\bid="(\w+)"`).FindStringSubmatch(
		l.Virsh(t, from.Name, "metadata", name, "urn:virtfleet:1"))
	if id == nil {
		t.Fatal("it is not recorded")
	}
	uuid := strings.TrimSpace(l.Virsh(t, from.Name, "domuuid", name))
	if out := tf.Fail(t, "import", address, uuid+"/"+id[1]); !said(out, id[1], fmt.Sprintf("from host %q to host %q",
		from.Name, to.Name), "has not ended", `"Running"`, name, "Apply without importing it") {
		t.Errorf("imported while it continues:\n%s", out)
	}

	again := tf.Start(t, "apply")
	lab.Await(t, "the apply to wait", func() bool { return strings.Contains(again.Output(), "Still creating") })
	l.Virsh(t, from.Name, "migrate-setspeed", name, "8192")
	out, err := again.Wait()
	if err != nil || !said(out, "was started before", "waited for, and not run again") {
		t.Fatalf("%v\n%s", err, out)
	}
	attributes, state, _ := recorded(t, tf)
	acctest.CompareValues(t, attributes, map[string]any{"phase": "Succeeded"})
	acctest.CompareValues(t, state, map[string]any{"source_host": from.Name, "target_host": to.Name, "failed": false})
	records := l.Virsh(t, to.Name, "metadata", name, "urn:virtfleet:1")
	if strings.Count(records, "<migration ") != 1 || !strings.Contains(records, fmt.Sprint(attributes["id"])) {
		t.Errorf("records: %s", records)
	}
	if l.Has(t, from.Name, "list", name) {
		t.Error("the source has it still")
	}
	if out, empty := tf.Empty(t); !empty {
		t.Errorf("left to do:\n%s", out)
	}

	orphan(to, from)
	l.Virsh(t, to.Name, "migrate-setspeed", name, "8192")
	lab.Await(t, "the VM to arrive by itself", func() bool {
		state, err := l.TryVirsh(t, from.Name, "domstate", name)
		_, left := l.TryVirsh(t, to.Name, "domstate", name)
		return err == nil && strings.TrimSpace(state) == "running" && left != nil
	})
	autostart := func() bool { return strings.Contains(l.Virsh(t, from.Name, "list", "--autostart"), name) }
	tf.Config(t, config)
	if change := tf.Plan(t)[machine]; change.Actions != "update" || change.Before["run_strategy"] != nil ||
		change.Before["autostart"] != false || change.After["autostart"] != true || autostart() {
		t.Errorf("planned %+v, started with its host: %v", change, autostart())
	}
	apply(t, tf, config)
	if records = l.Virsh(t, from.Name, "metadata", name, "urn:virtfleet:1"); !autostart() ||
		strings.Count(records, `phase="Succeeded"`) != 2 {
		t.Errorf("started with its host: %v, records: %s", autostart(), records)
	}
	tf.Run(t, "destroy")
	if err := acctest.CheckDestroyed(l, name)(nil); err != nil {
		t.Error(err)
	}
}
