package virtualmachine

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
)

// planCase is one plan of an existing VM.
type planCase struct {
	// before was applied, config is planned.
	before, config in
	// seen changes the state as a reading would that found it so.
	seen func(*model)
	// live changes the definition that runs; off says that none does.
	live func(*domain.Spec)
	off  bool

	// agreed changes what both definitions said when they last agreed; nil: they agree.
	agreed func(*domain.Spec)
	// beforeDrift changes what the state said before someone changed the VM; nil: no user has.
	beforeDrift func(*domain.Spec)

	// applied are the sources that the disks had when they were last applied, recorded those of the VM's metadata.
	applied  map[string]domain.DiskSource
	recorded map[string]string
	// saved says that the VM resumes from saved memory.
	saved bool
	// savedAs changes the definition with which the memory was saved.
	savedAs func(*domain.Spec)
	// unfinished are the paths of changes that an apply which failed has left in the definition.
	unfinished []string
	// evicting says that a drain is about to take the VM away, evicted that one has turned it off.
	evicting, evicted string
	// transient says that the VM was imported without a definition.
	transient bool

	// changes are the top-level attributes that are planned to change, in order.
	changes string
	// replaces is the attribute that needs a new VM.
	replaces string
	// says are parts of the diagnostics; none means that there are no diagnostics.
	says []string
	// planned are values to look at.
	planned func(*testing.T, *model)
}

func (c planCase) run(t *testing.T) {
	t.Helper()
	state := stateAfterApply(t, c.before)
	p := planning{config: modelOf(t, c.config), state: state, hosts: []string{"kvm1", "kvm2", "kvm3"}}
	if !c.off {
		p.live = vmAfterApply(t, c.before).LiveSpec
		if c.live != nil {
			c.live(p.live)
		}
		if c.agreed != nil {
			p.agreed = vmAfterApply(t, c.before).PersistentSpec
			c.agreed(p.agreed)
		}
		if c.beforeDrift != nil {
			p.beforeDrift = vmAfterApply(t, c.before).PersistentSpec
			c.beforeDrift(p.beforeDrift)
		}
	}
	p.applied, p.recorded, p.saved, p.transient = c.applied, c.recorded, c.saved, c.transient
	p.evicting, p.evicted, p.unseen = c.evicting, c.evicted, c.unfinished
	if c.savedAs != nil {
		p.savedAs = vmAfterApply(t, c.before).PersistentSpec
		c.savedAs(p.savedAs)
	}
	if c.seen != nil {
		c.seen(state)
	}
	before := *state
	o := p.plan()
	if !equal(&before, state) {
		t.Error("planning changed the state")
	}

	if got := strings.Join(changedAttributes(state, &o.planned), " "); got != c.changes && c.replaces == "" {
		t.Errorf("changes %q, want %q", got, c.changes)
	}
	if o.changed != (c.changes != "" || c.replaces != "") {
		t.Errorf("changed = %t", o.changed)
	}
	if got := o.replace.String(); got != "["+c.replaces+"]" {
		t.Errorf("replaces %s, want %q", got, c.replaces)
	}
	got := diagText(o.diags)
	if len(c.says) == 0 && got != "" {
		t.Errorf("unexpected: %s", got)
	}
	for _, part := range c.says {
		if !strings.Contains(got, part) {
			t.Errorf("diagnostics don't say %q: %s", part, got)
		}
	}
	if c.planned != nil {
		c.planned(t, &o.planned)
	}
	if again := p.plan(); !equal(&again.planned, &o.planned) {
		t.Error("a second plan differs")
	}
}

// changedAttributes lists the top-level attributes in which two models differ.
func changedAttributes(a, b *model) []string {
	var names []string
	for _, p := range attributePairs(vmSchema.Attributes, a, b) {
		if !p.a.Equal(p.b) {
			names = append(names, p.name)
		}
	}
	return names
}

func wantValue(t *testing.T, name string, got, want attr.Value) {
	t.Helper()
	if !got.Equal(want) {
		t.Errorf("%s = %s, want %s", name, got, want)
	}
}

// located changes an attribute of the location that was seen, and locationPlanned expects the value that is planned.
func located(name string, v attr.Value) func(*model) {
	return func(s *model) { s.planLocation(map[string]attr.Value{name: v}) }
}

func locationPlanned(name string, want attr.Value) func(*testing.T, *model) {
	return func(t *testing.T, m *model) {
		t.Helper()
		wantValue(t, "location."+name, open(m.Location)[name], want)
	}
}

func runAll(t *testing.T, cases map[string]planCase) {
	t.Helper()
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.run(t)
		})
	}
}

func TestPlan_nothingToChange(t *testing.T) {
	t.Parallel()
	runAll(t, map[string]planCase{
		"minimal": {before: minimal, config: minimal},
		"full":    {before: full, config: full},
		"undeclared": {
			before: full.without("wait_for"), config: full.without("cpu", "firmware", "disks", "interfaces", "wait_for"),
		},
		"undeclared within a block": {
			before: full,
			config: full.with(in{"cpu": in{"cores": 2}, "firmware": in{"type": "efi"}, "memory": in{"size": "1Gi"}}),
		},
		"another notation": {
			before: full,
			config: full.with(in{
				"memory": in{"size": "1024Mi", "max_size": "4096Mi"}, "termination_grace_period": "1m",
			}),
		},
		"a size that QEMU gives out in whole MiB": {
			before: minimal.with(in{"memory": in{"size": "131073Ki", "max_size": "1048577Ki"}}),
			config: minimal.with(in{"memory": in{"size": "131073Ki", "max_size": "1048577Ki"}}),
			live: func(s *domain.Spec) {
				s.Memory.Size, s.Memory.Installed = new(uint64(132096<<10)), new(uint64(132096<<10))
			},
		},
		"a versioned machine type": {
			before: minimal.with(in{"machine_type": "pc-q35-7.2"}), config: minimal.with(in{"machine_type": "q35"}),
		},
		"vcpus and the topology that gives them": {
			before: minimal.with(in{"cpu": in{"cores": 2, "sockets": 2}}), config: minimal.with(in{"cpu": in{"vcpus": 4}}),
		},
		"moved while not pinned": {
			before: minimal, config: minimal,
			seen: func(s *model) { s.CurrentHost = types.StringValue("kvm2") },
		},
	})
}

