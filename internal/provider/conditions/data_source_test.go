package conditions_test

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/conditions"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/domainstats"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/guestinfo"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/migrationcandidates"
)

func TestMain(m *testing.M) { acctest.Main(m) }

const (
	channel = `<channel type="unix"><target type="virtio" name="org.qemu.guest_agent.0"/></channel>`
	// Leases are a host's, not a guest's, so every test has a MAC of its own.
	nic = `<interface type="%s"><mac address="%s"/><source %s/><model type="virtio"/></interface>`
)

// testVM is a VM that was made by hand, and the data source that looks at it.
type testVM struct {
	t        *testing.T
	lab      *lab.Lab
	tf       *acctest.CLI
	host     string
	id, name string
}

// define makes a VM on a host of the lab, which is the only one that is asked.
func define(t *testing.T, l *lab.Lab, host, words, devices string) *testVM {
	t.Helper()
	m := &testVM{t: t, lab: l, tf: acctest.NewCLI(t), host: host, id: uuid.NewString(), name: lab.Name(t)}
	l.RemoveDomain(t, m.name)
	l.Define(t, host, fmt.Sprintf(`<domain type="qemu">
  <name>%s</name><uuid>%s</uuid><memory unit="MiB">192</memory><vcpu>1</vcpu>
  <os><type arch="x86_64" machine="q35">hvm</type><kernel>%s</kernel><initrd>%s</initrd>
    <cmdline>%s %s</cmdline></os>
  <features><acpi/></features>
  <devices>%s<serial type="file"><source path="%s"/></serial></devices>
</domain>`, m.name, m.id, l.KernelPath(), l.InitrdPath(), lab.GuestCmdline, words, devices, lab.ConsoleLog(m.name)))
	m.config(acctest.On(l, host), "")
	return m
}

func (m *testVM) config(provider, settings string) {
	m.t.Helper()
	m.tf.Config(m.t, provider+m.data(conditions.TypeName, settings))
}

// data is a data source about the VM.
func (m *testVM) data(typeName, settings string) string {
	return fmt.Sprintf("\ndata %q \"this\" {\n  virtual_machine_id = %q\n  %s\n}\n", typeName, m.id, settings)
}

func (m *testVM) virsh(args ...string) string {
	m.t.Helper()
	return m.lab.Virsh(m.t, m.host, args...)
}

// exec runs a shell command in the guest, in a moment: some of them keep the agent from answering.
func (m *testVM) exec(command string) {
	m.t.Helper()
	m.virsh("qemu-agent-command", m.name, fmt.Sprintf(
		`{"execute":"guest-exec","arguments":{"path":"/bin/sh","arg":["-c",%q]}}`, "sleep 1; "+command))
}

// boot starts the VM and waits until its agent answers.
func (m *testVM) boot() {
	m.t.Helper()
	m.virsh("start", m.name)
	m.awaitAgent()
	m.lab.AwaitConsole(m.t, m.host, m.name, lab.GuestUp) // Drivers are loaded after the agent has started.
}

func (m *testVM) awaitAgent() {
	m.t.Helper()
	m.lab.AwaitAgent(m.t, m.host, m.name)
}

func (m *testVM) await(what string, so func() bool) {
	m.t.Helper()
	lab.Await(m.t, what, so)
}

// seen is what the data source read.
type seen struct {
	t   *testing.T
	all map[string]any
}

func (m *testVM) look() seen {
	m.t.Helper()
	m.tf.Run(m.t, "apply")
	all, _ := m.tf.State(m.t, conditions.TypeName+".this")
	if all == nil {
		m.t.Fatal("nothing was read")
	}
	return seen{m.t, all}
}

// at follows keys and list indices.
func (s seen) at(path string) any {
	var v any = s.all
	for key := range strings.SplitSeq(path, "/") {
		switch of := v.(type) {
		case map[string]any:
			v = of[key]
		case []any:
			i := int(key[0] - '0')
			if i >= len(of) {
				return nil
			}
			v = of[i]
		default:
			return nil
		}
	}
	return v
}

// is expects values by path, as text; "null" is null.
func (s seen) is(pairs ...string) {
	s.t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		got := "null"
		switch v := s.at(pairs[i]).(type) {
		case nil:
		case float64:
			got = strconv.FormatFloat(v, 'f', -1, 64)
		default:
			got = fmt.Sprint(v)
		}
		if got != pairs[i+1] {
			s.t.Errorf("%s is %q, want %q (unavailable: %v)", pairs[i], got, pairs[i+1], s.all["unavailable"])
		}
	}
}

