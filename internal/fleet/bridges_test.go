package fleet

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/move"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
)

// TestCheckMove_asksOnceAboutABridge: a target is asked once about the bridge that many VMs are connected to, and both
// hosts once about their networks. The target is asked again about a bridge that it lacks, which may be created at any
// time.
func TestCheckMove_asksOnceAboutABridge(t *testing.T) {
	t.Parallel()

	const (
		vms = 4
		lan = `<network><name>lan</name><forward mode="bridge"/><bridge name="br0"/></network>`
	)

	node := func(name, content string) inventory.HostConfig {
		file := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(file, []byte("<node>"+lan+content+"</node>"), 0o600); err != nil {
			t.Fatal(err)
		}

		return inventory.HostConfig{URI: "test://" + file}
	}

	for bridge, want := range map[string]struct {
		asked   int
		refused bool
	}{"br0": {asked: 1}, "br1": {vms, true}} {
		var domains strings.Builder

		uuid := func(i int) string { return fmt.Sprintf("6695eb01-f6a4-8304-79aa-97f2502e10%02d", i) }
		for i := range vms {
			fmt.Fprintf(&domains, `<domain type="test"><name>vm-%[2]d</name><uuid>%[1]s</uuid><memory>1024</memory>
				<os><type>hvm</type></os><devices><interface type="bridge"><mac address="52:54:00:00:00:0%[2]d"/>
				<source bridge="%[3]s"/></interface><interface type="network"><mac address="52:54:00:00:01:0%[2]d"/>
				<source network="lan"/></interface></devices></domain>`, uuid(i), i, bridge)
		}

		f := openFleet(t, Config{Hosts: map[string]inventory.HostConfig{
			"source": node("source.xml", domains.String()),
			"target": node("target.xml", `<interface type="ethernet" name="br0"><start mode="onboot"/></interface>`),
		}})

		for i := range vms {
			problems, err := f.CheckMove(t.Context(), move.Order{UUID: uuid(i), Target: "target"}, status.PlannedObjects{})
			if err != nil {
				t.Fatal(err)
			}

			refused := strings.Contains(fmt.Sprint(problems), fmt.Sprintf("has no bridge %q", bridge))
			if refused != want.refused {
				t.Errorf("%s: VM %d: %+v", bridge, i, problems)
			}
		}

		if calls := f.Calls()["target"]; calls["virInterfaceLookupByName"] != want.asked {
			t.Errorf("%s: %v", bridge, calls)
		}

		for _, host := range []string{"source", "target"} {
			if n := f.Calls()[host]["virConnectListAllNetworks"]; n != 2 { // all of them, and the active ones
				t.Errorf("%s: the networks of the %s were listed %d times, want 2", bridge, host, n)
			}
		}
	}
}
