package evacuation

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/policy"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
)

// to are ways without anything in them.
func to(hosts ...string) map[string][]migration.Blocker {
	ways := map[string][]migration.Blocker{}
	for _, h := range hosts {
		ways[h] = nil
	}
	return ways
}

func no(reason string, hosts ...string) map[string][]migration.Blocker {
	ways := to(hosts...)
	for h := range ways {
		ways[h] = []migration.Blocker{{Reason: reason, Status: status.False, Message: "it is so"}}
	}
	return ways
}

func machine(name string, memory uint64, ways map[string][]migration.Blocker) VM {
	return VM{UUID: "id-" + name, Name: name, Active: true, Persistent: true, Memory: memory, LiveBlockers: ways}
}

func (s Step) brief() string {
	reasons := strings.Join(append(s.Blockers, s.Doubts...), ", ")
	return strings.TrimSpace(s.Name + " " + s.Method + " " + s.Target + " " + reasons)
}

func briefs(steps []Step) string {
	all := make([]string, len(steps))
	for i, s := range steps {
		all[i] = s.brief()
	}
	return strings.Join(all, "\n")
}

func TestCompute(t *testing.T) {
	t.Parallel()
	both := []Host{{Name: "kvm2", Free: 100}, {Name: "kvm3", Free: 200}}
	with := func(m VM, change func(*VM)) VM {
		change(&m)
		return m
	}
	ifPossible := func(m *VM) { m.Strategy = LiveMigrateIfPossible }
	web := map[string]string{"app": "web"}
	gpu := map[domain.HostPart]string{{Kind: domain.PCIDevice, ID: "0000:65:00.0"}: "devices.host_devices.gpu.address"}
	classes := domain.HostUse{Classes: map[string][]domain.HostPart{"gpu": {{}}}}
	floor := domain.HostUse{Floors: map[string]domain.NetworkFloor{"lan": {Sum: 600}}}
	device := domain.HostUse{Networks: map[string][]string{"vf": {"nic"}}}
	startedThere := func(m *VM) { m.ColdBlockers, m.StartedUse = to("kvm2"), device }
	cold := []Policy{{Identity: policy.Identity{Name: "cold"}, Strategy: LiveMigrate, Fallback: ColdMigrate}}
	doubtful := to("kvm2")
	doubtful["kvm2"] = []migration.Blocker{{Reason: "Perhaps", Status: status.Unknown, Message: "it may be so."}}
	for name, tt := range map[string]struct {
		in   Input
		want string
	}{
		"the emptiest host first": {
			Input{Hosts: both, VMs: []VM{machine("a", 50, to("kvm2", "kvm3"))}}, "a LiveMigration kvm3",
		},
		"by priority, then name": {
			Input{Hosts: both, VMs: []VM{
				machine("c", 1, to("kvm2")), machine("b", 1, to("kvm2")), machine("a", 1, to("kvm2")),
			}, Policies: []Policy{{
				Identity: policy.Identity{Name: "c", Selector: policy.Selector{Names: []string{"c"}}}, Strategy: LiveMigrate,
				Priority: 1,
			}}},
			"c LiveMigration kvm2\na LiveMigration kvm2\nb LiveMigration kvm2",
		},
		"not migratable": {
			Input{Hosts: both, VMs: []VM{machine("a", 1, no("Bad", "kvm2", "kvm3"))}}, "a Blocked  Bad: it is so",
		},
		"not now is not unmigratable": {
			Input{Hosts: both, Default: LiveMigrateIfPossible, VMs: []VM{
				with(machine("a", 1, no(migration.HostCordoned, "kvm2", "kvm3")), ifPossible),
			}}, "a Blocked  HostCordoned: it is so",
		},
		"shut down if not possible": {
			Input{Hosts: both, VMs: []VM{
				with(machine("a", 1, no("Bad", "kvm2", "kvm3")), func(m *VM) {
					m.Strategy, m.LiveBlockers["kvm2"] = LiveMigrateIfPossible, append(m.LiveBlockers["kvm2"],
						no(migration.HostCordoned, "kvm2")["kvm2"]...) // It is no reason to shut a guest down.
				}),
			}}, "a Shutdown  Bad: it is so",
		},
		"neither moved nor ever shut down": {
			Input{Hosts: both, VMs: []VM{
				with(machine("a", 1, no("Bad", "kvm2")), func(m *VM) { m.Strategy, m.Persistent = LiveMigrateIfPossible, false }),
			}}, "a Blocked  Bad: it is so, Transient: it is transient, and would be gone once it is off",
		},
		"cold where live is impossible": {
			Input{Hosts: both, VMs: []VM{
				with(machine("a", 1, no("Bad", "kvm2", "kvm3")), func(m *VM) { m.ColdBlockers = to("kvm2") }),
			}, Policies: []Policy{{Identity: policy.Identity{Name: "p"}, Strategy: LiveMigrate, Fallback: ColdMigrate}}},
			"a ColdMigration kvm2 Bad: it is so",
		},
		"a transient one is never shut down": {
			Input{Hosts: both, Default: None, VMs: []VM{
				with(machine("a", 1, to("kvm2")), func(m *VM) { m.Persistent = false }),
			}}, "a Blocked  Transient: it is transient, and would be gone once it is off",
		},
		"pinned": {
			Input{Host: "kvm1", Hosts: both, VMs: []VM{
				with(machine("a", 1, to("kvm2")), func(m *VM) { m.Pin = "kvm1" }),
			}}, `a Pinned  Pinned: its host attribute pins it to host "kvm1"`,
		},
		"off": {
			Input{Hosts: both, VMs: []VM{with(machine("a", 1, to("kvm2")), func(m *VM) { m.Active = false })}},
			"a Leave",
		},
		"off and to be moved": {
			Input{Hosts: []Host{{Name: "kvm2"}}, MoveStopped: true, VMs: []VM{
				with(machine("a", 1, to("kvm2")), func(m *VM) { m.Active = false }),
			}}, "a ColdMigration kvm2",
		},
		"doubts don't block": {
			Input{Hosts: both, VMs: []VM{machine("a", 1, doubtful)}}, "a LiveMigration kvm2 Perhaps: it may be so",
		},
		"alone": {
			Input{VMs: []VM{machine("a", 1, nil)}}, "a Blocked  NoTarget: no other host may take VMs",
		},
		"external": {
			Input{Hosts: both, Default: External, VMs: []VM{machine("a", 1, no("Bad", "kvm2"))}}, "a External",
		},
		"fits only with a clever choice": {
			// Greedily the first goes to the emptier kvm3, where then the big one has no room.
			Input{Hosts: both, VMs: []VM{
				machine("a", 90, to("kvm2", "kvm3")), machine("b", 60, to("kvm2", "kvm3")),
				machine("c", 140, to("kvm2", "kvm3")),
			}}, "a LiveMigration kvm2\nb LiveMigration kvm3\nc LiveMigration kvm3",
		},
		"one too many": {
			Input{Hosts: []Host{{Name: "kvm2", Free: 100}}, VMs: []VM{
				machine("a", 90, to("kvm2")), machine("b", 60, to("kvm2")),
			}}, "a LiveMigration kvm2\nb Blocked  NoRoom: no host has room for it in addition to all others: " +
				`host "kvm2" has 1Ki free of the 1Ki that it needs`,
		},
		"disks that fit one by one": {
			Input{Hosts: []Host{{Name: "kvm2", Free: 100, FreeSpace: Space{"/vms": 3 << 20}}}, VMs: []VM{
				with(machine("a", 1, to("kvm2")), func(m *VM) {
					m.LiveSpace = map[string]Space{"kvm2": {"/vms": 2 << 20, "/elsewhere": 9 << 20}}
				}),
				with(machine("b", 1, to("kvm2")), func(m *VM) {
					m.LiveSpace = map[string]Space{"kvm2": {"/vms": 2 << 20}}
				}),
			}}, "a LiveMigration kvm2\nb Blocked  NoRoom: no host has room for it in addition to all others: " +
				`host "kvm2" has 1Mi left in /vms of the 2Mi that its disks take`,
		},
		"a disk that may grow to too much": {
			Input{Hosts: []Host{{Name: "kvm2", Free: 100, FreeSpace: Space{"/vms" + GrowthIn: 1 << 20}}}, VMs: []VM{
				with(machine("a", 1, to("kvm2")), func(m *VM) {
					m.LiveSpace = map[string]Space{"kvm2": {"/vms": 0, "/vms" + GrowthIn: 2 << 20}}
				}),
			}}, "a Blocked  NoRoom: no host has room for it in addition to all others: " +
				`host "kvm2" lets disks in /vms grow to 1Mi more (storage_overprovisioning_factor) of the 2Mi that its disks ` +
				"may grow to",
		},
		"huge pages that are enough for one": {
			Input{Hosts: []Host{{Name: "kvm2", Free: 100, Pages: map[uint64]uint64{2 << 20: 10 << 20}}}, VMs: []VM{
				with(machine("a", 1, to("kvm2")), func(m *VM) { m.Use.Pages = map[uint64]uint64{2 << 20: 6 << 20} }),
				with(machine("b", 1, to("kvm2")), func(m *VM) { m.Use.Pages = map[uint64]uint64{2 << 20: 6 << 20} }),
				with(machine("c", 1, to("kvm2")), func(m *VM) { m.Use.Pages = map[uint64]uint64{1 << 30: 1 << 30} }),
			}}, "a LiveMigration kvm2\nb Blocked  NoRoom: no host has room for it in addition to all others: " +
				`host "kvm2" has 4Mi left in pages of 2Mi of the 6Mi that it needs` + "\nc LiveMigration kvm2",
		},
		"huge pages of the host's default size": {
			Input{
				Hosts: []Host{{Name: "kvm2", Free: 100, Pages: map[uint64]uint64{2 << 20: 10 << 20}, DefaultPage: 2 << 20}},
				VMs: []VM{
					with(machine("a", 1, to("kvm2")), func(m *VM) { m.Use.Pages = map[uint64]uint64{2 << 20: 6 << 20} }),
					with(machine("b", 1, to("kvm2")), func(m *VM) {
						m.Use.Pages = map[uint64]uint64{domain.DefaultPages: 6 << 20}
					}),
				},
			}, "a LiveMigration kvm2\nb Blocked  NoRoom: no host has room for it in addition to all others: " +
				`host "kvm2" has 4Mi left in pages of 2Mi of the 6Mi that it needs`,
		},
		"bandwidth that a network can guarantee to one": {
			Input{
				Hosts: []Host{{Name: "kvm2", Free: 9, Shares: map[Share]uint64{{Bandwidth, "lan"}: 1000}}, {Name: "kvm3", Free: 9}},
				VMs: []VM{
					with(machine("a", 1, to("kvm2")), func(m *VM) { m.Use = floor }),
					with(machine("b", 1, to("kvm2")), func(m *VM) { m.Use = floor }),
					with(machine("c", 1, to("kvm2", "kvm3")), func(m *VM) { m.Use = floor }),
				},
			}, "a LiveMigration kvm2\nb Blocked  NoRoom: no host has room for it in addition to all others: " +
				`host "kvm2" has 400 kB/s of network "lan" left of the 600 that it needs` + "\nc LiveMigration kvm3",
		},
		"devices of a network that are enough for one": {
			Input{
				Hosts: []Host{{Name: "kvm2", Free: 9, Shares: map[Share]uint64{{NetworkDevices, "vf"}: 1}}}, VMs: []VM{
					with(machine("a", 1, to("kvm2")), func(m *VM) { m.Use = device }),
					with(machine("b", 1, to("kvm2")), func(m *VM) { m.Use = device }),
				},
			}, "a LiveMigration kvm2\nb Blocked  NoRoom: no host has room for it in addition to all others: " +
				`host "kvm2" has 0 PCI devices of network "vf" left of the 1 that it needs`,
		},
		"slots that are enough for one": {
			Input{
				Hosts: []Host{{Name: "kvm2", Free: 9, Shares: map[Share]uint64{{SecuritySlots, "SEV"}: 1}}}, VMs: []VM{
					with(machine("a", 1, to("kvm2")), func(m *VM) { m.Use.Slot = domain.SlotSEV }),
					with(machine("b", 1, to("kvm2")), func(m *VM) { m.Use.Slot = domain.SlotSEV }),
					with(machine("c", 1, to("kvm2")), func(m *VM) { m.Use.Slot = domain.SlotSEVES }), // How many isn't known.
				},
			}, "a LiveMigration kvm2\nb Blocked  NoRoom: no host has room for it in addition to all others: " +
				`host "kvm2" has 0 slots for guests with SEV left of the 1 that it needs` + "\nc LiveMigration kvm2",
		},
		"devices that two get once they are started there": {
			Input{
				Hosts: []Host{{Name: "kvm2", Free: 9, Shares: map[Share]uint64{{NetworkDevices, "vf"}: 1}}}, Policies: cold,
				VMs: []VM{
					with(machine("a", 1, no("HostDeviceNotLiveMigratable", "kvm2")), startedThere),
					with(machine("b", 1, no("HostDeviceNotLiveMigratable", "kvm2")), startedThere),
				},
			}, "a ColdMigration kvm2 HostDeviceNotLiveMigratable: it is so\nb Blocked  HostDeviceNotLiveMigratable: it is so, " +
				"NoRoom: no host has room for it in addition to all others: " +
				`host "kvm2" has 0 PCI devices of network "vf" left of the 1 that it needs`,
		},
		"what only the running VM has": {
			Input{
				Hosts: []Host{
					{Name: "kvm2", Free: 9, VMs: []Neighbour{{Name: "x", Use: domain.HostUse{Alone: gpu}}}},
				}, Policies: cold,
				VMs: []VM{with(machine("a", 10, no("Bad", "kvm2")), func(m *VM) {
					m.ColdBlockers, m.Use.Alone, m.StartedMemory = to("kvm2"), gpu, 9
				})},
			}, "a ColdMigration kvm2 Bad: it is so",
		},
		"what only the definition has": {
			Input{
				Hosts: []Host{{Name: "kvm2", Free: 1 << 30}}, Policies: cold,
				VMs: []VM{with(machine("a", 1, no("Bad", "kvm2")), func(m *VM) {
					m.ColdBlockers, m.StartedMemory = to("kvm2"), 2<<30
				})},
			}, "a Blocked  Bad: it is so, NoRoom: no host has room for it in addition to all others: " +
				`host "kvm2" has 1Gi free of the 2Gi that it needs`,
		},
		"a device of which each host has one": {
			Input{
				Hosts: []Host{
					{Name: "kvm2", Free: 9, VMs: []Neighbour{{Name: "x", Use: domain.HostUse{Alone: gpu}}}}, {Name: "kvm3", Free: 9},
				},
				VMs: []VM{
					with(machine("a", 1, to("kvm2", "kvm3")), func(m *VM) { m.Use.Alone = gpu }),
					with(machine("b", 1, to("kvm2")), func(m *VM) { m.Use.Alone = gpu }),
				},
			}, "a LiveMigration kvm3\nb Blocked  NoRoom: no host has room for it in addition to all others: " +
				`host "kvm2" has given pci device 0000:65:00.0 to "x"`,
		},
		"devices of a class that are enough for one": {
			Input{
				Hosts: []Host{{Name: "kvm2", Free: 9, Devices: map[string]uint64{"gpu": 1}}, {Name: "kvm3", Free: 10}},
				VMs: []VM{
					with(machine("a", 1, to("kvm2", "kvm3")), func(m *VM) { m.Use = classes }),
					with(machine("b", 1, to("kvm2", "kvm3")), func(m *VM) { m.Use = classes }),
				},
			}, "a LiveMigration kvm2\nb Blocked  NoRoom: no host has room for it in addition to all others: " +
				`host "kvm2" has 0 devices of class "gpu" left of the 1 that it needs; ` +
				`host "kvm3" has 0 devices of class "gpu" left of the 1 that it needs`,
		},
		"avoiding each other": {
			Input{Hosts: both, VMs: []VM{
				with(machine("a", 1, to("kvm2", "kvm3")), func(m *VM) { m.Labels, m.Avoids = web, web }),
				with(machine("b", 1, to("kvm3")), func(m *VM) { m.Labels = web }),
			}}, "a LiveMigration kvm2\nb LiveMigration kvm3",
		},
		"avoided by who is there": {
			Input{
				Hosts: []Host{{Name: "kvm2", Free: 9, VMs: []Neighbour{{Name: "x", Avoids: web}}}},
				VMs:   []VM{with(machine("a", 1, to("kvm2")), func(m *VM) { m.Labels = web })},
			},
			`a Blocked  NoRoom: no host has room for it in addition to all others: host "kvm2" has "x", which must not ` +
				`share a host with it`,
		},
	} {
		if got := briefs(Compute(tt.in)); got != tt.want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, tt.want)
		}
	}
}