// condition expects a condition's status, reason and layer, and a part of its message.
func (s seen) condition(name, status, reason, layer, message string) {
	s.t.Helper()
	at := "conditions/" + name
	s.is(at+"/type", name, at+"/status", status, at+"/reason", reason, at+"/layer", layer)
	if said, _ := s.at(at + "/message").(string); !regexp.MustCompile(message).MatchString(said) {
		s.t.Errorf("%s says %q, want %q", name, said, message)
	}
}

// TestAccConditions_lifeOfAVM follows one VM from its definition to its crash, through everything that keeps
// "it is running" from meaning "it is alive".
func TestAccConditions_lifeOfAVM(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	disk := l.Image(t, "kvm1", lab.Name(t)+".qcow2", "qcow2", 8<<20)
	mac := "52:54:00:c0:0d:01"
	m := define(t, l, "kvm1", "hostname=alive", channel+fmt.Sprintf(nic, "network", mac, `network="default"`)+
		`<disk type="file" device="disk"><driver name="qemu" type="qcow2"/><source file="`+disk+
		`"/><target dev="vda"/></disk>`)
	m.config(acctest.Config(l), "") // Where else it could be is part of what is told.

	s := m.look()
	s.is("phase", "Unknown", "status", "Stopped", "ready", "false", "current_host", "kvm1", "name", m.name,
		"migration_state", "null", "os", "null", "active_hosts", "map[]",
		"interfaces/0/info_source", "domain", "interfaces/0/name", "net0",
		"memory/guest_at_boot_bytes", fmt.Sprint(192<<20), "memory/guest_current_bytes", "null")
	s.condition("Connected", "True", "HostAnswers", "connection", "kvm1")
	s.condition("Defined", "True", "Persistent", "libvirt", "")
	s.condition("Started", "False", "Unknown", "libvirt", "Shutoff")
	s.condition("Ready", "False", "GuestNotRunning", "libvirt", "Stopped")
	s.condition("AgentConnected", "False", "GuestNotRunning", "libvirt", "")
	s.condition("LiveMigratable", "False", "GuestNotRunning", "libvirt", "")
	s.condition("DataVolumesReady", "True", "AllDVsReady", "libvirt", "")

	m.boot()
	m.await("a lease, which the agent has heard of", func() bool {
		says, err := l.TryVirsh(t, "kvm1", "domifaddr", m.name, "--source", "agent")
		return err == nil && strings.Contains(says, "192.168.122.") &&
			strings.Contains(m.virsh("domifaddr", m.name), "192.168.122.")
	})
	s = m.look()
	s.is("phase", "Running", "status", "Running", "ready", "true", "os/id", "virtfleet-lab",
		"active_hosts/kvm1", "active", "interfaces/0/mac", mac, "interfaces/0/interface_name", "eth0",
		"interfaces/0/info_source", "domain, guest-agent, lease", "interfaces/0/link_up", "true",
		"interfaces/0/queue_count", "1", "current_cpu_topology/vcpus", "1", "disk_errors", "map[]",
		"memory/guest_current_bytes", fmt.Sprint(192<<20), "interfaces/1", "null")
	ip, _ := s.at("interfaces/0/ip_address").(string)
	if ip == "" || !strings.Contains(m.virsh("domifaddr", m.name), ip+"/") {
		t.Errorf("address %q isn't the leased one", ip)
	}
	s.condition("Started", "True", "Booted", "libvirt", "Running")
	s.condition("Ready", "True", "GuestRunning", "libvirt", "")
	s.condition("Paused", "False", "NotPaused", "libvirt", "")
	for _, nobodyKnowsSince := range []string{"Ready", "Paused", "AgentConnected", "LiveMigratable"} {
		s.is("conditions/"+nobodyKnowsSince+"/last_transition_time", "null")
	}
	s.condition("AgentConnected", "True", "AgentAnswers", "guest-agent", "")
	s.condition("AgentVersionNotSupported", "Unknown", "NotObserved", "guest-agent", "taints")
	s.condition("DataVolumesReady", "True", "AllDVsReady", "qemu", "")
	// The disk is a file of kvm1's, and the network is each host's own: both are said, the interface first.
	s.condition("LiveMigratable", "False", "InterfaceNotLiveMigratable", "libvirt", "(?s)default.*no such volume")
	s.condition("StorageLiveMigratable", "False", "NotMigratable", "libvirt", "^InterfaceNotLiveMigratable")
	s.is("blockers/0/reason", "InterfaceNotLiveMigratable", "blockers/1/reason", "DisksNotLiveMigratable",
		"blockers/1/attribute", "disks.vda")

	m.config(acctest.OneHost(l), "raw_commands = true")
	m.look().condition("AgentVersionNotSupported", "False", "CommandsSupported", "guest-agent", "")
	m.config(acctest.OneHost(l), "")

	m.virsh("suspend", m.name)
	s = m.look()
	s.is("phase", "Running", "status", "Paused", "ready", "false")
	s.condition("Paused", "True", "PausedByUser", "libvirt", "kvm1")
	s.is("conditions/Paused/last_transition_time", "null")
	s.condition("Ready", "False", "PausedByUser", "libvirt", "Paused")
	s.condition("AgentConnected", "True", "ChannelOpen", "qemu", "not running")
	m.virsh("resume", m.name)
	m.awaitAgent()

	// An agent that hangs costs one question, and isn't taken for one that is there. What the lease says stays known.
	l.HangAgent(t, "kvm1", m.name)
	began := time.Now()
	s = m.look()
	t.Logf("a hung agent: read in %s", time.Since(began).Round(time.Millisecond))
	s.is("ready", "true", "os", "null", "interfaces/0/info_source", "domain, lease",
		"interfaces/0/interface_name", "null")
	s.condition("AgentConnected", "False", "AgentNotResponding", "guest-agent", "doesn't answer")
	s.condition("AgentVersionNotSupported", "Unknown", "NotObserved", "guest-agent", "timed out")

	// The process is killed: that is a crash, and libvirt knows.
	l.Run(t, "kvm1", "sh", "-c", "kill -9 $(cat /run/libvirt/qemu/"+m.name+".pid)")
	m.await("libvirt to see the crash", func() bool { return strings.Contains(m.virsh("domstate", m.name), "shut off") })
	s = m.look()
	s.is("phase", "Failed", "status", "Failed", "status_reason", "Crashed", "ready", "false")
	s.condition("Started", "False", "Crashed", "libvirt", "Shutoff")

	// A disk that is gone is found before a start.
	l.Run(t, "kvm1", "mv", disk, disk+".gone")
	// Another test may have had the pool read again, of which the file isn't known any more.
	m.look().is("conditions/DataVolumesReady/reason", "NotAllDVsReady")
	l.Run(t, "kvm1", "mv", disk+".gone", disk)
}