func TestPlan_changes(t *testing.T) {
	t.Parallel()
	runAll(t, map[string]planCase{
		"labels leave everything else known": {
			before: full, config: full.with(in{"labels": in{"app": "db"}}), changes: "labels",
		},
		"removing what only we know": {
			before:  full,
			config:  full.without("labels", "placement", "termination_grace_period", "deletion_protection", "host", "timeouts"),
			changes: "host placement labels termination_grace_period deletion_protection timeouts",
		},
		"a new disk is known but for what isn't declared": {
			before:  minimal.with(in{"disks": in{"a": in{"file": "/a"}}}),
			config:  minimal.with(in{"disks": in{"a": in{"file": "/a"}, "b": in{"file": "/b"}}}),
			changes: "disks",
			planned: func(t *testing.T, m *model) {
				t.Helper()
				disks := elements(m.Disks)
				wantValue(t, "a.bus", disks["a"].Attributes()["bus"], types.StringValue("virtio"))
				wantValue(t, "b.bus", disks["b"].Attributes()["bus"], types.StringUnknown())
				wantValue(t, "b.block", disks["b"].Attributes()["block"], types.StringNull())
				wantValue(t, "b.other", disks["b"].Attributes()["other"], types.StringNull())
			},
		},
		"a place in the boot order that another device gets": {
			before: minimal.with(in{
				"disks":      in{"a": in{"file": "/a", "boot_order": 1}, "b": in{"file": "/b", "boot_order": 2}},
				"interfaces": in{"lan": in{"network": "default", "boot_order": 3}}, "update_policy": "Stage",
			}),
			config: minimal.with(in{
				"disks":      in{"a": in{"file": "/a"}, "b": in{"file": "/b", "boot_order": 3}},
				"interfaces": in{"lan": in{"network": "default"}}, "update_policy": "Stage",
			}),
			changes: "disks interfaces ip_addresses restart_required",
			says:    []string{"Warning: Changes wait for the next start", "disks.b.boot_order: "},
			planned: func(t *testing.T, m *model) {
				t.Helper()
				wantValue(t, "a", elements(m.Disks)["a"].Attributes()["boot_order"], types.Int64Value(1))
				wantValue(t, "lan", elements(m.Interfaces)["lan"].Attributes()["boot_order"], types.Int64Null())
			},
		},
		"a disk that isn't declared goes": {
			before:  minimal.with(in{"disks": in{"a": in{"file": "/a"}, "b": in{"file": "/b"}}}),
			config:  minimal.with(in{"disks": in{"a": in{"file": "/a"}}}),
			changes: "disks",
		},
		"a new interface may have an address": {
			before:  minimal.with(in{"interfaces": in{}}),
			config:  minimal.with(in{"interfaces": in{"lan": in{"network": "default"}}}),
			changes: "interfaces ip_addresses",
		},
		"vcpus follow from a topology": {
			before:  minimal.with(in{"cpu": in{"vcpus": 2, "max_sockets": 4}}),
			config:  minimal.with(in{"cpu": in{"sockets": 3}}),
			changes: "cpu",
			planned: func(t *testing.T, m *model) {
				t.Helper()
				wantValue(t, "vcpus", m.CPU.Attributes()["vcpus"], types.Int64Value(3))
			},
		},
		"the topology follows from vcpus": {
			before:  minimal.with(in{"cpu": in{"cores": 2, "sockets": 1, "max_sockets": 4}}),
			config:  minimal.with(in{"cpu": in{"vcpus": 6}}),
			changes: "cpu",
			planned: func(t *testing.T, m *model) {
				t.Helper()
				wantValue(t, "sockets", m.CPU.Attributes()["sockets"], types.Int64Value(3))
				wantValue(t, "max_sockets", m.CPU.Attributes()["max_sockets"], types.Int64Value(4))
			},
		},
		"a priority goes with its scheduler": {
			before: minimal.with(in{"cpu": in{"emulator_scheduler": in{"type": "fifo", "priority": 5}}}),
			config: minimal.with(in{"cpu": in{"emulator_scheduler": in{"type": "batch"}}, "update_policy": "Stage"}),

			changes: "cpu update_policy restart_required",
			says:    []string{"Warning: Changes wait for the next start", "cpu.emulator_scheduler.type: "},
			planned: func(t *testing.T, m *model) {
				t.Helper()
				wantValue(t, "priority", valueAt(m.CPU, []string{"emulator_scheduler", "priority"}), types.Int64Null())
			},
		},
		"a priority stays with its scheduler": {
			before: minimal.with(in{"cpu": in{"emulator_scheduler": in{"type": "fifo", "priority": 5}}}),
			config: minimal.with(in{"cpu": in{"emulator_scheduler": in{"type": "fifo"}}}),
		},
		"a scheduler that isn't known yet": {
			before: minimal.with(in{"cpu": in{"emulator_scheduler": in{"type": "fifo", "priority": 5}}}),
			config: minimal.with(in{"cpu": in{"emulator_scheduler": in{"type": unknownMark}}, "update_policy": "Stage"}),

			changes: "cpu update_policy restart_required",
			planned: func(t *testing.T, m *model) {
				t.Helper()
				wantValue(t, "priority", valueAt(m.CPU, []string{"emulator_scheduler", "priority"}), types.Int64Unknown())
			},
		},
		"what only virtiofs has goes with it": {
			before: minimal.with(in{"devices": in{"filesystems": in{"a": in{
				"target": "t", "source": "/s", "driver": "virtiofs", "cache": "none", "queue_size": 1024, "xattr": true,
			}}}}),
			config: minimal.with(in{"update_policy": "Stage", "devices": in{"filesystems": in{"a": in{
				"target": "t", "source": "/s", "driver": "9p",
			}}}}),

			changes: "devices update_policy restart_required",
			says:    []string{"Warning: Changes wait for the next start", "devices.filesystems.a.driver: "},
			planned: func(t *testing.T, m *model) {
				t.Helper()
				at := func(name string) attr.Value { return valueAt(m.Devices, []string{"filesystems", "a", name}) }
				wantValue(t, "cache", at("cache"), types.StringNull())
				wantValue(t, "queue_size", at("queue_size"), types.Int64Null())
				wantValue(t, "xattr", at("xattr"), types.BoolNull())
			},
		},
		"a time zone goes with the offset": {
			before: minimal.with(in{"platform": in{"clock": in{"offset": "timezone", "timezone": "Europe/Berlin"}}}),
			config: minimal.with(in{"platform": in{"clock": in{"offset": "utc"}}, "update_policy": "Stage"}),

			changes: "platform update_policy restart_required",
			says:    []string{"Warning: Changes wait for the next start", "platform.clock.offset: "},
			planned: func(t *testing.T, m *model) {
				t.Helper()
				wantValue(t, "timezone", valueAt(m.Platform, []string{"clock", "timezone"}), types.StringNull())
			},
		},
		"a stale definition is removed": {
			before: minimal, config: minimal, changes: "location",
			seen:    located("stale_definitions", staleFromFleet([]string{"kvm2"})),
			planned: locationPlanned("stale_definitions", staleFromFleet(nil)),
		},
		"volumes that a move left are removed": {
			before: minimal, config: minimal, changes: "location",
			seen:    located("left_volumes", staleFromFleet([]string{"kvm2: vms/web-root"})),
			planned: locationPlanned("left_volumes", staleFromFleet(nil)),
		},
		"a definition that was lost comes back": {
			before: minimal, config: minimal, changes: "location",
			seen:    located("persistent", types.BoolValue(false)),
			planned: locationPlanned("persistent", types.BoolValue(true)),
		},
		"autostart that was switched off": {
			before: minimal, config: minimal, changes: "autostart",
			seen: func(s *model) { s.Autostart = types.BoolValue(false) },
		},
		"autostart that a drain has switched off": {
			before: minimal, config: minimal, evicting: "alice drains it",
			seen: func(s *model) { s.Autostart, s.Ready = types.BoolValue(false), types.BoolValue(false) },
			says: []string{"Warning: Virtual machine is being evicted", "alice drains it", "autostart", "@status"},
		},
		"a drain that has changed nothing yet": {before: minimal, config: minimal, evicting: "alice drains it"},
		"autostart is as it is where it isn't managed": {
			before: minimal.with(in{"run_strategy": "Manual"}), config: minimal.with(in{"run_strategy": "Manual"}),
			seen: func(s *model) { s.Autostart = types.BoolValue(false) },
		},
		"arch": {
			before: minimal, config: minimal.with(in{"arch": "aarch64"}), replaces: "arch",
		},
		"VM of another family": {
			before: minimal, config: minimal.with(in{"machine_type": "pc"}), replaces: "machine_type",
		},
		"replacing a protected VM": {
			before: minimal.with(in{"deletion_protection": true}), config: minimal.with(in{"arch": "aarch64"}),
			replaces: "arch", says: []string{"Error: Virtual machine is protected", "deletion_protection = false", "@arch"},
		},
	})
}

