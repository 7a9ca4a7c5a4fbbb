package status_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
)

// running is a healthy VM with an agent that answers.
func running() status.Facts {
	return status.Facts{
		Host: "kvm1", State: status.Running, Reason: "Booted", Active: true, Persistent: true,
		ActiveHosts:  map[string]status.Role{"kvm1": status.RoleActive},
		AgentChannel: true, AgentConnected: true, AgentAnswers: status.Seen(true), AgentLacks: status.Seen([]string{}),
		Blockers: status.Seen([]status.Blocker{}), StorageBlockers: status.Seen([]status.Blocker{}),
		Disks:  status.Seen([]status.Disk{{Key: "root", Ready: status.True}}),
		CutOff: status.Seen([]status.CutOff{}),
		VCPUs:  status.Amount{Now: 2, Wanted: 2, Max: 4},
		Memory: status.Amount{Now: 1 << 30, Wanted: 1 << 30, Max: 2 << 30},
	}
}

func TestConditions_ofAHealthyVM(t *testing.T) {
	t.Parallel()
	isTrue := map[string]bool{
		status.Connected: true, status.Defined: true, status.Started: true, status.Ready: true,
		status.AgentConnected: true, status.LiveMigratable: true, status.StorageLiveMigratable: true,
		status.DataVolumesReady: true, status.InterfacesConnected: true,
	}
	var types []string
	for _, c := range status.Conditions(running()) {
		types = append(types, c.Type)
		want := status.False
		if isTrue[c.Type] {
			want = status.True
		}
		if c.Status != want || c.Reason == "" || c.Layer == "" {
			t.Errorf("%s is %s (%s, %s) from %q, want %s", c.Type, c.Status, c.Reason, c.Message, c.Layer, want)
		}
	}
	if diff := cmp.Diff(status.Types(), types); diff != "" {
		t.Error(diff)
	}
}

// A host that doesn't answer says nothing about its VMs, and nothing may be made up in its place.
func TestConditions_ofASilentHostAreUnknown(t *testing.T) {
	t.Parallel()
	f := status.Facts{SilentHosts: []string{"kvm2"}}
	for _, c := range status.Conditions(f) {
		want := status.Unknown
		if c.Type == status.Connected {
			want = status.False
		}
		if c.Status != want || c.Reason != status.ReasonHostUnreachable || !strings.Contains(c.Message, "kvm2") {
			t.Errorf("%s is %s (%s, %s), want %s", c.Type, c.Status, c.Reason, c.Message, want)
		}
	}
	if phase, printed := status.InstancePhase(f), status.PrintableStatus(f); phase != "Unknown" || printed != "Unknown" {
		t.Errorf("phase %s, status %s", phase, printed)
	}
}

// parts makes it a VM that a broken post-copy left on two hosts.
func parts(f *status.Facts) {
	f.State, f.Reason, f.Migrating = status.Running, "PostcopyFailed", true
	f.HostStates = map[string]string{"kvm1": "Running (PostcopyFailed)", "kvm2": "Paused (PostcopyFailed)"}
}