// TestAccConditions_agentAbsent: what DHCP knows doesn't need an agent.
func TestAccConditions_agentAbsent(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	m := define(t, l, "kvm2", "noagent", channel+fmt.Sprintf(nic, "network", "52:54:00:c0:0d:02", `network="default"`))
	m.virsh("start", m.name)
	m.await("a lease", func() bool { return strings.Contains(m.virsh("domifaddr", m.name), "192.168.122.") })
	s := m.look()
	s.is("ready", "true", "interfaces/0/info_source", "domain, lease", "os", "null")
	s.condition("AgentConnected", "False", "ChannelClosed", "qemu", "no agent")
	if why := fmt.Sprint(s.at("unavailable/guest_agent")); !strings.HasPrefix(why, "not connected") {
		t.Errorf("the agent is unavailable because %q", why)
	}
}

// TestAccConditions_agentWithoutLease: on a bridge, where libvirt leases nothing, the agent knows the address, and the
// interfaces that only the guest has. The VM has no local disk either, and could move.
func TestAccConditions_agentWithoutLease(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	m := define(t, l, "kvm1", "", channel+fmt.Sprintf(nic, "bridge", "52:54:00:c0:0d:03", `bridge="br-lab"`))
	m.config(acctest.Config(l), "")
	m.boot()
	// The file keeps the guest from asking for an address by DHCP.
	m.exec(": >/run/dhcp.dummy0; insmod /modules/dummy.ko; ip link set dummy0 address 02:00:00:c0:0d:03 up; " +
		"ip addr add 10.99.0.7/24 dev dummy0")
	m.await("the addresses", func() bool {
		told := m.virsh("domifaddr", m.name, "--source", "agent")
		return strings.Contains(told, "eth0") && strings.Contains(told, "10.99.0.7/24")
	})
	var s seen
	m.await("an IPv4 address", func() bool {
		s = m.look()
		return s.at("interfaces/0/ip_address") != nil
	})
	s.is("interfaces/0/info_source", "domain, guest-agent", "interfaces/1/info_source", "guest-agent",
		"interfaces/1/name", "null", "interfaces/1/interface_name", "dummy0", "interfaces/1/mac", "02:00:00:c0:0d:03",
		"interfaces/1/ip_address", "10.99.0.7", "interfaces/1/link_up", "null", "interfaces/2", "null")
	s.condition("StorageLiveMigratable", "True", "Migratable", "libvirt", "")
	// What the host's neighbours would say, not every kernel tells. That is said, and takes nothing else away.
	_, err := l.TryVirsh(t, "kvm1", "domifaddr", m.name, "--source", "arp")
	if told := s.at("unavailable/arp"); (told != nil) != (err != nil) {
		t.Errorf("ARP is unavailable because %v, and virsh says %v", told, err)
	}

	// The agent dies, and the guest keeps running.
	m.exec("kill -KILL $PPID")
	m.await("the agent to be gone", func() bool {
		return !strings.Contains(m.virsh("dumpxml", m.name), "state='connected'")
	})
	s = m.look()
	s.is("ready", "true", "interfaces/0/info_source", "domain", "interfaces/0/ip_address", "null", "interfaces/1", "null")
	s.condition("Started", "True", "Booted", "libvirt", "")
	s.condition("AgentConnected", "False", "ChannelClosed", "qemu", "")

	// By name it is the same VM.
	m.tf.Config(t, fmt.Sprintf("%s\ndata %q \"this\" {\n  name = %q\n  target_host = \"kvm2\"\n}\n", acctest.Config(l),
		conditions.TypeName, m.name))
	s = m.look()
	s.is("virtual_machine_id", m.id, "current_host", "kvm1")
	for _, b := range s.all["blockers"].([]any) { //nolint:forcetypeassert // A test may panic.
		if why := fmt.Sprint(b); strings.Contains(why, "kvm3") {
			t.Errorf("asked about kvm2, and told %s", why)
		}
	}
	// A target that isn't configured is an error, not a blocker.
	m.config(acctest.Config(l), `target_host = "nowhere"`)
	if out := m.tf.Fail(t, "plan"); !strings.Contains(out, `"nowhere" is not among the configured hosts`) {
		t.Error(out)
	}
}