func TestPlan_power(t *testing.T) {
	t.Parallel()
	stopped := func(s *model) {
		s.Status, s.Phase = types.StringValue(status.StatusStopped), types.StringValue(status.PhaseSucceeded)
		s.StatusReason, s.Ready = types.StringValue("Shutdown"), types.BoolValue(false)
		s.IPAddresses = addressesFromFleet(nil)
	}
	offSince := func(reason string) func(s *model) {
		return func(s *model) {
			stopped(s)
			s.StatusReason = types.StringValue(reason)
		}
	}
	paused := func(reason string) func(s *model) {
		return func(s *model) {
			s.Status, s.Ready = types.StringValue(status.StatusPaused), types.BoolValue(false)
			s.StatusReason = types.StringValue(reason)
		}
	}
	starting := func(s *model) {
		s.Status, s.StatusReason = types.StringValue(status.StatusStarting), types.StringValue("StartingUp")
		s.Ready = types.BoolValue(false)
	}
	up := "phase status status_reason ready ip_addresses"
	runAll(t, map[string]planCase{
		"starting": {before: minimal, config: minimal, seen: starting},
		"starting, and changed": {
			before: minimal, config: minimal.with(in{"labels": in{"a": "b"}}), seen: starting, changes: "labels " + up,
		},
		"stopped, Always": {
			before: minimal, config: minimal, seen: stopped, off: true, changes: up,
			planned: func(t *testing.T, m *model) {
				t.Helper()
				wantValue(t, "status", m.Status, types.StringValue("Running"))
				wantValue(t, "phase", m.Phase, types.StringValue("Running"))
				wantValue(t, "ready", m.Ready, types.BoolValue(true))
				wantValue(t, "status_reason", m.StatusReason, types.StringUnknown())
			},
		},
		"stopped, Manual": {
			before: minimal.with(in{"run_strategy": "Manual"}), config: minimal.with(in{"run_strategy": "Manual"}),
			seen: stopped, off: true,
		},
		"stopped, Halted, and started with its host by a user": {
			before: minimal.with(in{"run_strategy": "Halted"}), config: minimal.with(in{"run_strategy": "Halted"}),
			off: true, changes: "autostart",
			seen: func(s *model) {
				stopped(s)
				s.Autostart = types.BoolValue(true)
			},
			planned: func(t *testing.T, m *model) {
				t.Helper()
				wantValue(t, "autostart", m.Autostart, types.BoolValue(false))
			},
		},
		"running, Halted": {
			before: minimal, config: minimal.with(in{"run_strategy": "Halted"}),
			changes: "run_strategy phase status status_reason ready ip_addresses autostart",
		},
		"off since an interrupted restart, Manual": {
			before: minimal.with(in{"run_strategy": "Manual"}), config: minimal.with(in{"run_strategy": "Manual"}),
			seen: offSince(status.ReasonRestartInterrupted), off: true, changes: up,
			says: []string{"Warning: Restart of the virtual machine was interrupted", "This apply starts it", "Halted"},
			planned: func(t *testing.T, m *model) {
				t.Helper()
				wantValue(t, "status", m.Status, types.StringValue("Running"))
			},
		},
		"off since an interrupted restart, Halted by now": {
			before: minimal.with(in{"run_strategy": "Once"}), config: minimal.with(in{"run_strategy": "Halted"}),
			seen: offSince(status.ReasonRestartInterrupted), off: true,
			changes: "run_strategy status_reason autostart",
		},
		"off since a restart of long ago, Once": {
			before: minimal.with(in{"run_strategy": "Once"}), config: minimal.with(in{"run_strategy": "Once"}),
			seen: offSince(status.ReasonRestartLapsed), off: true,
			says: []string{"Warning: Restart of the virtual machine was interrupted", "It isn't started", "virsh start"},
		},
		"paused by a user, Always": {
			before: minimal, config: minimal, seen: paused("User"), changes: "status status_reason ready ip_addresses",
		},
		"paused by an interrupted move, Manual": {
			before: minimal.with(in{"run_strategy": "Manual"}), config: minimal.with(in{"run_strategy": "Manual"}),
			seen: paused(status.ReasonStranded), changes: "status status_reason ready ip_addresses",
		},
		"paused by an I/O error, Always": {
			before: minimal, config: minimal, seen: paused("IOError"),
			says: []string{"Warning: Virtual machine is paused", "IOError", "virsh resume"},
		},
		"not ready yet": {
			before: full, config: full, changes: "ready ip_addresses",
			seen: func(s *model) { s.Ready = types.BoolValue(false) },
		},
	})
}

// TestPlan_powerOfItsApply: what an apply may do to the VM's power is what its plan shows. If the plan can't know it,
// the apply is free.
func TestPlan_powerOfItsApply(t *testing.T) {
	t.Parallel()
	restarting := in{"update_policy": "Restart", "cpu": in{"mode": "maximum"}}
	shows := func(seen string, action status.Action, restarts bool) *fleet.PlannedPower {
		return &fleet.PlannedPower{Status: seen, Action: action, Restarts: restarts}
	}
	for name, tt := range map[string]struct {
		wish in
		seen string
		want *fleet.PlannedPower
	}{
		"runs":                             {in{"title": "a"}, "Running", shows("Running", status.None, false)},
		"off":                              {in{"title": "a"}, "Stopped", shows("Stopped", status.Start, false)},
		"stays off":                        {in{"run_strategy": "Manual"}, "Stopped", shows("Stopped", status.None, false)},
		"goes off":                         {in{"run_strategy": "Halted"}, "Running", shows("Running", status.Stop, false)},
		"restarts":                         {restarting, "Running", shows("Running", status.None, true)},
		"is on its way up":                 {in{"title": "a"}, "Starting", nil},
		"has a strategy that is not known": {in{"run_strategy": unknownMark}, "Stopped", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := planning{config: modelOf(t, minimal.with(tt.wish)), state: stateAfterApply(t, minimal)}
			p.state.Status = types.StringValue(tt.seen)
			if tt.seen != status.StatusStopped {
				p.live = vmAfterApply(t, minimal).LiveSpec
			}
			o := p.plan()
			if !o.changed || o.diags.HasError() {
				t.Errorf("changed %v: %s", o.changed, diagText(o.diags))
			}
			if (o.power == nil) != (tt.want == nil) || o.power != nil && *o.power != *tt.want {
				t.Errorf("the plan shows %+v, want %+v", o.power, tt.want)
			}
		})
	}
}

