package bench

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

const (
	// drained is how many VMs leave their host.
	drained = 8
	// drainBandwidth bounds each migration, in MiB/s, as a network does. What takes these two hosts' time otherwise is
	// that they share one computer's processors, of which several migrations at a time get no more than one.
	drainBandwidth = 8
	// drainRounds is how often at most that is done: it takes a minute and more.
	drainRounds = 3
)

// draining has VMs that are where their first host was, until it is drained.
const draining = `terraform {
  required_providers {
    virtfleet = { source = "virtfleet/virtfleet" }
  }
}

variable "hosts" {
  type = map(object({ uri = string, known_hosts = string }))
}

variable "addresses" {
  type = map(string)
}

variable "vms" {
  type = number
}

variable "host" {
  type = string
}

variable "maintenance" {
  type = string
}

provider "virtfleet" {
  hosts = { for name, h in var.hosts : name => {
    uri = h.uri, migration_address = var.addresses[name], memory_limit = "16Gi"
    ssh = { known_hosts_file = h.known_hosts }
  } }
  ssh               = { private_key_file = %q, config_file = "none", agent = false }
  migration_options = { transport = "direct", bandwidth = "%dMi" }
  migration_limits  = { per_fleet = 5, outbound_per_host = 5, inbound_per_host = 5 }
}

resource "virtfleet_virtual_machine" "this" {
  count = var.vms

  name   = "%s-${count.index}"
  host   = var.host == "" ? null : var.host
  type   = "qemu"
  memory = { size = "128Mi" }
  kernel = { path = %q, initrd = %q, cmdline = %q }

  termination_grace_period = "0s"
}

resource "virtfleet_host_maintenance" "this" {
  count      = var.maintenance == "" ? 0 : 1
  host       = var.maintenance
  depends_on = [virtfleet_virtual_machine.this]
}
`

// BenchmarkDrain drains a host of guests by a maintenance of it, and moves the same guests back one after another by
// virsh.
func BenchmarkDrain(b *testing.B) {
	l := lab.Open(b)
	w := newHosts(b, l, 2)
	w.vms = drained
	there, back := w.hosts[1], w.hosts[0]
	w.variables = map[string]string{
		"addresses": fmt.Sprintf("{%q=%q,%q=%q}", back.Name, back.Address, there.Name, there.Address),
		"host":      back.Name, "maintenance": "",
	}
	name := lab.Name(b)
	w.create(b, fmt.Sprintf(draining, l.PrivateKeyFile(), drainBandwidth, name, l.KernelPath(), l.InitrdPath(),
		lab.GuestCmdline+" noagent"))
	apply := func(maintenance string) time.Duration {
		b.Helper()
		w.variables["maintenance"] = maintenance
		return w.run(b, w.direct(), []string{"apply", "-auto-approve"})
	}
	w.variables["host"] = "" // A VM that is pinned to a host doesn't leave it.
	apply("")

	var drains, oneByOne sample
	n := min(*rounds, drainRounds)
	for range n {
		drains.add(apply(back.Name))
		if left := l.Virsh(b, back.Name, "list", "--all", "--name"); strings.TrimSpace(left) != "" {
			b.Fatalf("host %s is not empty: %s", back.Name, left)
		}
		apply("")
		var took time.Duration
		for i := range drained {
			took += virshMigrate(b, fmt.Sprintf("%s-%d", name, i), there, back, "--bandwidth", fmt.Sprint(drainBandwidth))
		}
		oneByOne.add(took)
	}
	t := &table{
		title: fmt.Sprintf("draining a host of %d guests with 128 MiB at %d MiB/s each, 5 at a time, medians of %d rounds",
			drained, drainBandwidth, n),
		columns: [2]string{"drain", "virsh, one by one"},
	}
	t.ratio("the whole apply, plan included", &drains, &oneByOne, 0.5)
	if err := t.print(os.Stdout); err != nil {
		b.Fatal(err)
	}
}