// ioError expects a guest that is paused because a disk failed.
func ioError(s seen, kind, message string) {
	s.t.Helper()
	s.is("phase", "Running", "status", "Paused", "status_reason", "IOError", "disk_errors/vda", kind)
	s.condition("Paused", "True", "PausedIOError", "libvirt", message)
	s.condition("Ready", "False", "PausedIOError", "libvirt", "IOError")
	s.condition("DataVolumesReady", "False", "NotAllDVsReady", "qemu", message)
	s.condition("LiveMigratable", "False", "StateNotMigratable", "libvirt", "")
}

// TestAccConditions_fullFilesystem: a disk that can't grow stops its guest, and the reason is told.
func TestAccConditions_fullFilesystem(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	dir := "/var/lib/libvirt/" + lab.Name(t)
	l.Run(t, "kvm1", "mkdir", dir)
	l.Run(t, "kvm1", "mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", dir)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
		defer cancel()
		if _, err := l.Host("kvm1").Run(ctx, "sh", "-c", "umount "+dir+" && rmdir "+dir); err != nil {
			t.Error(err)
		}
	})
	l.Run(t, "kvm1", "qemu-img", "create", "-q", "-f", "raw", dir+"/disk", "16M")
	m := define(t, l, "kvm1", "", channel+`<disk type="file" device="disk"><driver name="qemu" type="raw"/><source file="`+
		dir+`/disk"/><target dev="vda" bus="virtio"/></disk>`)
	m.boot()
	m.exec("dd if=/dev/zero of=/dev/vda bs=1M count=8 conv=fsync")
	m.await("the disk to fail", func() bool { return strings.Contains(m.virsh("domstate", m.name, "--reason"), "I/O") })
	ioError(m.look(), "NoSpace", "no space left")
}