func TestPlan_host(t *testing.T) {
	t.Parallel()
	runAll(t, map[string]planCase{
		"pinned to where it is": {before: minimal, config: minimal.with(in{"host": "kvm1"}), changes: "host"},
		"no longer pinned":      {before: minimal.with(in{"host": "kvm1"}), config: minimal, changes: "host"},
		"pinned to another host": {
			before: minimal, config: minimal.with(in{"host": "kvm2"}),
			changes: "host current_host location status_reason ip_addresses",
			planned: func(t *testing.T, m *model) {
				t.Helper()
				wantValue(t, "current_host", m.CurrentHost, types.StringValue("kvm2"))
				locationPlanned("host_uuid", types.StringUnknown())(t, m)
				locationPlanned("persistent", types.BoolValue(true))(t, m)
				wantValue(t, "status", m.Status, types.StringValue("Running"))
			},
		},
		"pinned to another host, and off for the maintenance of its own": {
			before: minimal, config: minimal.with(in{"host": "kvm2"}), evicted: "alice drains it", off: true,
			seen: func(s *model) {
				s.Status, s.Phase = types.StringValue(status.StatusStopped), types.StringValue(status.PhaseSucceeded)
				s.Ready, s.Autostart = types.BoolValue(false), types.BoolValue(false)
			},
			changes: "host current_host location phase status status_reason ready ip_addresses autostart",
			planned: func(t *testing.T, m *model) {
				t.Helper()
				wantValue(t, "status", m.Status, types.StringValue("Running"))
				wantValue(t, "autostart", m.Autostart, types.BoolValue(true))
			},
		},
		"moved away from its pin": {
			before: minimal.with(in{"host": "kvm1"}), config: minimal.with(in{"host": "kvm1"}),
			seen:    func(s *model) { s.CurrentHost = types.StringValue("kvm3") },
			changes: "current_host location status_reason ip_addresses",
			planned: func(t *testing.T, m *model) {
				t.Helper()
				wantValue(t, "current_host", m.CurrentHost, types.StringValue("kvm1"))
			},
		},
		"moved, and never pinned": {
			before: minimal, config: minimal,
			seen: func(s *model) { s.CurrentHost = types.StringValue("kvm3") },
		},
		"pinned to a host that isn't known yet": {
			before: minimal.with(in{"host": "kvm1"}), config: minimal.with(in{"host": unknownMark}),
			changes: "host current_host location status_reason ip_addresses",
			says:    []string{"Warning: Virtual machine may be moved: web", "from host \"kvm1\"", "@host"},
			planned: func(t *testing.T, m *model) {
				t.Helper()
				wantValue(t, "current_host", m.CurrentHost, types.StringUnknown())
			},
		},
		"pinned to a host that isn't there": {
			before: minimal, config: minimal.with(in{"host": "kvm9"}), changes: "host",
		},
		"options alone move nothing": {
			before:  minimal.with(in{"host": "kvm1"}),
			config:  minimal.with(in{"host": "kvm1", "migration_options": in{"bandwidth": "1Gi"}}),
			changes: "migration_options",
		},
		"options in another notation": {
			before: minimal.with(in{"migration_options": in{"bandwidth": "1Gi", "progress_timeout": "60s"}}),
			config: minimal.with(in{"migration_options": in{"bandwidth": "1024Mi", "progress_timeout": "1m"}}),
		},
	})
}

