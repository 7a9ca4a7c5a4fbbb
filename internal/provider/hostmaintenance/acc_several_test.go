package hostmaintenance_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccHostMaintenance_several: three of four hosts are drained by one apply. All their VMs end on the fourth, none
// by way of a host that is drained too, and the end of the maintenances brings each back.
func TestAccHostMaintenance_several(t *testing.T) {
	t.Parallel()
	l, tf := lab.Open(t), acctest.NewCLI(t)
	prefix := lab.Name(t)
	prefix = "s" + prefix[len(prefix)-6:]
	var hosts []*lab.Host
	block, home := acctest.Block{Lab: l}, map[string]string{}
	for i := range 4 {
		h := l.StartHost(t)
		hosts = append(hosts, h)
		// The fourth is the one that they would choose last.
		block.Hosts = append(block.Hosts, acctest.Host{Of: h, Settings: fmt.Sprintf(
			"migration_address = %q\n      memory_limit = \"%dMi\"", h.Address, 4096-i*512)})
		for _, vm := range []string{"a", "b"} {
			name := fmt.Sprintf("%s-%d%s", prefix, i, vm)
			if i == 3 {
				continue
			}
			l.RemoveDomain(t, name)
			l.Define(t, h.Name, fmt.Sprintf(`<domain type="qemu"><name>%s</name><memory unit="MiB">16</memory>
				<os><type arch="x86_64">hvm</type></os></domain>`, name))
			l.Virsh(t, h.Name, "start", name)
			home[name] = h.Name
		}
	}
	where := func() map[string]string {
		is := map[string]string{}
		for _, h := range hosts {
			for _, name := range strings.Fields(l.Virsh(t, h.Name, "list", "--name")) {
				is[name] = h.Name
			}
		}
		return is
	}
	config := block.String()
	for _, h := range hosts[:3] {
		config += fmt.Sprintf("resource \"virtfleet_host_maintenance\" %q {\n  host = %q\n  restore = true\n}\n", h.Name,
			h.Name)
	}
	tf.Config(t, config)
	log := tf.Trace()
	told := unwrapped(tf.Run(t, "apply"))
	if !strings.Contains(told, "Hosts are drained together") {
		t.Errorf("it isn't said that hosts are drained to which moves are listed: %s", told)
	}
	text, err := os.ReadFile(log)
	if err != nil || strings.Contains(string(text), "eviction failed, will be tried again") {
		t.Errorf("a move to a host that is drained too was tried (%v)", err)
	}
	is := where()
	for name := range home {
		if is[name] != hosts[3].Name {
			t.Errorf("%s is on %q", name, is[name])
		}
	}
	for _, h := range hosts[:3] {
		state, _ := tf.State(t, "virtfleet_host_maintenance."+h.Name)
		results, _ := state["results"].([]any)
		if len(results) != 2 || slices.ContainsFunc(results, func(r any) bool {
			return !strings.Contains(fmt.Sprint(r), "result:Moved") || !strings.Contains(fmt.Sprint(r), "target:"+hosts[3].Name)
		}) {
			t.Errorf("%s: %v", h.Name, results)
		}
	}
	if out, empty := tf.Empty(t); !empty {
		t.Errorf("left to do:\n%s", out)
	}
	tf.Run(t, "destroy")
	if is := where(); fmt.Sprint(is) != fmt.Sprint(home) {
		t.Errorf("restored, they are on %v, want %v", is, home)
	}
}