// TestAccConditions_lostStorage: the server of the disk is killed.
func TestAccConditions_lostStorage(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	disk := l.NBD(t, lab.Name(t), 16<<20)
	m := define(t, l, "kvm1", "", channel+fmt.Sprintf(`<disk type="network" device="disk">
  <driver name="qemu" type="raw" cache="none" error_policy="stop"/>
  <source protocol="nbd" name="%s"><host name="%s" port="%d"/></source><target dev="vda" bus="virtio"/></disk>`,
		disk.Name, disk.Host, disk.Port))
	// libvirt can't look at network storage for a VM that is off.
	m.look().condition("DataVolumesReady", "Unknown", "NotAllDVsReady", "libvirt", "vda")
	m.boot()
	m.look().condition("DataVolumesReady", "True", "AllDVsReady", "qemu", "")
	if err := l.RemoveExport(t.Context(), disk.Name); err != nil {
		t.Fatal(err)
	}
	m.exec("dd if=/dev/zero of=/dev/vda bs=1M count=1 conv=fsync")
	m.await("the disk to fail", func() bool { return strings.Contains(m.virsh("domstate", m.name, "--reason"), "I/O") })
	ioError(m.look(), "Unspecified", "reading or writing it failed")
}

// TestAccConditions_migration: while a VM moves both hosts are seen, with their roles, and it counts as ready.
// When it is stopped to let the migration end, neither copy runs, and it is still one VM. Of a migration that is
// over, the VM's record says how it ended, in the words of the resource that ordered it.
func TestAccConditions_migration(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	// As much as it writes to is still to be copied when it is stopped, which takes a minute and a half.
	m := define(t, l, "kvm1", "dirty=96", channel+fmt.Sprintf(nic, "bridge", "52:54:00:c0:0d:04", `bridge="br-lab"`))
	m.boot()
	l.AwaitConsole(t, "kvm1", m.name, lab.GuestWrites)
	m.virsh("migrate-setspeed", m.name, "1")
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	ended := make(chan error, 1)
	ordered := time.Now().Truncate(time.Second)
	go func() { ended <- l.Host("kvm1").Migrate(ctx, m.name, l.Host("kvm2")) }()
	m.await("the migration to begin", func() bool { return l.Copying(t, "kvm1", m.name) })

	m.tf.Config(t, fmt.Sprintf("%s\ndata %q \"this\" {\n  virtual_machine_id = %q\n}\n"+
		"data \"virtfleet_hosts\" \"this\" {\n  include = [\"virtual_machines\"]\n}\n", acctest.Config(l),
		conditions.TypeName, m.id))
	s := m.look()
	fleet, _ := m.tf.State(t, "virtfleet_hosts.this")
	at := "/virtual_machines/" + m.id + "/"
	seen{t, fleet}.is("hosts/kvm1"+at+"role", "source", "hosts/kvm1"+at+"status", "Migrating",
		"hosts/kvm2"+at+"role", "target", "hosts/kvm2"+at+"status", "Migrating", "hosts/kvm3"+at+"role", "null")
	s.is("phase", "Running", "status", "Migrating", "current_host", "kvm1", "ready", "true",
		"active_hosts", "map[kvm1:source kvm2:target]", "migration_state/source_host", "kvm1",
		"migration_state/target_host", "kvm2", "migration_state/mode", "PreCopy", "migration_state/phase", "Running",
		"migration_state/method", "LiveMigration", "migration_state/completed", "false", "migration_state/end_time", "null",
		"migration_state/abort_requested", "null")
	if n, _ := s.at("migration_state/statistics/data_remaining_bytes").(float64); n < 1<<20 {
		t.Errorf("%v bytes remain", n)
	}
	began, err := time.Parse(time.RFC3339, fmt.Sprint(s.at("migration_state/start_time")))
	if err != nil || began.Before(ordered) || began.After(time.Now()) {
		t.Errorf("began %v, ordered %v, %v", began, ordered, err)
	}
	s.condition("LiveMigratable", "True", "Migrating", "libvirt", "")
	s.is("conditions/LiveMigratable/last_transition_time", fmt.Sprint(s.at("migration_state/start_time")))

	m.virsh("suspend", m.name)
	s = m.look()
	s.is("status", "Migrating", "current_host", "kvm1", "ready", "false", "migration_state/mode", "Paused",
		"active_hosts", "map[kvm1:source kvm2:target]")
	s.condition("Paused", "True", "PausedByMigrationMonitor", "libvirt", "")

	m.virsh("domjobabort", m.name)
	if err := <-ended; err == nil {
		t.Error("the migration was aborted, and says that it succeeded")
	}
	// It wasn't recorded.
	m.look().is("migration_state", "null", "active_hosts", "map[kvm1:active]")
	m.virsh("migrate-setspeed", m.name, "8192")
	m.isRecorded()
}