// fleet draws a host to be drained and a few others.
func fleet(t *rapid.T) Input {
	in := Input{Host: "kvm1", Default: rapid.SampledFrom(Strategies).Draw(t, "default")}
	label := rapid.SampledFrom([]map[string]string{nil, {"app": "a"}, {"app": "b"}})
	for i := range rapid.IntRange(0, 3).Draw(t, "hosts") {
		h := Host{Name: fmt.Sprintf("kvm%d", i+2), Free: rapid.Uint64Range(0, 8).Draw(t, "free")}
		if rapid.Bool().Draw(t, "occupied") {
			h.VMs = []Neighbour{{Name: "n" + h.Name, Labels: label.Draw(t, "labels"), Avoids: label.Draw(t, "avoids")}}
		}
		in.Hosts = append(in.Hosts, h)
	}
	for i := range rapid.IntRange(0, 5).Draw(t, "machines") {
		m := machine(fmt.Sprintf("vm%d", i), rapid.Uint64Range(1, 5).Draw(t, "memory"), map[string][]migration.Blocker{})
		m.Active, m.Persistent = rapid.Bool().Draw(t, "active"), true
		m.Labels, m.Avoids = label.Draw(t, "labels"), label.Draw(t, "avoids")
		for _, h := range in.Hosts {
			m.LiveBlockers[h.Name] = nil
			if rapid.IntRange(0, 3).Draw(t, "bad") == 0 {
				m.LiveBlockers[h.Name] = no("Bad", h.Name)[h.Name]
			}
		}
		in.VMs = append(in.VMs, m)
	}
	return in
}

