package observe

import (
	"fmt"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/records"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// A VM that migrates is counted once, at the end where its guest runs; one that runs twice without a migration is
// called that, and each copy is counted.
func TestJoinSamples(t *testing.T) {
	t.Parallel()

	const uuid = "9f4f8a0e-6c1c-4a57-8f1e-2d7f3b0c1a55"

	type copyOf struct {
		host          string
		state         libvirt.DomainState
		reason        string
		active, known bool // It has a process; its definition outlives that.
	}

	running := func(host, reason string, known bool) copyOf {
		return copyOf{host, libvirt.Running, reason, true, known}
	}
	paused := func(host, reason string, known bool) copyOf {
		return copyOf{host, libvirt.Paused, reason, true, known}
	}

	for name, test := range map[string]struct {
		copies         []copyOf
		home, from     string
		printed, twice string
	}{
		"quiet": {
			[]copyOf{running("a", "Booted", true), {"b", libvirt.Shutoff, "Migrated", false, true}},
			"a", "",
			"Running", "False",
		},
		"user's pause": {[]copyOf{paused("a", "User", true)}, "a", "", "Paused", "False"},
		"pre-copy": {
			[]copyOf{paused("b", "Migration", false), running("a", "Booted", true)},
			"a", "a", "Migrating",
			"False",
		},
		"paused, pre-copy": {
			[]copyOf{paused("b", "Migration", false), paused("a", "User", true)},
			"a", "a",
			"Migrating", "False",
		},
		"post-copy": {
			[]copyOf{paused("a", "Postcopy", true), running("b", "Postcopy", false)},
			"b", "a", "Migrating",
			"False",
		},
		"post-copy failed": {
			[]copyOf{paused("a", "PostcopyFailed", true), running("b", "PostcopyFailed", false)},
			"b", "",
			"Migrating", "False",
		},
		"source lost": {
			[]copyOf{{"a", libvirt.Shutoff, "Crashed", false, true}, running("b", "PostcopyFailed", false)},
			"b", "", "Failed", "False",
		},
		"source has sent all": {
			[]copyOf{{"a", libvirt.Shutoff, "Migrated", false, true}, running("b", "PostcopyFailed", false)},
			"b", "", "Unknown", "False", // No record says that it was the source.
		},
		"stopped": {[]copyOf{{"a", libvirt.Shutoff, "Destroyed", false, true}}, "a", "", "Stopped", "False"},
		"arrived": {[]copyOf{running("b", "Migrated", true)}, "b", "", "Running", "False"},
		"twice":   {[]copyOf{running("a", "Booted", true), running("b", "Booted", true)}, "a", "", "Unknown", "True"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			ob := observer(t, map[string]inventory.HostConfig{
				"a": {URI: "test:///default"}, "b": {URI: "test:///default"},
			})

			by := map[string]HostSamples{}
			for _, h := range ob.hosts.Configured {
				v := inventory.NewView(&libvirt.HostInfo{UUID: h.Name}, map[string]*inventory.Entry{})
				by[h.Name] = HostSamples{view: v, record: records.Recording{Host: h}}
			}

			for _, c := range test.copies {
				xml := fmt.Sprintf(`<domain type="qemu"><name>web</name><uuid>%s</uuid><memory>1024</memory>
					<os><type arch="x86_64" machine="q35">hvm</type></os></domain>`, uuid)
				d := libvirt.Domain{UUID: uuid, Name: "web", State: c.state, Reason: c.reason, Persistent: c.known}

				if c.active {
					d.LiveXML = xml
				}

				if c.known {
					d.PersistentXML = xml
				}

				s := by[c.host]
				s.view.Domains[uuid] = inventory.NewEntry(d)

				vm, err := inventory.NewVM(inventory.Reply{Host: s.record.Host, Info: s.view.Info, Domain: s.view.Domains[uuid]})
				if err != nil {
					t.Fatal(err)
				}

				s.VMs = append(s.VMs, Sample{VM: vm})
				by[c.host] = s
			}

			joined := ob.JoinSamples(t.Context(), []HostSamples{by["a"], by["b"]})
			if len(joined) != 1 {
				t.Fatalf("%d VMs", len(joined))
			}

			m := joined[0]
			facts := m.Facts()

			var from string
			if source := m.Source(); source != nil {
				from = source.VM.Host
			}

			if m.Home().VM.Host != test.home || from != test.from {
				t.Errorf("at home on %s, being moved from %q", m.Home().VM.Host, from)
			}

			if printed := status.PrintableStatus(facts); printed != test.printed {
				t.Errorf("it is %s", printed)
			}

			if c := status.ConditionOf(facts, status.TwoCopies); string(c.Status) != test.twice {
				t.Errorf("%+v", c)
			}
		})
	}
}