func TestPlan_restart(t *testing.T) {
	t.Parallel()
	cpuMode := func(policy string) in {
		return minimal.with(in{"cpu": in{"mode": "maximum"}, "update_policy": policy})
	}
	before := func(policy string) in { return minimal.with(in{"update_policy": policy}) }
	titled := before("Live").with(in{"title": "Web"})
	staged := func(s *domain.Spec) { s.CPU.Mode = ptr("host-passthrough") }
	waiting := func(s *model) { s.RestartRequired = types.BoolValue(true) }
	cases := map[string]planCase{
		"refused": {
			before: before("Live"), config: cpuMode("Live"), changes: "cpu",
			says: []string{
				"Error: Change needs a restart", `"web"`, "cpu.mode: ", `update_policy = "Restart"`, `"Stage"`, "@cpu",
			},
		},
		"refused of a volume, by the attribute that users wrote": {
			before: before("Live").with(in{"disks": in{"data": in{"volume": "/images/a"}}}),
			config: before("Live").with(in{"disks": in{"data": in{"volume": "/images/b"}}}), changes: "disks",
			says: []string{"Error: Change needs a restart", "disks.data.volume: ", "@disks"},
		},
		"the file with the variables is left": {
			before:  before("Stage").with(in{"firmware": in{"type": "efi", "nvram": "/a.fd"}}),
			config:  before("Stage").with(in{"firmware": in{"type": "efi", "nvram": "/b.fd"}}),
			changes: "firmware restart_required",
			says:    []string{"Warning: File with UEFI variables is left", `"/a.fd", stays`, "@firmware"},
		},
		"refused by default": {
			before: minimal, config: cpuMode("Live").without("update_policy"), changes: "cpu",
			says: []string{"Error: Change needs a restart"},
		},
		"refused of a device that the VM has, though it wasn't declared": {
			before: before("Live"), config: before("Live").with(in{"devices": in{"video": in{"primary": true}}}),
			changes: "devices",
			live:    func(s *domain.Spec) { s.Values = domain.Values{"devices.video.model": "virtio"} },
			says:    []string{"Error: Change needs a restart", "devices.video.primary: "},
		},
		"not known yet whether it is restarted": {
			before: before("Restart"), config: cpuMode(unknownMark), changes: "cpu update_policy status_reason " +
				"ip_addresses restart_required",
			says: []string{"Warning: Virtual machine may be restarted: ", "  - update_policy", "@update_policy"},
		},
		"not known yet whether it is to run": {
			before: before("Restart"), config: cpuMode("Restart").with(in{"run_strategy": unknownMark}),
			changes: "cpu run_strategy phase status status_reason ready ip_addresses restart_required autostart",
			says: []string{
				"Warning: Virtual machine may be stopped: ", "the apply may restart it for the other changes", "@run_strategy",
			},
		},
		"restarted": {
			before: before("Restart"), config: cpuMode("Restart"), changes: "cpu status_reason ip_addresses",
			says: []string{"Warning: Virtual machine will be restarted", "cpu.mode: ", "@update_policy"},
			planned: func(t *testing.T, m *model) {
				t.Helper()
				wantValue(t, "status", m.Status, types.StringValue("Running"))
				wantValue(t, "restart_required", m.RestartRequired, types.BoolValue(false))
			},
		},
		"staged": {
			before: before("Stage"), config: cpuMode("Stage").with(in{"title": "Web"}), changes: "cpu title restart_required",
			says: []string{
				"Warning: Changes wait for the next start: web", "wait for its next start:\n  - cpu.mode: ",
				"makes these at once:\n  - title: ", "@update_policy",
			},
			planned: func(t *testing.T, m *model) {
				t.Helper()
				wantValue(t, "restart_required", m.RestartRequired, types.BoolValue(true))
			},
		},
		"restarted for what a booted guest doesn't read": {
			before:  withIgnition(in{"config_wo_version": "1"}).with(in{"update_policy": "Restart"}),
			config:  withIgnition(in{"config_wo_version": "2"}).with(in{"update_policy": "Restart"}),
			changes: "ignition status_reason ip_addresses",
			says:    []string{"Warning: Virtual machine will be restarted", "a guest that has booted ignores", "\"Stage\""},
		},
		"restarted, with what an apply that failed has left": {
			before: before("Restart"), config: cpuMode("Restart"), seen: waiting,
			changes:    "cpu status_reason ip_addresses restart_required",
			unfinished: []string{"devices.watchdog.model"},
			says: []string{
				"Warning: Virtual machine will be restarted", "cpu.mode: ", "\n  - devices.watchdog.model", "declare",
			},
			planned: func(t *testing.T, m *model) {
				t.Helper()
				wantValue(t, "restart_required", m.RestartRequired, types.BoolValue(false))
			},
		},
		"another change, with what an apply that failed has left": {
			before: before("Live"), config: before("Live").with(in{"labels": in{"a": "b"}}), seen: waiting,
			changes: "labels restart_required", unfinished: []string{"devices.watchdog.model"},
			says: []string{"Warning: Unfinished changes stay: web", "The next start makes them.\n  - devices.watchdog.model"},
		},
		"a change that is taken back, and one that isn't": {
			before: before("Live"), config: before("Live"), changes: "restart_required", seen: waiting,
			unfinished: []string{"title", "devices.watchdog.model"},
			says: []string{
				"Warning: Unfinished changes are taken back: web", "\n  - title", "Warning: Unfinished changes stay: web",
				"\n  - devices.watchdog.model",
			},
		},
		"staged before": {before: cpuMode("Stage"), config: cpuMode("Stage"), live: staged, seen: waiting},
		// As after an interrupted restart, whose update_policy was given for that apply alone.
		"staged before, now Live": {
			before: cpuMode("Live"), config: cpuMode("Live"), live: staged, seen: waiting,
			says: []string{"Warning: Changes wait for the next start: web", "  - cpu.mode: ", "@update_policy"},
		},
		"staged before, now Restart": {
			before: cpuMode("Stage"), config: cpuMode("Restart"), live: staged, seen: waiting,
			changes: "update_policy status_reason ip_addresses restart_required",
			says:    []string{"Warning: Virtual machine will be restarted"},
		},
		"while it is off": {
			before: before("Live").with(in{"run_strategy": "Manual"}),
			config: cpuMode("Live").with(in{"run_strategy": "Manual"}), off: true, changes: "cpu",
			seen: func(s *model) {
				s.Status, s.Phase, s.Ready = types.StringValue("Stopped"), types.StringValue("Succeeded"), types.BoolValue(false)
			},
		},
		"the running VM lacks what it can take, and the definition has it": {
			before: titled, config: titled, changes: "restart_required", seen: waiting,
			live: func(s *domain.Spec) { s.Values = domain.Values{"title": "as it was"} },
			says: []string{"Warning: Running virtual machine lacks changes", "title: ", "@restart_required"},
		},
		"only the definition for the next start drifted": {
			before: cpuMode("Live"), config: cpuMode("Live"), changes: "cpu restart_required",
			seen: func(s *model) {
				s.RestartRequired = types.BoolValue(true)
				cpu := open(s.CPU)
				cpu["mode"] = types.StringValue("host-passthrough")
				s.CPU = types.ObjectValueMust(cpuType.AttrTypes, cpu)
			},
		},
	}
	counted := func(policy string, n int) in { return before(policy).with(in{"cpu": in{"vcpus": n, "max_sockets": 4}}) }
	one := func(s *domain.Spec) { s.CPU.VCPUs, s.CPU.Sockets = ptr(1), ptr(1) }
	byHand := []string{
		"Warning: Running virtual machine differs from its definition", `"web" on host "kvm1"`,
		"cpu.vcpus: The running VM has 2, declared is 1. Not every guest", "virsh", `update_policy = "Restart"`,
		"@restart_required",
	}
	for _, policy := range []string{"Live", "Stage"} {
		cases["a virtual CPU was plugged in by hand, "+policy] = planCase{
			before: counted(policy, 2), config: counted(policy, 1), agreed: one, says: byHand, seen: waiting, changes: "cpu",
			planned: func(t *testing.T, m *model) {
				t.Helper()
				wantValue(t, "restart_required", m.RestartRequired, types.BoolValue(true))
			},
		}
	}
	cases["a virtual CPU was plugged in by hand, Restart"] = planCase{
		before: counted("Restart", 2), config: counted("Restart", 1), agreed: one, seen: waiting,
		changes: "cpu status_reason ip_addresses restart_required",
		says:    []string{"Warning: Virtual machine will be restarted"},
	}
	cases["a virtual CPU was plugged in by hand, and is declared"] = planCase{
		before: counted("Live", 2), config: counted("Live", 2), agreed: one, seen: waiting,
	}
	cases["a virtual CPU was plugged in by hand, and another change is live"] = planCase{
		before: counted("Live", 2), config: counted("Live", 1).with(in{"title": "Web"}), agreed: one, seen: waiting,
		changes: "cpu title", says: byHand,
	}
	cases["a virtual CPU was plugged in by hand, and another change is not live"] = planCase{
		before: counted("Live", 2), agreed: one, seen: waiting, changes: "cpu",
		config: before("Live").with(in{"cpu": in{"vcpus": 1, "max_sockets": 4, "mode": "maximum"}}),
		says:   []string{"Error: Change needs a restart", "cpu.mode: "},
	}
	for _, policy := range []string{"Live", "Stage"} {
		cases["a virtual CPU was added to both definitions by hand, "+policy] = planCase{
			before: counted(policy, 2), config: counted(policy, 1), beforeDrift: one, says: byHand,
			changes: "cpu restart_required",
			planned: func(t *testing.T, m *model) {
				t.Helper()
				wantValue(t, "restart_required", m.RestartRequired, types.BoolValue(true))
			},
		}
	}
	cases["a virtual CPU was added to both definitions by hand, Restart"] = planCase{
		before: counted("Restart", 2), config: counted("Restart", 1), beforeDrift: one,
		changes: "cpu status_reason ip_addresses", says: []string{"Warning: Virtual machine will be restarted"},
	}
	cases["a virtual CPU was added to both definitions by hand, and is declared"] = planCase{
		before: counted("Live", 2), config: counted("Live", 2), beforeDrift: one,
	}
	cases["a virtual CPU was added to both definitions by hand, and another number is declared"] = planCase{
		before: counted("Live", 3), config: counted("Live", 2), beforeDrift: one, changes: "cpu",
		says: []string{"Error: Change needs a restart", "cpu.vcpus: "},
	}
	cases["a virtual CPU was added to both definitions by hand, and another change is not live"] = planCase{
		before: counted("Live", 2), beforeDrift: one, changes: "cpu",
		config: before("Live").with(in{"cpu": in{"vcpus": 1, "max_sockets": 4, "mode": "maximum"}}),
		says:   []string{"Error: Change needs a restart", "cpu.mode: "},
	}
	cases["it has another name, by hand"] = planCase{
		before: before("Live").with(in{"name": "other"}), config: before("Live").with(in{"name": "web"}), changes: "name",
		beforeDrift: func(s *domain.Spec) { s.Name = "web" },
		says:        []string{"Error: Change needs a restart", "name: "},
	}
	room := before("Live").with(in{"memory": in{"size": "1Gi", "max_size": "4Gi"}})
	plugged := room.with(in{"devices": in{"virtio_mem": in{"0": in{"size": "1Gi"}}}})
	cases["a device was plugged in by hand"] = planCase{
		before: plugged, config: room.with(in{"devices": in{"virtio_mem": in{}}}), seen: waiting, changes: "devices",
		agreed: func(s *domain.Spec) { s.VirtioMem = map[string]domain.Row{} },
		says:   []string{"devices.virtio_mem.0: It isn't declared. A memory device can't be unplugged"},
	}
	for _, policy := range []string{"Live", "Restart", "Stage"} { // None of them has anything to start it with again.
		cases["refused of a transient one, "+policy] = planCase{
			before: before(policy), config: cpuMode(policy), changes: "cpu", transient: true,
			seen: located("persistent", types.BoolValue(false)),
			says: []string{"Error: Change needs a restart", `"web"`, "transient", "cpu.mode: ", `"virsh define vm.xml"`, "@cpu"},
		}
	}
	runAll(t, cases)
}