// isRecorded has the VM, which writes to its memory on kvm1, moved to kvm2, and expects its record to be known.
func (m *testVM) isRecorded() {
	t, l := m.t, m.lab
	t.Helper()
	var hosts []acctest.Host
	for _, name := range []string{"kvm1", "kvm2"} {
		hosts = append(hosts, acctest.Host{
			Of: l.Host(name), Settings: fmt.Sprintf("migration_address = %q", l.Host(name).Address),
		})
	}
	provider := acctest.Block{Lab: l, Hosts: hosts}.String()
	ordered := func(options string) string {
		return fmt.Sprintf("%s\nresource \"virtfleet_migration\" \"this\" {\n  virtual_machine_id = %q\n  %s\n}\n",
			provider, m.id, options)
	}
	// lookAfter expects the data source to say what the resource says, which is gone by then.
	lookAfter := func() seen {
		t.Helper()
		resource, _ := m.tf.State(t, "virtfleet_migration.this")
		want, _ := resource["migration_state"].(map[string]any)
		want["phase"] = resource["phase"]
		m.config(provider, "")
		s := m.look()
		if diff := cmp.Diff(any(want), s.at("migration_state")); diff != "" {
			t.Errorf("-resource +data source:\n%s", diff)
		}
		return s
	}

	m.tf.Config(t, ordered(`migration_options = { bandwidth = "2Mi", completion_timeout_per_gib = "2s" }`))
	m.tf.Fail(t, "apply")
	lookAfter().is("current_host", "kvm1", "migration_state/phase", "Failed", "migration_state/completed", "true",
		"migration_state/failed", "true", "migration_state/failure_plane", "data",
		"migration_state/abort_requested", "true", "migration_state/abort_status", "Succeeded")

	m.tf.Config(t, ordered(""))
	m.tf.Run(t, "apply")
	lookAfter().is("current_host", "kvm2", "migration_state/phase", "Succeeded", "migration_state/completed", "true",
		"migration_state/failed", "false", "migration_state/abort_requested", "false", "migration_state/recovered", "false",
		"conditions/Started/last_transition_time", "null")
	if left, empty := m.tf.Empty(t); !empty {
		t.Errorf("left to do:\n%s", left)
	}
}

// TestAccConditions_panic: a guest that panicked and is kept for its autopsy has a process and is dead all the same. It
// doesn't keep the other VMs of its host from being read.
func TestAccConditions_panic(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	m := define(t, l, "kvm2", "panic", channel+`<panic model="isa"/>`)
	preserved := strings.Replace(m.virsh("dumpxml", "--inactive", m.name), "<on_crash>destroy<", "<on_crash>preserve<", 1)
	l.Define(t, "kvm2", preserved)
	m.boot()
	m.await("the panic driver", func() bool {
		_, err := l.TryVirsh(t, "kvm2", "qemu-agent-command", m.name, "--timeout", "5",
			`{"execute":"guest-file-open","arguments":{"path":"/sys/module/pvpanic_mmio/initstate"}}`)
		return err == nil
	})
	m.exec("echo c >/proc/sysrq-trigger")
	m.await("the panic", func() bool { return strings.Contains(m.virsh("domstate", m.name), "crashed") })
	s := m.look()
	s.is("phase", "Failed", "status", "Failed", "status_reason", "Panicked", "ready", "false",
		"active_hosts", "map[kvm2:active]")
	s.condition("Started", "True", "Panicked", "libvirt", "Crashed")
	s.condition("Ready", "False", "GuestNotRunning", "libvirt", "Failed")
	s.condition("AgentConnected", "False", "GuestNotRunning", "libvirt", "")
	s.condition("LiveMigratable", "False", "StateNotMigratable", "libvirt", "crashed")
}

