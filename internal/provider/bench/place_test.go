package bench

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

var placed = flag.Int("placed", 600, "how many VMs are placed on many hosts")

const (
	// placeHosts is how many hosts they are placed on.
	placeHosts = 30
	// placeRounds is how often at most that is done: it takes minutes.
	placeRounds = 3
)

// placing has VMs that are off, each on the host that the fleet chooses or on the one that it is given, in turn.
const placing = `terraform {
  required_providers {
    virtfleet = { source = "virtfleet/virtfleet" }
  }
}

variable "hosts" {
  type = map(object({ uri = string, known_hosts = string }))
}

variable "vms" {
  type = number
}

variable "pinned" {
  type = bool
}

provider "virtfleet" {
  hosts = { for name, h in var.hosts : name => {
    uri = h.uri, memory_limit = "64Gi", ssh = { known_hosts_file = h.known_hosts }
  } }
  ssh = { private_key_file = %q, config_file = "none", agent = false }
}

resource "virtfleet_virtual_machine" "this" {
  count = var.vms

  name         = format("vm-%%04d", count.index)
  host         = var.pinned ? keys(var.hosts)[count.index %% length(var.hosts)] : null
  type         = "qemu"
  run_strategy = "Halted"
  memory       = { size = "2Gi" }
}
`

// BenchmarkPlace creates many VMs on many hosts: on those that the fleet chooses, and on those that the configuration
// names.
func BenchmarkPlace(b *testing.B) {
	w := newHosts(b, lab.Open(b), placeHosts)
	w.variables = map[string]string{"pinned": "true"}
	w.create(b, fmt.Sprintf(placing, w.lab.PrivateKeyFile()))
	apply := func(vms int, pinned bool) report {
		w.vms, w.variables["pinned"] = vms, fmt.Sprint(pinned)
		return w.probed(b, roleCount, w.direct(), []string{"apply", "-auto-approve", "-parallelism=" + creations})
	}
	var chosen, given sample
	var chosenCalls, givenCalls float64
	fewest, most := 0, 0
	n := min(*rounds, placeRounds)
	for range n {
		r := apply(*placed, false)
		chosen.add(r.took)
		chosenCalls = float64(r.total()) / float64(*placed)
		fewest, most = w.spread(b)
		apply(0, false)
		r = apply(*placed, true)
		given.add(r.took)
		givenCalls = float64(r.total()) / float64(*placed)
		apply(0, true)
	}
	t := &table{
		title:   fmt.Sprintf("creating %d VMs that are off on %d hosts, medians of %d rounds", *placed, placeHosts, n),
		columns: [2]string{"placed by the fleet", "hosts given"},
	}
	t.ratio("the whole apply, plan included", &chosen, &given, 1.2)
	t.add("calls to libvirt per VM", fmt.Sprintf("%.1f", chosenCalls), fmt.Sprintf("%.1f", givenCalls))
	t.add("VMs on a host", fmt.Sprintf("%d to %d", fewest, most), fmt.Sprint(*placed/placeHosts))
	if err := t.print(os.Stdout); err != nil {
		b.Fatal(err)
	}
}

// spread is how many VMs the hosts with the fewest and with the most have. All of them are on some host.
func (w *workspace) spread(b *testing.B) (fewest, most int) {
	b.Helper()
	all := 0
	fewest = w.vms
	for _, h := range w.hosts {
		n := len(strings.Fields(w.lab.Virsh(b, h.Name, "list", "--all", "--name")))
		all, fewest, most = all+n, min(fewest, n), max(most, n)
	}
	if all != w.vms {
		b.Errorf("the hosts have %d VMs, want %d", all, w.vms)
	}
	return fewest, most
}
