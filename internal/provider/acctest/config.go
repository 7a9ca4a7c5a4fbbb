package acctest

import (
	"fmt"
	"strings"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab" //nolint:depguard // Only tests import this package.
)

// Host is one entry of a provider block.
type Host struct {
	// Name is the entry's key. "": the name of Of.
	Name string
	// Of is the host of the lab that the entry connects to. If it is nil, URI is set.
	Of *lab.Host
	// URI replaces the URI of Of.
	URI string
	// Settings are further attributes, as HCL: "fenced = true".
	Settings string
}

// Block is a provider block for hosts of the lab.
type Block struct {
	Lab *lab.Lab
	// Hosts are the entries. If it is nil, they are the two hosts between which VMs migrate.
	Hosts []Host
	// Settings are further attributes of the block, as HCL: "on_unreachable = \"keep\"".
	Settings string
}

// Config returns the provider block for the lab's first two hosts.
func Config(l *lab.Lab) string { return Block{Lab: l}.String() }

// OneHost returns the provider block for the lab's first host alone, kvm1.
func OneHost(l *lab.Lab) string { return On(l, "kvm1") }

// On returns the provider block for one host of the lab alone. Each command of a test asks every host of the block for
// all its VMs: a test that needs no other host doesn't wait for one.
func On(l *lab.Lab, host string) string {
	return Block{Lab: l, Hosts: []Host{{Of: l.Host(host)}}}.String()
}

// String returns the block as HCL.
func (b Block) String() string {
	hosts := b.Hosts
	if hosts == nil {
		hosts = []Host{{Of: b.Lab.Host("kvm1")}, {Of: b.Lab.Host("kvm2")}}
	}
	var out strings.Builder
	out.WriteString("provider \"virtfleet\" {\n  hosts = {\n")
	for _, h := range hosts {
		name, uri := h.Name, h.URI
		if name == "" {
			name = h.Of.Name
		}
		if uri == "" {
			uri = h.Of.URI()
		}
		fmt.Fprintf(&out, "    %q = {\n      uri = %q\n      %s\n    }\n", name, uri, h.Settings)
	}
	out.WriteString("  }\n")
	fmt.Fprintf(&out, "  ssh = {\n    private_key_file = %q\n    known_hosts_file = %q\n    config_file      = \"none\"\n"+
		"    agent            = false\n  }\n", b.Lab.PrivateKeyFile(), b.Lab.KnownHostsFile())
	settings := b.Settings
	if !strings.Contains(settings, "migration_limits") {
		// Tests are separate runs that share hosts, so moves of other tests must not delay one.
		settings += "\n  migration_limits = { per_fleet = 99, outbound_per_host = 99, inbound_per_host = 99 }"
	}
	fmt.Fprintf(&out, "  %s\n}\n", settings)
	return out.String()
}

// Local returns a provider block for libvirt's built-in test driver, which needs no host. All tests in one process
// share the driver's one domain, "test".
func Local(settings string) string {
	return fmt.Sprintf("provider \"virtfleet\" {\n  hosts = { local = { uri = \"test:///default\" } }\n  %s\n}\n",
		settings)
}