func TestPlan_newVM(t *testing.T) {
	t.Parallel()
	p := planning{config: modelOf(t, minimal.with(in{
		"host": "kvm1", "cpu": in{"cores": 2}, "disks": in{"root": in{"volume": unknownMark}},
	}))}
	o := p.plan()
	if !o.changed || len(o.diags) > 0 || len(o.replace) > 0 {
		t.Errorf("changed = %t, replace = %s, diagnostics = %s", o.changed, o.replace, diagText(o.diags))
	}
	m := o.planned
	wantValue(t, "current_host", m.CurrentHost, types.StringValue("kvm1"))
	wantValue(t, "ready", m.Ready, types.BoolUnknown())
	wantValue(t, "machine_type", m.Machine, types.StringUnknown())
	wantValue(t, "vcpus", m.CPU.Attributes()["vcpus"], types.Int64Value(2))
	wantValue(t, "sockets", m.CPU.Attributes()["sockets"], types.Int64Value(1))
	root := elements(m.Disks)["root"].Attributes()
	wantValue(t, "volume", root["volume"], types.StringUnknown())
	wantValue(t, "file", root["file"], types.StringNull())
	wantValue(t, "bus", root["bus"], types.StringUnknown())
}

// TestPlan_countsAreWhatTheDomainMakesOfThem: a planned count that turned out otherwise would fail the apply.
func TestPlan_countsAreWhatTheDomainMakesOfThem(t *testing.T) {
	t.Parallel()
	counts := []in{
		{},
		{"vcpus": 4},
		{"sockets": 2},
		{"cores": 2},
		{"threads": 2},
		{"cores": 2, "threads": 2},
		{"max_sockets": 4},
		{"vcpus": 4, "cores": 2},
		{"sockets": 2, "cores": 2, "max_sockets": 8},
		{"vcpus": 2, "max_sockets": 4},
		{"vcpus": 8, "cores": 2, "threads": 2},
		{"sockets": 3, "max_sockets": 3},
	}
	for _, before := range counts {
		was := minimal.with(in{"cpu": before})
		state, vm := stateAfterApply(t, was), vmAfterApply(t, was)
		for _, after := range counts {
			p := planning{config: modelOf(t, minimal.with(in{"cpu": after})), state: state}
			d, err := domain.New(*vm.PersistentSpec, vm.UUID)
			if err != nil {
				t.Fatal(err)
			}
			if err := d.Apply(p.config.spec(state)); err != nil {
				continue // Refused, so nothing is planned.
			}
			is, planned := open(cpuFromDomain(d.Spec(), state)), open(p.plannedValues().CPU)
			for _, name := range cpuCounts {
				if v := planned[name]; !v.IsUnknown() && !v.Equal(is[name]) {
					t.Errorf("%v, then %v: %s is planned %s and becomes %s", before, after, name, v, is[name])
				}
			}
		}
	}
}

// TestPlan_brokenMigration: what a broken post-copy left in two parts is planned to run again, because the apply
// resumes it; what becomes of it if that can't be is told.
func TestPlan_brokenMigration(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		wish          in
		phase         string
		status, host  attr.Value
		says, saysNot string
	}{
		"both parts": {
			phase: "Running", status: types.StringValue("Running"), host: types.StringValue("kvm1"),
			says: "The apply resumes", saysNot: "on_irrecoverable",
		},
		"given up if lost": {
			wish: in{"migration_options": in{"on_irrecoverable": "destroy"}}, phase: "Running",
			status: types.StringValue("Running"), host: types.StringValue("kvm1"),
			says: `on_irrecoverable = "destroy"`, saysNot: "can't be resumed",
		},
		"one part is gone": {
			phase: "Failed", status: types.StringUnknown(), host: types.StringUnknown(),
			says: "it can't be resumed", saysNot: "The apply resumes",
		},
		"one host is silent": {
			phase: "Unknown", status: types.StringValue("Running"), host: types.StringUnknown(),
			says: "The other host doesn't answer", saysNot: "on_irrecoverable",
		},
		"pinned to another host": {
			wish: in{"host": "kvm2"}, phase: "Running", status: types.StringValue("Running"), host: types.StringValue("kvm2"),
			says: "The apply resumes", saysNot: "can't be resumed",
		},
		"not meant to run": {
			wish: in{"run_strategy": "Halted"}, phase: "Running", status: types.StringValue("Stopped"),
			host: types.StringValue("kvm1"), says: "The apply resumes", saysNot: "can't be resumed",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			state := stateAfterApply(t, minimal)
			state.Status, state.Phase = types.StringValue("Migrating"), types.StringValue(tt.phase)
			state.StatusReason = types.StringValue("PostcopyFailed")
			p := planning{
				config: modelOf(t, minimal.with(tt.wish)), state: state, live: vmAfterApply(t, minimal).LiveSpec,
				hosts: []string{"kvm1", "kvm2"},
			}
			o := p.plan()
			said := diagText(o.diags)
			if !o.changed || !strings.Contains(said, tt.says) || strings.Contains(said, tt.saysNot) {
				t.Errorf("changed %v: %s", o.changed, said)
			}
			wantValue(t, "status", o.planned.Status, tt.status)
			wantValue(t, "status_reason", o.planned.StatusReason, types.StringUnknown())
			wantValue(t, "current_host", o.planned.CurrentHost, tt.host)
			if o.power != nil {
				t.Errorf("the plan can't know what becomes of it, and says %+v", *o.power)
			}
		})
	}
}

// A snapshot or a copy moves the data to another image. Nothing that the configuration says takes the guest back to the
// old one, and no restart is offered.
func TestPlan_imageReplacedOutside(t *testing.T) {
	t.Parallel()
	disk := func(file, policy, strategy string) in {
		return minimal.with(in{
			"disks":         in{"root": in{"file": file, "format": "qcow2"}},
			"update_policy": policy, "run_strategy": strategy,
		})
	}
	const base, overlay = "/images/web.qcow2", "/images/web.snap1"
	overlaid := func(s *domain.Spec) {
		root := s.Disks["root"]
		root.Backing = []domain.DiskSource{{File: base}}
		s.Disks["root"] = root
	}
	applied := map[string]domain.DiskSource{"root": {File: base}}
	cases := map[string]planCase{
		"declared": {
			before: disk(overlay, "Restart", "Always"), config: disk(overlay, "Restart", "Always"), applied: applied,
		},
		"another image is declared": {
			before: disk(overlay, "Live", "Always"), config: disk("/images/new.qcow2", "Live", "Always"), applied: applied,
			changes: "disks", says: []string{"Error: Change needs a restart"},
		},
	}
	for _, policy := range []string{"Live", "Restart", "Stage"} {
		cases["snapshot of a running VM, "+policy] = planCase{
			before: disk(overlay, policy, "Always"), config: disk(base, policy, "Always"), live: overlaid, changes: "disks",
			says: []string{
				"Error: Disk was switched to another image", overlay, base, "overlay", "blockcommit", "@disks",
				"destroy -refresh=false",
			},
		}
		cases["halted, "+policy] = planCase{
			before: disk(overlay, policy, "Halted"), config: disk(base, policy, "Halted"), applied: applied,
			off: true, changes: "disks", says: []string{"Error: Disk was switched to another image", overlay, base},
			seen: func(m *model) {
				m.Status = types.StringValue(status.StatusStopped)
				m.Ready, m.Autostart = types.BoolValue(false), types.BoolValue(false)
			},
		}
	}
	byID := minimal.with(in{
		"disks":         in{"root": in{"volume": "vms/web.qcow2", "format": "qcow2"}},
		"update_policy": "Restart", "run_strategy": "Always",
	})
	byPath := minimal.with(in{
		"disks":         in{"root": in{"volume": overlay, "format": "qcow2"}},
		"update_policy": "Restart", "run_strategy": "Always",
	})
	cases["snapshot of a volume"] = planCase{
		before: byPath, config: byID, applied: applied, live: overlaid, changes: "disks",
		says: []string{"Error: Disk was switched to another image", overlay, base, "blockcommit"},
	}
	recorded := map[string]string{"root": base}
	copied := []string{"Error: Disk was switched to another image", overlay, base, "last set to"}
	cases["imported, after a copy"] = planCase{
		before: disk(overlay, "Restart", "Always"), config: disk(base, "Restart", "Always"), recorded: recorded,
		changes: "disks", says: copied,
	}
	cases["imported, after a copy of a volume"] = planCase{
		before: byPath, config: byID, recorded: recorded, changes: "disks", says: copied,
	}
	const root, other = "rbd:vms/root@ceph1:6789", "rbd:vms/other"
	rbd := func(disk in) in {
		disk["format"] = "raw"
		return minimal.with(in{"disks": in{"root": disk}, "update_policy": "Restart", "run_strategy": "Always"})
	}
	cases["another image than the volume"] = planCase{
		before: rbd(in{"network": in{"protocol": "rbd", "name": "vms/other", "hosts": []string{"ceph1:6789"}}}),
		config: rbd(in{"volume": "ceph/root"}), recorded: map[string]string{"root": root}, changes: "disks",
		says: []string{"Error: Disk was switched to another image", other, "rbd:vms/root", "last set to"},
	}
	runAll(t, cases)
	for name, c := range cases {
		p := planning{
			config: modelOf(t, c.config), state: modelOf(t, c.before), applied: c.applied, recorded: c.recorded,
		}
		if len(p.sourceDrifts(p.specs())) == 0 {
			continue
		}
		for _, d := range p.plan().diags {
			if strings.Contains(d.Summary()+d.Detail(), "restart") {
				t.Errorf("%s: a restart is offered: %s", name, d.Detail())
			}
		}
	}
}