func TestConditions_sayWhy(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	off := func(f *status.Facts) {
		f.State, f.Reason, f.Active, f.AgentConnected = status.Shutoff, "Shutdown", false, false
	}
	blocked := func(reason string, s status.ConditionStatus) status.Blocker {
		return status.Blocker{Reason: reason, Status: s, Message: "about " + reason}
	}
	tests := []struct {
		name    string
		change  func(*status.Facts)
		of      string
		status  status.ConditionStatus
		reason  string
		message string // part of it
		layer   status.Layer
		since   time.Time
	}{
		{"off", off, status.Started, status.False, "Shutdown", "Shutoff (Shutdown)", status.LayerLibvirt, time.Time{}},
		{"off", off, status.Ready, status.False, "GuestNotRunning", "it is Stopped", status.LayerLibvirt, time.Time{}},
		{"off", off, status.AgentConnected, status.False, "GuestNotRunning", "", status.LayerLibvirt, time.Time{}},
		{"off", off, status.InterfacesConnected, status.False, "GuestNotRunning", "", status.LayerLibvirt, time.Time{}},
		{
			"cut off", func(f *status.Facts) {
				f.CutOff = status.Seen([]status.CutOff{{Interface: "lan", Network: "net"}})
			},
			status.InterfacesConnected, status.False, "NetworkStopped", `"lan": network "net"`, status.LayerLibvirt,
			time.Time{},
		},
		{"off", off, status.LiveMigratable, status.False, "GuestNotRunning", "", status.LayerLibvirt, time.Time{}},
		{
			"transient", func(f *status.Facts) { f.Persistent = false }, status.Defined, status.False, "Transient", "gone once",
			status.LayerLibvirt,
			time.Time{},
		},
		{
			"paused by a user", func(f *status.Facts) { f.State, f.Reason = status.Paused, "User" }, status.PausedCondition,
			status.True, "PausedByUser", "kvm1", status.LayerLibvirt,
			time.Time{},
		},
		{
			"paused by a user", func(f *status.Facts) { f.State, f.Reason = status.Paused, "User" }, status.Ready,
			status.False, "PausedByUser", "Paused (User)", status.LayerLibvirt,
			time.Time{},
		},
		{"paused by a disk", func(f *status.Facts) {
			f.State, f.Reason = status.Paused, "IOError"
			f.Disks = status.Seen([]status.Disk{{Key: "data", Ready: status.False, Why: "no space"}})
		}, status.PausedCondition, status.True, "PausedIOError", `disk "data": no space`, status.LayerLibvirt, time.Time{}},
		{"paused by the migration", func(f *status.Facts) {
			f.State, f.Reason, f.Migrating, f.MigrationSource = status.Paused, "Migration", true, true
		}, status.PausedCondition, status.True, "PausedByMigrationMonitor", "", status.LayerLibvirt, time.Time{}},
		{"arriving", func(f *status.Facts) {
			f.State, f.Reason, f.Migrating = status.Paused, "Migration", true
		}, status.PausedCondition, status.True, "PausedByMigration", "", status.LayerLibvirt, time.Time{}},
		{
			"suspended", func(f *status.Facts) { f.State = status.PMSuspended }, status.PausedCondition, status.True,
			"SuspendedByGuest", "", status.LayerLibvirt,
			time.Time{},
		},
		{
			"no channel", func(f *status.Facts) { f.AgentChannel, f.AgentConnected = false, false }, status.AgentConnected,
			status.False, "NoChannel", "", status.LayerLibvirt,
			time.Time{},
		},
		{
			"no agent", func(f *status.Facts) { f.AgentConnected = false }, status.AgentConnected, status.False,
			"ChannelClosed", "", status.LayerQEMU,
			time.Time{},
		},
		{"hung agent", func(f *status.Facts) {
			f.AgentAnswers = status.Seen(false)
			f.AgentAnswers.Why = "5 s"
		}, status.AgentConnected, status.False, "AgentNotResponding", "5 s", status.LayerGuestAgent, time.Time{}},
		{
			"agent not asked", func(f *status.Facts) { f.AgentAnswers = status.Unseen[bool]("") }, status.AgentConnected,
			status.True, "ChannelOpen", "", status.LayerQEMU,
			time.Time{},
		},
		{
			"old agent", func(f *status.Facts) { f.AgentLacks = status.Seen([]string{"guest-get-users"}) },
			status.AgentVersionNotSupported, status.True, "CommandsNotSupported", "guest-get-users", status.LayerGuestAgent,
			time.Time{},
		},
		{
			"agent's commands not asked", func(f *status.Facts) { f.AgentLacks = status.Unseen[[]string]("taints") },
			status.AgentVersionNotSupported, status.Unknown, "NotObserved", "taints", status.LayerGuestAgent,
			time.Time{},
		},
		{
			"blocked twice", func(f *status.Facts) {
				f.Blockers = status.Seen([]status.Blocker{
					blocked("Maybe", status.Unknown), blocked("First", status.False), blocked("Second", status.False),
				})
			}, status.LiveMigratable, status.False, "First", "about Maybe; about First; about Second", status.LayerLibvirt,
			time.Time{},
		},
		{"perhaps blocked", func(f *status.Facts) {
			f.Blockers = status.Seen([]status.Blocker{blocked("Maybe", status.Unknown)})
		}, status.LiveMigratable, status.Unknown, "Maybe", "", status.LayerLibvirt, time.Time{}},
		{
			"storage blocked", func(f *status.Facts) {
				f.StorageBlockers = status.Seen([]status.Blocker{blocked("First", status.False), blocked("Second", status.False)})
			}, status.StorageLiveMigratable, status.False, "NotMigratable", "First: about First; Second: about Second",
			status.LayerLibvirt,
			time.Time{},
		},
		{
			"migrating", func(f *status.Facts) { f.Migrating, f.MigratingSince = true, began }, status.LiveMigratable,
			status.True, "Migrating", "", status.LayerLibvirt, began,
		},
		{
			"migrating", func(f *status.Facts) { f.Migrating = true }, status.Ready, status.True, "GuestRunning", "",
			status.LayerLibvirt,
			time.Time{},
		},
		{
			"elsewhere than pinned", func(f *status.Facts) { f.PinnedTo = "kvm2" }, status.MigrationRequired, status.True,
			"PinnedToOtherHost", `on host "kvm2"`, status.LayerMetadata,
			time.Time{},
		},
		{
			"evicted", func(f *status.Facts) { f.EvictedFrom, f.EvictedBy, f.EvictedSince = "kvm1", "alice", began },
			status.EvictionRequested, status.True, "EvictionRequested", `"kvm1" by alice`, status.LayerMetadata,
			began,
		},
		{
			"started by then", func(f *status.Facts) { f.StartedSince = began }, status.Started, status.True, "Booted",
			"", status.LayerLibvirt, began,
		},
		{
			"staged", func(f *status.Facts) { f.Pending = []status.Pending{{"cpu.cores", "Cores are fixed."}} },
			status.RestartRequired, status.True, "RestartRequired", "cpu.cores: Cores are fixed.", status.LayerLibvirt,
			time.Time{},
		},
		{
			"more CPUs", func(f *status.Facts) { f.VCPUs.Wanted = 3 }, status.HotVCPUChange, status.True, "ChangePending", "3",
			status.LayerLibvirt,
			time.Time{},
		},
		{
			"too many CPUs", func(f *status.Facts) { f.VCPUs.Wanted = 5 }, status.HotVCPUChange, status.False,
			"RestartRequired", "4 at most", status.LayerLibvirt,
			time.Time{},
		},
		{
			"more memory", func(f *status.Facts) { f.Memory.Wanted = 2 << 30 }, status.HotMemoryChange, status.True,
			"ChangePending", "", status.LayerLibvirt,
			time.Time{},
		},
		{"lost disk", func(f *status.Facts) {
			f.Disks = status.Seen([]status.Disk{
				{Key: "a", Ready: status.Unknown, Why: "?"}, {Key: "b", Ready: status.False, Why: "gone"},
			})
		}, status.DataVolumesReady, status.False, "NotAllDVsReady", `disk "b": gone`, status.LayerQEMU, time.Time{}},
		{
			"disks not asked", func(f *status.Facts) { f.Disks = status.Unseen[[]status.Disk]("busy") },
			status.DataVolumesReady, status.Unknown, "NotObserved", "busy", status.LayerQEMU,
			time.Time{},
		},
		{
			"half made", func(f *status.Facts) { f.Creating, f.Creator = &began, "alice" }, status.Provisioning, status.True,
			"Creating", "alice", status.LayerMetadata, began,
		},
		{
			"left behind", func(f *status.Facts) { f.StaleHosts = []string{"kvm3", "kvm2"} }, status.StaleDefinition,
			status.True, "StaleDefinition", "kvm2, kvm3", status.LayerFleet,
			time.Time{},
		},
		{
			"left behind by a move of ours", func(f *status.Facts) { f.StaleHosts, f.StaleSince = []string{"kvm2"}, began },
			status.StaleDefinition, status.True, "StaleDefinition", "kvm2", status.LayerFleet, began,
		},
		{
			"being saved", func(f *status.Facts) { f.State, f.Reason, f.PausedSince = status.Paused, "Save", began },
			status.PausedCondition, status.True, "PausedBySave", "Paused", status.LayerLibvirt, began,
		},
		{
			"being saved", func(f *status.Facts) { f.State, f.Reason, f.PausedSince = status.Paused, "Save", began },
			status.Ready, status.False, "PausedBySave", "Paused", status.LayerLibvirt, began,
		},
		{
			"perhaps left behind", func(f *status.Facts) { f.SilentHosts = []string{"kvm2"} }, status.StaleDefinition,
			status.Unknown, "HostUnreachable", "kvm2", status.LayerFleet,
			time.Time{},
		},
		{"post-copy broke", func(f *status.Facts) {
			parts(f)
			f.Resumer = status.Seen("alice is moving it")
		}, status.Irrecoverable, status.False, "PostcopyInterrupted", `alice is moving it; host "kvm1" has it as Running ` +
			`(PostcopyFailed), host "kvm2" has it as Paused (PostcopyFailed)`, status.LayerFleet, time.Time{}},
		{
			"post-copy broke, no run repairs it", func(f *status.Facts) {
				parts(f)
				f.Resumer = status.Seen("")
			}, status.Irrecoverable, status.True, "PostcopyInterrupted", `no run resumes it any more; the next run tries ` +
				`once more; host "kvm1" has it as Running (PostcopyFailed), host "kvm2" has it as Paused (PostcopyFailed)`,
			status.LayerFleet,
			time.Time{},
		},
		{
			"post-copy broke, not asked", func(f *status.Facts) {
				parts(f)
				f.Resumer = status.Unseen[string]("not asked")
			}, status.Irrecoverable, status.Unknown, "PostcopyInterrupted", "not known: not asked", status.LayerFleet,
			time.Time{},
		},
		{"post-copy broke, source lost", func(f *status.Facts) {
			f.State, f.Reason = status.Running, "PostcopyFailed"
			f.HostStates = map[string]string{"kvm1": "Running (PostcopyFailed)"}
		}, status.Irrecoverable, status.True, "PostcopyFailed", `no host has the source's part of the guest's memory any ` +
			`more; host "kvm1" has it as Running`, status.LayerFleet, time.Time{}},
		{"post-copy broke, target lost", func(f *status.Facts) {
			f.State, f.Reason = status.Paused, "PostcopyFailed"
			f.ActiveHosts = map[string]status.Role{"kvm1": status.RoleSource}
		}, status.Irrecoverable, status.True, "PostcopyFailed", "no host", status.LayerFleet, time.Time{}},
		{"post-copy broke, target silent", func(f *status.Facts) {
			f.State, f.Reason, f.SilentHosts = status.Paused, "PostcopyFailed", []string{"kvm2"}
			f.ActiveHosts = map[string]status.Role{"kvm1": status.RoleSource}
		}, status.Irrecoverable, status.Unknown, "PostcopyFailed", "kvm2", status.LayerFleet, time.Time{}},
	}
	for _, tt := range tests {
		t.Run(tt.name+"/"+tt.of, func(t *testing.T) {
			t.Parallel()
			f := running()
			tt.change(&f)
			got := status.ConditionOf(f, tt.of)
			want := status.Condition{
				Type: tt.of, Status: tt.status, Reason: tt.reason, Message: got.Message, Since: tt.since, Layer: tt.layer,
			}
			if diff := cmp.Diff(want, got); diff != "" || !strings.Contains(got.Message, tt.message) {
				t.Errorf("message %q, want %q in it\n%s", got.Message, tt.message, diff)
			}
		})
	}
}