// Whatever the fleet looks like: no host is overfilled, no VM meets one that it avoids, none goes where it can't, a
// plan says something about every VM, holds in the world that it was made for unless something blocks, and is the same
// when made again.
func TestCompute_keepsItsPromises(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := fleet(t)
		steps := Compute(in)
		if len(steps) != len(in.VMs) || briefs(steps) != briefs(Compute(in)) {
			t.Fatalf("%d steps for %d VMs, or not the same again", len(steps), len(in.VMs))
		}
		going := map[string][]VM{}
		for _, s := range steps {
			if s.Target == "" {
				continue
			}
			m := in.VMs[slices.IndexFunc(in.VMs, func(m VM) bool { return m.UUID == s.UUID })]
			if len(m.LiveBlockers[s.Target]) > 0 {
				t.Fatalf("%s can't go to %s", s.Name, s.Target)
			}
			going[s.Target] = append(going[s.Target], m)
		}
		for _, h := range in.Hosts {
			var used uint64
			there := h.VMs
			for _, m := range going[h.Name] {
				used += m.Memory
				me := Neighbour{Name: m.Name, Labels: m.Labels, Avoids: m.Avoids}
				for _, n := range there {
					if me.avoids(n) || n.avoids(me) {
						t.Fatalf("%s and %s are both on %s", m.Name, n.Name, h.Name)
					}
				}
				there = append(slices.Clone(there), me)
			}
			if used > h.Free {
				t.Fatalf("%s gets %d and has %d", h.Name, used, h.Free)
			}
		}
		if changes := DescribeChanges(steps, in); len(BlockedSteps(steps)) == 0 && len(changes) > 0 {
			t.Fatalf("the plan doesn't hold: %v\n%s", changes, briefs(steps))
		}
	})
}