// What the plan can't keep it doesn't promise.
func TestPlan_refusedRatherThanStaged(t *testing.T) {
	t.Parallel()
	nics := func(n int) in {
		all := in{}
		for i := range n {
			all[fmt.Sprintf("n%d", i)] = in{"user": true}
		}
		return minimal.with(in{"interfaces": all, "update_policy": "Live"})
	}
	halted := func(m *model) { m.Status, m.Ready = types.StringValue(status.StatusStopped), types.BoolValue(false) }
	runAll(t, map[string]planCase{
		"more interfaces than slots": {
			before: nics(1), config: nics(20), changes: "interfaces ip_addresses",
			says: []string{"Error: Change needs a restart", "interfaces.n"},
		},
		"less memory without a balloon": {
			before: minimal, config: minimal.with(in{"memory": in{"size": "512Mi"}}), changes: "memory",
			live: func(s *domain.Spec) { s.Memory.Fixed = true }, says: []string{"Error: Change needs a restart", "balloon"},
		},
		"a USB disk without a controller": {
			before: minimal, config: minimal.with(in{"disks": in{"stick": in{"file": "/s.img", "bus": "usb"}}}),
			changes: "disks", live: func(s *domain.Spec) { s.Buses = []string{"pci"} },
			says: []string{"Error: Change needs a restart", "disks.stick", "no USB controller"},
		},
		"the agent's channel without a controller": {
			before:  minimal.with(in{"guest_agent": in{"enabled": false}}),
			config:  minimal.with(in{"guest_agent": in{"enabled": true}}),
			changes: "guest_agent", live: func(s *domain.Spec) { s.Buses = []string{"pci"} },
			says: []string{"Error: Change needs a restart", "guest_agent", "no controller for channels"},
		},
		"a device as XML": {
			before:  minimal.with(in{"extra_device_xml": in{"a": "<hub type='usb'/>"}}),
			config:  minimal.with(in{"extra_device_xml": in{"a": "<shmem name='a'/>", "b": unknownMark}}),
			changes: "extra_device_xml",
			says:    []string{"Error: Change needs a restart", "extra_device_xml.a", "extra_device_xml.b"},
		},
		"a device as XML that isn't known": {
			before:  minimal.with(in{"extra_device_xml": in{"a": "<hub type='usb'/>"}, "update_policy": "Restart"}),
			config:  minimal.with(in{"extra_device_xml": in{"a": unknownMark}, "update_policy": "Restart"}),
			changes: "extra_device_xml status_reason ip_addresses restart_required",
			says:    []string{"Warning: Virtual machine may be restarted: ", "  - extra_device_xml"},
		},
		"a name is not staged": {
			before: minimal.with(in{"update_policy": "Stage"}), config: minimal.with(in{"update_policy": "Stage", "name": "db"}),
			changes: "name", says: []string{"Error: Name can't be staged", "@name"},
		},
		"saved memory resumes the old definition": {
			before: minimal, config: minimal.with(in{"cpu": in{"vcpus": 2}}), off: true, saved: true, seen: halted,
			changes: "cpu status status_reason ready ip_addresses restart_required",
			says: []string{
				"Error: Virtual machine resumes from saved memory", "cpu.", "virsh start", "Stage", "managedsave-remove",
			},
		},
		"saved memory, nothing changed": {
			before: minimal, config: minimal, off: true, saved: true, seen: halted, savedAs: func(*domain.Spec) {},
			changes: "status status_reason ready ip_addresses restart_required",
		},
		"saved memory, changed since": {
			before: minimal.with(in{"cpu": in{"vcpus": 2}}), config: minimal.with(in{"cpu": in{"vcpus": 2}}), off: true,
			saved: true, seen: halted, savedAs: func(s *domain.Spec) { s.CPU.VCPUs = new(1) },
			changes: "status status_reason ready ip_addresses restart_required",
			says:    []string{"Warning: Virtual machine resumes from saved memory", "cpu.vcpus", "managedsave-remove"},
		},
	})
}

// TestPlan_tunedThreads: a new VM has the threads that are tuned. An imported one may have I/O threads with other
// numbers, and keeps what it has of them.
func TestPlan_tunedThreads(t *testing.T) {
	t.Parallel()
	with := func(count int, threads ...string) in {
		tuned := in{}
		for _, n := range threads {
			tuned[n] = in{"type": "batch"}
		}
		return minimal.with(in{"platform": in{"iothreads": count}, "cpu": in{"iothread_scheduler": tuned}})
	}
	pinned := func(thread string) in {
		return with(3, "1", "4").with(in{"cpu": in{
			"iothread_scheduler": in{"4": in{"type": "batch"}}, "iothread_pin": in{thread: "0"},
		}})
	}
	imported := stateAfterApply(t, with(3, "1", "4"))
	for name, test := range map[string]struct {
		state  *model
		config in
		says   string
	}{
		"new":                      {nil, with(3, "1", "4"), "There is no I/O thread 4: the VM has 1 to 3."},
		"new, without I/O threads": {nil, with(0, "1").without("platform"), "The VM has no I/O thread."},
		"imported":                 {imported, with(3, "1", "4"), ""},
		"imported, then pinned":    {imported, pinned("4"), ""},
		"another thread, pinned":   {imported, pinned("5"), "There is no I/O thread 5: the VM has 1 to 3."},
		"another thread":           {imported, with(3, "1", "5"), "There is no I/O thread 5: the VM has 1 to 3."},
		"fewer threads":            {imported, with(2, "1", "4"), "There is no I/O thread 4: the VM has 1 to 2."},
	} {
		config := modelOf(t, test.config)
		p := planning{config: config, state: test.state}
		o := p.plan()
		said := diagText(p.validatePlanned(&o.planned))
		if (said == "") != (test.says == "") || !strings.Contains(said, test.says) {
			t.Errorf("%s: %q, want %q", name, said, test.says)
		}
	}
}

