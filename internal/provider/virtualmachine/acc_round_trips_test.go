package virtualmachine_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccVirtualMachine_roundTrips: how often a plan waits for a distant host, one wait after the other. That doesn't
// depend on how many VMs there are, or on what is read before them.
func TestAccVirtualMachine_roundTrips(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	h := l.StartHost(t) // On a host of all, other tests change VMs while they are read.
	tf := acctest.NewCLI(t)
	name := lab.Name(t)
	objects := fmt.Sprintf(`
resource "virtfleet_storage_pool" "vms" {
  name   = "vms"
  type   = "dir"
  target = { path = "/var/lib/libvirt/vms" }
}

resource "virtfleet_network" "lan" {
  name = "lan"
}

resource "virtfleet_virtual_machine" "this" {
  count        = 5
  name         = "%s-${count.index}"
  type         = "qemu"
  run_strategy = "Halted"
  memory       = { size = "64Mi" }
  interfaces   = { lan = { network = virtfleet_network.lan.name } }
  cloud_init   = { user_data = "#cloud-config\n", pool = virtfleet_storage_pool.vms.name }
}
`, name)
	block := func(host acctest.Host) string {
		return acctest.Block{Lab: l, Hosts: []acctest.Host{host}}.String()
	}
	tf.Config(t, block(acctest.Host{Of: h})+objects)
	tf.Run(t, "apply")

	const (
		login  = 7 // SSH: 2 for the key exchange, 4 for the login, 1 for the stream to libvirt's socket
		open   = 2 // libvirt's: which login it wants, and the connection
		lookUp = 1 // the names of objects
		read   = 1 // the objects
		most   = login + open + lookUp + read
	)
	// A busy computer only makes it more, and a longer delay less so.
	seen := 0
	for delay := 100 * time.Millisecond; delay <= 400*time.Millisecond; delay *= 2 {
		proxy := l.DelayProxy(t, h.Name, delay)
		tf.Config(t, block(viaProxy(proxy, h.Name))+objects)
		if out, empty := tf.Empty(t); !empty {
			t.Fatalf("the plan isn't empty:\n%s", out)
		}
		if seen = proxy.RoundTrips(); seen <= most {
			break
		}
	}
	switch {
	case seen > most:
		t.Errorf("a plan waited for %d round trips, want at most %d", seen, most)
	case seen < most:
		t.Errorf("a plan waited for %d round trips only: make that the limit, which is %d", seen, most)
	}
	tf.Config(t, block(acctest.Host{Of: h})+objects)
	tf.Run(t, "destroy")
}

// TestAccVirtualMachine_moveRoundTrips: how often the plan of a move waits for distant hosts, and how often its apply
// does, from one answer to the next question, whichever host it is for. While the guest moves, its progress is asked
// for too, which counts though nothing waits for that.
func TestAccVirtualMachine_moveRoundTrips(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	hosts := []*lab.Host{l.StartHost(t), l.StartHost(t)}
	tf := acctest.NewCLI(t)
	vm := guest(l, lab.Name(t)).with(hcl{"migration_options": `{ transport = "direct" }`})
	config := func(host *lab.Host) string {
		return vm.with(hcl{"host": quote(host.Name)}).String()
	}
	tf.Config(t, providerBlock(l, "", hosts...)+config(hosts[0]))
	tf.Run(t, "apply")

	const (
		mostOfPlan  = 18
		mostOfApply = 80
	)
	// A busy computer only makes it more, and a longer delay less so.
	planned, applied := 0, 0
	for i, delay := range []time.Duration{100 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond} {
		block := acctest.Block{Lab: l}
		var proxies []*lab.Proxy
		for _, h := range hosts {
			proxy := l.DelayProxy(t, h.Name, delay)
			proxies = append(proxies, proxy)
			proxy.CountWith(proxies[0])
			host := viaProxy(proxy, h.Name)
			host.Settings += fmt.Sprintf("\nmigration_address = %q", h.Address)
			block.Hosts = append(block.Hosts, host)
		}
		tf.Config(t, block.String()+config(hosts[(i+1)%2]))
		tf.Run(t, "plan", "-out=moves")
		planned = proxies[0].RoundTrips()
		tf.Run(t, "apply", "moves")
		applied = proxies[0].RoundTrips() - planned
		t.Logf("round trip %v: %d for the plan, %d for the apply", delay, planned, applied)
		if planned <= mostOfPlan && applied <= mostOfApply {
			break
		}
	}
	if planned > mostOfPlan || applied > mostOfApply {
		t.Errorf("a plan of a move waited for %d round trips, its apply for %d, want at most %d and %d", planned, applied,
			mostOfPlan, mostOfApply)
	}
	if out, empty := tf.Empty(t); !empty {
		t.Errorf("the plan isn't empty:\n%s", out)
	}
	tf.Run(t, "destroy")
}