// The search is exact: a VM is left over only where every choice for all leaves as many.
func TestAssign_leavesAsFewAsPossible(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := fleet(t)
		in.Default = LiveMigrate
		for i := range in.VMs {
			in.VMs[i].Active = true
		}
		blocked := 0
		for _, s := range BlockedSteps(Compute(in)) {
			if strings.HasPrefix(s.Blockers[0], ReasonNoRoom) {
				blocked++
			}
		}
		p := planner{Input: in}
		for _, m := range in.VMs {
			p.decideVM(m)
		}
		going := slices.DeleteFunc(p.moves, func(d *decision) bool { return len(d.targets) == 0 })
		if best := exhaustive(going, in.Hosts); blocked != best {
			t.Fatalf("%d left over, %d would do", blocked, best)
		}
	})
}

// exhaustive tries everything.
func exhaustive(going []*decision, hosts []Host) int {
	if len(going) == 0 {
		return 0
	}
	best := 1 + exhaustive(going[1:], hosts)
	for i, h := range hosts {
		if !slices.Contains(going[0].targets, h.Name) || going[0].misfit(h) != "" {
			continue
		}
		filled := slices.Clone(hosts)
		filled[i].Free -= going[0].step.Memory
		filled[i].VMs = append(slices.Clone(h.VMs), going[0].neighbour())
		best = min(best, exhaustive(going[1:], filled))
	}
	return best
}