// TestPlan_optionsOfTheDriver: options of virtiofs are refused for a directory that the VM shares through another
// driver, declared or not.
func TestPlan_optionsOfTheDriver(t *testing.T) {
	t.Parallel()
	with := func(more in) in {
		return minimal.with(in{"devices": in{"filesystems": in{"a": in{"target": "t", "source": "/s"}.with(more)}}})
	}
	for _, test := range []struct {
		driver  string
		config  in
		refused bool
	}{
		{"9p", in{"queue_size": 1024}, true},
		{"virtiofs", in{"queue_size": 1024}, false},
		{"virtiofs", in{"access_mode": "mapped"}, true},
		{"9p", in{"access_mode": "mapped"}, false},
		{"9p", in{"driver": "virtiofs", "queue_size": 1024}, false},
	} {
		p := planning{config: modelOf(t, with(test.config)), state: stateAfterApply(t, with(in{"driver": test.driver}))}
		o := p.plan()
		if said := diagText(p.validatePlanned(&o.planned)); strings.Contains(said, "virtiofs") != test.refused {
			t.Errorf("%s with %v: %q", test.driver, test.config, said)
		}
	}
}

// TestPlan_heldDevice: a plan and its apply decide alike whether the guest is asked again for a device that it hasn't
// released, also if the apply leaves other changes to the next start.
func TestPlan_heldDevice(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		policy            string
		staged, transient bool
		asks              bool
	}{
		{policy: "Live", asks: true},
		{policy: "Live", staged: true, asks: true},
		{policy: "Stage", staged: true},
		{policy: "Restart"},
		{policy: "Stage", transient: true, asks: true},
	} {
		config := minimal.with(in{"cpu": in{"mode": "maximum"}, "disks": in{}, "update_policy": test.policy})
		p := planning{config: modelOf(t, config), state: stateAfterApply(t, config), transient: test.transient}
		p.state.RestartRequired = types.BoolValue(true)
		p.live = vmAfterApply(t, config).LiveSpec
		p.live.Disks = map[string]domain.Disk{"data": {Bus: "virtio", Source: domain.DiskSource{File: "/a"}}}
		p.live.Held = []string{"disks.data"}
		if test.staged {
			p.live.CPU.Mode = ptr("host-passthrough")
		}
		o := p.plan()
		if asks := strings.Contains(diagText(o.diags), "Running virtual machine lacks changes"); asks != test.asks {
			t.Errorf("%+v: the plan asks again: %t: %s", test, asks, diagText(o.diags))
		}
		desired := p.config.toFleet(p.state)
		desired.UpdatePolicy = o.policy // as Update does
		if asks := desired.AsksAgain(&fleet.VM{Persistent: !test.transient}); asks != test.asks {
			t.Errorf("%+v: the apply, with %s, asks again: %t", test, o.policy, asks)
		}
		if test.staged && o.policy != fleet.PolicyStage {
			t.Errorf("%+v: the apply has %s", test, o.policy)
		}
	}
}

// TestPlan_swappedInterfaces: an interface that is declared with its address under another one's key is that device.
// What isn't declared is that of the device, not what the key had.
func TestPlan_swappedInterfaces(t *testing.T) {
	t.Parallel()
	const address = "52:54:00:aa:bb:02"
	with := func(nics in) in { return minimal.with(in{"interfaces": nics}) }
	lan, fast := in{"bridge": "br0", "mac": address}, in{"network": "default", "model": "e1000e"}
	before := with(in{"b2": lan, "lan3": fast})
	derived := text(open(elements(stateAfterApply(t, before).Interfaces)["lan3"]).string("mac"))
	planned := func(key, card, mac string) func(*testing.T, *model) {
		return func(t *testing.T, m *model) {
			t.Helper()
			nic := open(elements(m.Interfaces)[key])
			wantValue(t, key+".model", nic["model"], types.StringValue(card))
			if mac == "" {
				wantValue(t, key+".mac", nic["mac"], types.StringUnknown())
			} else {
				wantValue(t, key+".mac", nic["mac"], types.StringValue(mac))
			}
		}
	}
	for name, c := range map[string]struct {
		config in
		want   []func(*testing.T, *model)
	}{
		"swapped": {
			with(in{"b2": fast, "lan3": lan}),
			[]func(*testing.T, *model){planned("b2", "e1000e", derived), planned("lan3", "virtio", address)},
		},
		"one takes the key of one that goes": {
			with(in{"lan3": lan}), []func(*testing.T, *model){planned("lan3", "virtio", address)},
		},
		"one gets a new key, and a new one its old key": {
			with(in{"c": lan, "b2": in{"network": "other", "model": "virtio"}, "lan3": fast}),
			[]func(*testing.T, *model){planned("b2", "virtio", ""), planned("lan3", "e1000e", derived)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check := func(t *testing.T, m *model) {
				t.Helper()
				for _, check := range c.want {
					check(t, m)
				}
			}
			planCase{before: before, config: c.config, changes: "interfaces ip_addresses", planned: check}.run(t)
		})
	}
}

// TestPlan_consoleOfSerials: declared serial ports decide whether the VM has a serial console. It isn't declared with
// them, so the plan follows from the ports.
func TestPlan_consoleOfSerials(t *testing.T) {
	t.Parallel()
	with := func(serials in) in {
		return minimal.with(in{"devices": in{"serials": serials}, "update_policy": "Stage"})
	}
	tcp, pty := in{"type": "tcp", "mode": "bind", "host": "127.0.0.1", "service": "4001"}, in{"type": "pty"}
	for name, test := range map[string]struct {
		before, config in
		want           types.Bool
	}{
		"becomes one":   {in{"a": tcp}, in{"a": pty}, types.BoolValue(true)},
		"is none":       {in{"a": pty}, in{"a": tcp}, types.BoolValue(false)},
		"stays":         {in{"a": pty}, in{"a": pty, "b": tcp}, types.BoolValue(true)},
		"goes":          {in{"a": pty}, in{}, types.BoolValue(false)},
		"unknown":       {in{"a": tcp}, in{"a": in{"type": unknownMark}}, types.BoolUnknown()},
		"nothing to do": {in{"a": tcp}, in{"a": tcp}, types.BoolValue(false)},
	} {
		p := planning{config: modelOf(t, with(test.config)), state: stateAfterApply(t, with(test.before))}
		o := p.plan()
		wantValue(t, name, open(o.planned.SerialConsole).bool("enabled"), test.want)
		if test.want.IsUnknown() {
			continue
		}
		d, _, err := definitionOf(modelOf(t, with(test.before)))
		if err == nil {
			err = d.Apply(o.want)
		}
		if is := d.Spec().SerialConsole; err != nil || *is != test.want.ValueBool() {
			t.Errorf("%s: after the apply it has a console: %t, %v", name, *is, err)
		}
	}
}

// TestPlannedRunStrategy: without a declared strategy, what an import has found becomes the default, and the plan names
// it. The default itself is no change, nor is the state of a VM that never had another one.
func TestPlannedRunStrategy(t *testing.T) {
	t.Parallel()
	null, manual, always := types.StringNull(), types.StringValue("Manual"), types.StringValue("Always")
	for name, tt := range map[string]struct{ config, state, want types.String }{
		"never declared":         {null, null, null},
		"imported as running":    {null, always, always},
		"imported as off":        {null, manual, always},
		"declared":               {manual, always, manual},
		"declared for the first": {always, null, always},
		"known after apply":      {types.StringUnknown(), manual, types.StringUnknown()},
	} {
		if got := plannedRunStrategy(tt.config, tt.state); !got.Equal(tt.want) {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}
