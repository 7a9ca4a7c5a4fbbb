package conditions_test

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/conditions"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/domainstats"
)

// TestAccConditions_oldAgent: an agent from before there was much to ask answers, and isn't supported for what it
// lacks. The commands that libvirt tries for us decide that; a raw question for the list of them says the same.
func TestAccConditions_oldAgent(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	// What QEMU 2.9 didn't have, but for the host name.
	const lacks = "guest-get-osinfo,guest-get-timezone,guest-get-users"
	m := define(t, l, "kvm2", "deny="+lacks, channel+fmt.Sprintf(nic, "network", "52:54:00:c0:0d:05", `network="default"`))
	m.boot()
	old := strings.ReplaceAll(lacks, ",", ", ")
	for _, settings := range []string{"", "raw_commands = true"} {
		m.config(acctest.On(l, m.host), settings)
		s := m.look()
		s.is("ready", "true", "os", "null", "unavailable/guest_agent", "null", "interfaces/0/interface_name", "eth0")
		s.condition("AgentConnected", "True", "AgentAnswers", "guest-agent", "")
		s.condition("AgentVersionNotSupported", "True", "CommandsNotSupported", "guest-agent", ": "+old+"$")
	}
}

// TestAccConditions_postCopyLost follows a migration into post-copy, where the guest runs on the target and the source
// keeps the rest of its memory, and loses the target: what is left at the source can't be saved any more.
func TestAccConditions_postCopyLost(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	m := define(t, l, "kvm1", "dirty=32", channel+fmt.Sprintf(nic, "bridge", "52:54:00:c0:0d:06", `bridge="br-lab"`))
	m.boot()
	l.AwaitConsole(t, "kvm1", m.name, lab.GuestWrites)
	// What the guest touches comes at once, whatever the limit. This it leaves alone: at 1 MiB/s it takes a minute more,
	// in which the VM can be looked at.
	const idle = "init: 64 MiB are idle"
	m.exec("for i in $(seq 16); do cat /dev/shm/block; done >/dev/shm/idle && echo " + idle + " >/dev/console")
	l.AwaitConsole(t, "kvm1", m.name, idle)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	migrate := exec.CommandContext(ctx, "virsh", "--quiet", "--connect", l.Host("kvm1").SocketURI(), "migrate", "--live",
		"--persistent", "--postcopy", "--bandwidth", "1", "--postcopy-bandwidth", "1", m.name, l.Host("kvm2").SocketURI())
	ended := make(chan error, 1)
	go func() { ended <- migrate.Run() }()
	m.await("the switch to post-copy", func() bool {
		// It is refused until the migration has begun.
		_, _ = l.TryVirsh(t, "kvm1", "migrate-postcopy", m.name)
		out, err := l.TryVirsh(t, "kvm2", "domstate", "--reason", m.name)
		return err == nil && strings.Contains(out, "running (post-copy)")
	})

	m.tf.Config(t, acctest.Config(l)+m.data(conditions.TypeName, "")+m.data(domainstats.TypeName, "jobs = true"))
	s := m.look()
	s.is("status", "Migrating", "current_host", "kvm2", "ready", "true", "active_hosts", "map[kvm1:source kvm2:target]",
		"migration_state/source_host", "kvm1", "migration_state/target_host", "kvm2", "migration_state/mode", "PostCopy")
	// The VM is on the target by now, what is known of its migration at the source.
	stats, _ := m.tf.State(t, domainstats.TypeName+".this")
	seen{t, stats}.is("stats/"+m.id+"/current_host", "kvm2", "stats/"+m.id+"/job/operation", "MigrationOut")
	m.config(acctest.Config(l), "")
	s.condition("Irrecoverable", "False", "Recoverable", "fleet", "")

	l.Run(t, "kvm2", "sh", "-c", "kill -9 $(cat /run/libvirt/qemu/"+m.name+".pid)")
	if err := <-ended; err == nil {
		t.Error("the migration lost its target, and says that it succeeded")
	}
	m.await("libvirt to see that post-copy failed", func() bool {
		return strings.Contains(m.virsh("domstate", "--reason", m.name), "post-copy failed")
	})
	m.await("its target to see that the process is gone", func() bool {
		out, err := l.TryVirsh(t, "kvm2", "domstate", m.name)
		return err == nil && strings.Contains(out, "shut off")
	})
	s = m.look()
	// libvirt keeps the job of the migration: the VM is still its source, and no host its target. It is over for good.
	s.is("phase", "Failed", "status", "Failed", "status_reason", "PostcopyFailed", "current_host", "kvm1",
		"ready", "false", "active_hosts", "map[kvm1:source]", "migration_state/mode", "PostCopy",
		"migration_state/target_host", "null", "migration_state/phase", "Failed", "migration_state/failed", "true",
		"migration_state/failure_plane", "data")
	s.condition("Irrecoverable", "True", "PostcopyFailed", "fleet", "no host has the target's part.* memory is lost")
	s.condition("AgentConnected", "False", "GuestNotRunning", "libvirt", "Failed")
	s.condition("Paused", "True", "PausedByPostcopyFailed", "libvirt", "kvm1")
	s.condition("Ready", "False", "PausedByPostcopyFailed", "libvirt", "")
}
