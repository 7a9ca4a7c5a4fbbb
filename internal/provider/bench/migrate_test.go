package bench

import (
	"context"
	"encoding/xml"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

// moving has one VM that is moved by a change of host.
const moving = `terraform {
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

variable "addresses" {
  type = map(string)
}

variable "host" {
  type = string
}

variable "transport" {
  type = string
}

provider "virtfleet" {
  hosts = { for name, h in var.hosts : name => {
    uri = h.uri, migration_address = var.addresses[name], ssh = { known_hosts_file = h.known_hosts }
  } }
  ssh = { private_key_file = %q, config_file = "none", agent = false }
}

resource "virtfleet_virtual_machine" "this" {
  name   = %q
  host   = var.host
  type   = "qemu"
  memory = { size = "128Mi" }
  kernel = { path = %q, initrd = %q, cmdline = %q }

  migration_options        = { transport = var.transport }
  termination_grace_period = "0s"
}
`

// migrateTimeout bounds one migration by virsh, and each question to it.
const migrateTimeout = 2 * time.Minute

// BenchmarkMigrate moves a guest by a change of its host, and by virsh, in turn: the same guest between the same hosts,
// there and back. What counts is the mean of both directions, since one can be faster than the other.
func BenchmarkMigrate(b *testing.B) {
	l := lab.Open(b)
	m := &mover{workspace: newHosts(b, l, 2), name: lab.Name(b)}
	authority := lab.NewAuthority(b)
	for _, h := range m.hosts {
		authority.Equip(b, l, h, h.Address)
	}
	here, there := m.hosts[0], m.hosts[1]
	m.variables = map[string]string{
		"addresses": fmt.Sprintf("{%q=%q,%q=%q}", here.Name, here.Address, there.Name, there.Address),
		"host":      here.Name, "transport": "direct",
	}
	m.create(b, fmt.Sprintf(moving, l.PrivateKeyFile(), m.name, l.KernelPath(), l.InitrdPath(),
		lab.GuestCmdline+" noagent"))

	t := &table{
		title: "live migration of a guest with 128 MiB there and back, the mean of both, medians of " +
			fmt.Sprint(*rounds) + " rounds",
		columns: [2]string{"provider", "virsh migrate"},
	}
	// virsh has no relay: that is compared with its direct way.
	for _, transport := range []string{"direct", "tls", "ssh_relay"} {
		m.compare(b, t, transport)
	}
	if err := t.print(os.Stdout); err != nil {
		b.Fatal(err)
	}
}

// mover is a workspace whose one VM is moved by the provider and by virsh.
type mover struct {
	*workspace
	name string
}

// trip is a migration, or the mean of one there and one back.
type trip struct{ command, took, downtime time.Duration }

func (there trip) and(back trip) trip {
	mean := func(a, b time.Duration) time.Duration { return (a + b) / 2 }
	return trip{
		mean(there.command, back.command), mean(there.took, back.took), mean(there.downtime, back.downtime),
	}
}

// trips are those of one way to move a VM.
type trips struct{ command, took, downtime sample }

func (t *trips) add(a trip) {
	t.command.add(a.command)
	t.took.add(a.took)
	t.downtime.add(a.downtime)
}

// compare moves the VM there and back over one transport, both ways by the provider and by virsh. Before virsh it
// is left alone for as long as Terraform takes to plan: from a guest that has just arrived there is less to be copied.
func (m *mover) compare(b *testing.B, t *table, transport string) {
	b.Helper()
	m.variables["transport"] = transport
	here, there := m.hosts[0], m.hosts[1]
	var provider, virsh trips
	for range *rounds {
		applied := m.apply(b, there, transport).and(m.apply(b, here, transport))
		alone := applied.command - applied.took
		provider.add(applied)
		virsh.add(m.virsh(b, here, there, transport, alone).and(m.virsh(b, there, here, transport, alone)))
	}
	goal := 1.05
	if transport == "ssh_relay" {
		goal = 0
	}
	t.ratio(transport+": the migration", &provider.took, &virsh.took, goal)
	t.ratio(transport+": downtime of the guest", &provider.downtime, &virsh.downtime, 0)
	t.ratio(transport+": the whole apply, plan included", &provider.command, &virsh.command, 0)
}

// apply moves the VM by a change of its host. How long the migration took, and how long its guest was paused, is
// in the VM's own record.
func (m *mover) apply(b *testing.B, to *lab.Host, transport string) trip {
	b.Helper()
	m.variables["host"] = to.Name
	command := m.run(b, m.direct(), []string{"apply", "-auto-approve"})
	var vm struct {
		Migrations []struct {
			Start      time.Time `xml:"start,attr"`
			End        time.Time `xml:"end,attr"`
			Transport  string    `xml:"transport,attr"`
			Statistics struct {
				Downtime int64 `xml:"downtime,attr"`
			} `xml:"statistics"`
		} `xml:"migrations>migration"`
	}
	out := m.lab.Virsh(b, to.Name, "metadata", m.name, "urn:virtfleet:1")
	if err := xml.Unmarshal([]byte(out), &vm); err != nil || len(vm.Migrations) == 0 {
		b.Fatalf("no record of a migration (%v): %s", err, out)
	}
	last := vm.Migrations[len(vm.Migrations)-1]
	if last.Transport != transport {
		b.Fatalf("it went over %q, want %q", last.Transport, transport)
	}
	return trip{command, last.End.Sub(last.Start), time.Duration(last.Statistics.Downtime) * time.Millisecond}
}

var virshDowntime = regexp.MustCompile(`Total downtime:\s+(\d+)`)

// virsh moves the VM as an administrator does, once it was left alone for that long.
func (m *mover) virsh(b *testing.B, from, to *lab.Host, transport string, alone time.Duration) trip {
	b.Helper()
	<-time.After(alone)
	var flags []string
	if transport == "tls" {
		flags = []string{"--tls"}
	}
	took := virshMigrate(b, m.name, from, to, flags...)
	stats := m.lab.Virsh(b, to.Name, "domjobinfo", m.name, "--completed")
	match := virshDowntime.FindStringSubmatch(stats)
	if match == nil {
		b.Fatalf("no downtime in %s", stats)
	}
	ms, err := strconv.Atoi(match[1])
	if err != nil {
		b.Fatal(err)
	}
	return trip{took, took, time.Duration(ms) * time.Millisecond}
}

// virshMigrate moves a VM as an administrator does, and returns how long that took.
func virshMigrate(b *testing.B, name string, from, to *lab.Host, flags ...string) time.Duration {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), migrateTimeout)
	defer cancel()
	args := append([]string{
		"--quiet", "--connect", from.SocketURI(), "migrate", "--live", "--persistent", "--undefinesource", name,
		to.SocketURI(), "tcp://" + to.Address,
	}, flags...)
	start := time.Now()
	out, err := exec.CommandContext(ctx, "virsh", args...).CombinedOutput()
	took := time.Since(start)
	if err != nil {
		b.Fatalf("virsh migrate: %v\n%s", err, out)
	}
	return took
}