func TestReadyWith_namesAllThatIsMissing(t *testing.T) {
	t.Parallel()
	f := running()
	f.AgentConnected = false
	got := status.ReadyWith(f, status.ReadyCriteria{GuestAgent: true, IPAddress: "lan"})
	if got.Status != status.False || got.Reason != "AgentNotConnected" ||
		got.Message != `its guest agent is not connected, interface "lan" has no address` {
		t.Errorf("got %s, %s: %s", got.Status, got.Reason, got.Message)
	}
	f.AgentConnected, f.Addresses = true, map[string][]string{"lan": {"10.0.0.1"}}
	if got = status.ReadyWith(f, status.ReadyCriteria{GuestAgent: true, IPAddress: "lan"}); got.Status != status.True {
		t.Errorf("got %s: %s", got.Status, got.Message)
	}
}

// TestPostCopy_isOneVerdict: whatever is said of a guest whose migration failed in post-copy follows from what the
// hosts have of it. Nothing calls it ready, whoever has which part.
func TestPostCopy_isOneVerdict(t *testing.T) {
	t.Parallel()
	const failed = "PostcopyFailed"
	both := map[string]string{"kvm1": "Paused (PostcopyFailed)", "kvm2": "Running (PostcopyFailed)"}
	one := map[string]string{"kvm2": "Running (PostcopyFailed)"}
	tests := []struct {
		name           string
		facts          status.Facts
		verdict        status.PostCopyVerdict
		phase, printed string
		irrecoverable  status.ConditionStatus
		paused         bool
	}{
		{
			"both parts",
			status.Facts{HostStates: both, Migrating: true},
			status.PostCopyInterrupted, "Running", "Migrating",
			status.Unknown, false,
		},
		{"source gone", status.Facts{HostStates: one}, status.PostCopyLost, "Failed", "Failed", status.True, false},
		{
			"source gone, others silent",
			status.Facts{HostStates: one, PostCopyPeer: "kvm1", SilentHosts: []string{"kvm3"}},
			status.PostCopyLost, "Failed", "Failed", status.True, false,
		},
		{
			"source silent",
			status.Facts{HostStates: one, PostCopyPeer: "kvm1", SilentHosts: []string{"kvm1"}},
			status.PostCopyUndecided, "Unknown", "Unknown", status.Unknown, false,
		},
		{
			"moved by hand, a host silent",
			status.Facts{HostStates: one, SilentHosts: []string{"kvm3"}},
			status.PostCopyUndecided, "Unknown", "Unknown", status.Unknown, false,
		},
		{
			"source has sent all",
			status.Facts{HostStates: one, PostCopyPeer: "kvm1", PostCopySent: []string{"kvm1"}, SilentHosts: []string{"kvm3"}},
			status.PostCopySent, "Running", "Migrating", status.False, false,
		},
		{"source has sent all, and libvirt has paused the target", status.Facts{
			State: status.Paused, HostStates: map[string]string{"kvm2": "Paused (PostcopyFailed)"}, Migrating: true,
			PostCopyPeer: "kvm1", PostCopyFromPeer: true, PostCopySent: []string{"kvm1"},
		}, status.PostCopySent, "Running", "Migrating", status.False, true},
		{
			"a migration of before has sent all",
			status.Facts{HostStates: one, PostCopyPeer: "kvm1", PostCopySent: []string{"kvm3"}},
			status.PostCopyLost, "Failed", "Failed", status.True, false,
		},
		{
			"moved by hand, and a host has sent all",
			status.Facts{HostStates: one, PostCopySent: []string{"kvm1"}},
			status.PostCopyUndecided, "Unknown", "Unknown", status.Unknown, false,
		},
		{"target has sent the guest away", status.Facts{
			State: status.Paused, HostStates: map[string]string{"kvm2": "Paused (PostcopyFailed)"}, Migrating: true,
			PostCopyPeer: "kvm3", PostCopySent: []string{"kvm3"},
		}, status.PostCopyUndecided, "Unknown", "Unknown", status.Unknown, true},
		{"target gone", status.Facts{
			State: status.Paused, HostStates: map[string]string{"kvm1": "Paused (PostcopyFailed)"},
			Migrating: true,
		}, status.PostCopyLost, "Failed", "Failed", status.True, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := tt.facts
			f.Host, f.Active, f.Reason, f.AgentChannel, f.AgentConnected = "kvm2", true, failed, true, true
			if f.State == "" {
				f.State = status.Running
			}
			if f.PostCopy() != tt.verdict || status.InstancePhase(f) != tt.phase || status.PrintableStatus(f) != tt.printed {
				t.Errorf("%s: phase %s, status %s", f.PostCopy(), status.InstancePhase(f), status.PrintableStatus(f))
			}
			for of, want := range map[string]status.ConditionStatus{
				status.Ready: status.False, status.AgentConnected: status.False, status.LiveMigratable: status.False,
				status.StorageLiveMigratable: status.False, status.Irrecoverable: tt.irrecoverable,
			} {
				if c := status.ConditionOf(f, of); c.Status != want {
					t.Errorf("%s is %s (%s: %s), want %s", of, c.Status, c.Reason, c.Message, want)
				}
			}
			if f.GuestRuns() {
				t.Error("its guest counts as running")
			}
			if r := f.PostCopyReport(); strings.Contains(r, "is lost, and its disks") != (tt.verdict == status.PostCopyLost) {
				t.Errorf("it says %q", r)
			}
			for _, strategy := range status.RunStrategies {
				if a := status.PowerAction(strategy, status.PrintableStatus(f), status.InstancePhase(f), failed); a != status.None {
					t.Errorf("%s asks for %v", strategy, a)
				}
			}
		})
	}
}

// TestAgentConnected_ofAPanickedGuest: QEMU keeps the channel open when nothing is left that would answer.
func TestAgentConnected_ofAPanickedGuest(t *testing.T) {
	t.Parallel()
	f := running()
	f.State, f.Reason = status.Crashed, "Panicked"
	if c := status.ConditionOf(f, status.AgentConnected); c.Status != status.False || c.Reason != "GuestNotRunning" {
		t.Errorf("%+v", c)
	}
}