// TestAccConditions_silentHost: what a silent host has is unknown, never absent. A VM that answers is known, but
// not whether the silent host has a leftover of it.
func TestAccConditions_silentHost(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	m := define(t, l, "kvm1", "", "")
	provider := acctest.Block{Lab: l, Hosts: []acctest.Host{
		{Of: l.Host("kvm1")}, {Name: "silent", URI: "qemu+ssh://root@" + l.Host("kvm1").Address + ":9/system"},
	}}.String()
	m.config(provider, "")
	s := m.look()
	s.is("current_host", "kvm1", "status", "Stopped")
	s.condition("StaleDefinition", "Unknown", "HostUnreachable", "fleet", "silent")
	id := m.id
	m.id = uuid.NewString()
	m.config(provider, "")
	s = m.look()
	s.is("current_host", "null", "phase", "Unknown", "status", "Unknown", "ready", "null", "blockers", "null",
		"active_hosts", "null")
	s.condition("Connected", "False", "HostUnreachable", "connection", "silent")
	s.condition("Started", "Unknown", "HostUnreachable", "connection", "silent")
	m.keepsUnknown(id)
	// Once every host has answered, it is an error.
	m.config(acctest.Config(l), "")
	if out := m.tf.Fail(t, "plan"); !strings.Contains(out, "No host has it") {
		t.Error(out)
	}
}

// keepsUnknown reads what has no conditions, of the VM that may be on a silent host and of another one, known, that
// isn't. It is an error, and with on_unreachable = "keep" a warning: then its values are null, and those of the known
// VM are there.
func (m *testVM) keepsUnknown(known string) {
	t := m.t
	t.Helper()
	config := func(settings string) string {
		return acctest.Block{Lab: m.lab, Settings: settings, Hosts: []acctest.Host{
			{Of: m.lab.Host("kvm1")}, {Name: "silent", URI: "qemu+ssh://root@" + m.lab.Host("kvm1").Address + ":9/system"},
		}}.String() + m.data(guestinfo.TypeName, "") + m.data(migrationcandidates.TypeName, "") +
			m.data(domainstats.TypeName, "") + strings.NewReplacer(
			"TYPE", domainstats.TypeName, "KNOWN", known, "UNKNOWN", m.id).Replace(`
data "TYPE" "list" { virtual_machines = ["KNOWN", "UNKNOWN"] }
data "TYPE" "all" { selector = {} }
data "TYPE" "named" { name = "UNKNOWN" }
`)
	}
	m.tf.Config(t, config(""))
	if out := m.tf.Fail(t, "plan"); strings.Count(out, "Error: Unable to read") != 6 {
		t.Errorf("the plan doesn't fail for each data source: %s", out)
	}
	m.tf.Config(t, config(`on_unreachable = "keep"`))
	out := m.tf.Run(t, "apply")
	for _, noun := range []string{"guest information", "migration candidates", "statistics"} {
		if !strings.Contains(out, "Warning: Unable to read "+noun) {
			t.Errorf("no warning about %s: %s", noun, out)
		}
	}
	if !strings.Contains(out, "Host: silent") || !strings.Contains(out, `on_unreachable is "keep"`) {
		t.Errorf("the warnings don't name the host and the setting: %s", out)
	}
	read := func(address string) seen {
		all, _ := m.tf.State(t, address)
		return seen{t, all}
	}
	read(guestinfo.TypeName+".this").is("virtual_machine_id", m.id, "name", "null", "agent_connected", "null",
		"hostname", "null", "unavailable", "null")
	read(migrationcandidates.TypeName+".this").is("virtual_machine_id", m.id, "current_host", "null", "best", "null",
		"fitting", "null", "hosts", "null")
	for _, address := range []string{".this", ".list"} {
		stats := read(domainstats.TypeName + address)
		stats.is("stats/"+m.id+"/name", "null", "stats/"+m.id+"/state", "null", "stats/"+m.id+"/cpu", "null")
		if why := fmt.Sprint(stats.at("stats/" + m.id + "/unavailable/statistics")); !strings.Contains(why, "silent") {
			t.Errorf("%s: the statistics are unavailable because %s", address, why)
		}
	}
	for _, address := range []string{".list", ".all"} {
		read(domainstats.TypeName+address).is("stats/"+known+"/name", m.name, "stats/"+known+"/state", "Shutoff")
	}
	read(domainstats.TypeName+".named").is("virtual_machine_id", "null", "stats", "map[]")
	if out, empty := m.tf.Empty(t); !empty {
		t.Errorf("left to do:\n%s", out)
	}
}