func TestDescribeChanges(t *testing.T) {
	t.Parallel()
	in := Input{Host: "kvm1", Hosts: []Host{{Name: "kvm2", Free: 100}, {Name: "kvm3", Free: 50}}, VMs: []VM{
		machine("a", 60, to("kvm2", "kvm3")), machine("b", 40, to("kvm2", "kvm3")),
	}}
	steps := Compute(in)
	for name, tt := range map[string]struct {
		change func(*Input)
		want   string
	}{
		"nothing":      {func(*Input) {}, ""},
		"one has gone": {func(in *Input) { in.VMs = in.VMs[1:] }, ""},
		"one has come": {
			func(in *Input) { in.VMs = append(in.VMs, machine("c", 1, to("kvm2"))) },
			`"c" has come to host "kvm1"`,
		},
		"a target is taken": {func(in *Input) { in.Hosts[0].Free = 50 }, `"a" no longer fits`},
		"a way is shut": {
			func(in *Input) { in.VMs[0].LiveBlockers = to("kvm3") }, `"a" can't go to host "kvm2" any more`,
		},
		"a target is gone": {
			func(in *Input) {
				in.Hosts = in.Hosts[1:]
				in.VMs[0].LiveBlockers = map[string][]migration.Blocker{"kvm2": no("Gone", "kvm2")["kvm2"], "kvm3": nil}
			},
			`"a" can't go to host "kvm2" any more: Gone: `,
		},
		"all are gone": {
			func(in *Input) { in.Hosts, in.VMs[0].LiveBlockers = nil, no(migration.HostCordoned, "kvm2") },
			`"a" can't be evicted any more: HostCordoned: `,
		},
		"it falls back": {
			func(in *Input) {
				in.VMs[0].LiveBlockers, in.VMs[0].Strategy = no("Bad", "kvm2", "kvm3"), LiveMigrateIfPossible
			},
			"would be by Shutdown (LiveMigrateIfPossible of virtual_machine) now: Bad: it is so",
		},
		"another strategy": {func(in *Input) { in.Default = None }, `was to be evicted by LiveMigration`},
		"one is off": {
			func(in *Input) { in.VMs[0].Active = false }, `"a" was to be evicted by LiveMigration, and is off now`,
		},
	} {
		now := in
		now.Hosts, now.VMs = slices.Clone(in.Hosts), slices.Clone(in.VMs)
		tt.change(&now)
		got := strings.Join(DescribeChanges(steps, now), "\n")
		if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

// A step tells which policy tunes its move; what isn't moved isn't tuned.
func TestCompute_namesTheMigrationPolicy(t *testing.T) {
	t.Parallel()
	in := Input{
		Host: "kvm1", Hosts: []Host{{Name: "kvm2", Free: 100}},
		VMs: []VM{
			machine("a", 1, to("kvm2")), machine("b", 1, to("kvm2")), machine("c", 1, no("Bad", "kvm2")),
		},
		MigrationPolicies: []migration.Policy{
			{Identity: policy.Identity{Name: "here", Selector: policy.Selector{Hosts: []string{"kvm1"}}}},
			{Identity: policy.Identity{Name: "of-a", Selector: policy.Selector{Names: []string{"a"}}}},
			{Identity: policy.Identity{Name: "there", Selector: policy.Selector{
				Names: []string{"b"}, Hosts: []string{"kvm2"},
			}}},
		},
	}
	for i, want := range []string{"of-a", "here", ""} {
		if got := Compute(in)[i]; got.MigrationPolicy != want {
			t.Errorf("%s is tuned by %q, want %q", got.brief(), got.MigrationPolicy, want)
		}
	}
}

// TestHopeless_waitsForWhatPasses: a VM that is backed up, or whose hosts take none now, isn't shut down for that.
func TestHopeless_waitsForWhatPasses(t *testing.T) {
	t.Parallel()
	backup := no(migration.BlockJobsNotLiveMigratable, "kvm2", "kvm3")
	for h := range backup {
		backup[h][0].Temporary = true
	}
	both := no(migration.BlockJobsNotLiveMigratable, "kvm2")
	both["kvm2"][0].Temporary = true
	both["kvm2"] = append(both["kvm2"], no(migration.HostDeviceNotLiveMigratable, "kvm2")["kvm2"]...)
	for name, test := range map[string]struct {
		ways map[string][]migration.Blocker
		want bool
	}{
		"backup":          {backup, false},
		"other labels":    {no(migration.HostLabelsMismatch, "kvm2"), false},
		"unschedulable":   {no(migration.HostNotSchedulable, "kvm2"), false},
		"a host device":   {no(migration.HostDeviceNotLiveMigratable, "kvm2"), true},
		"device, backup":  {both, true},
		"crashed for now": {no(migration.StateNotMigratable, "kvm2"), true},
	} {
		if got := (VM{LiveBlockers: test.ways}).Unmigratable(); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
