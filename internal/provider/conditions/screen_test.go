package conditions_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccConditions_screen runs the example that prints all that is known of one VM: of one that runs, of one that
// is off, and of one whose host may be silent.
func TestAccConditions_screen(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	m := define(t, l, "kvm2", "hostname=onscreen",
		channel+fmt.Sprintf(nic, "network", "52:54:00:c0:0d:07", `network="default"`))
	example, err := os.ReadFile("../../../examples/is-my-vm-alive/main.tf")
	if err != nil {
		t.Fatal(err)
	}
	put := func(file, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(m.tf.Dir, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put("main.tf", string(example))
	put("web.events", strings.Repeat("an old event\n", 3)+strings.Repeat("a late event\n", 10))
	shows := func(name string, lines ...string) {
		t.Helper()
		m.tf.Run(t, "apply", "-var", "name="+name, "-var", "events=web.events")
		printed, err := m.tf.TryText(t, "output", "-raw", "screen")
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range lines {
			if !regexp.MustCompile("(?m)^" + line).MatchString(printed) {
				t.Errorf("no line %q in\n%s", line, printed)
			}
		}
		t.Log("\n" + printed)
	}

	put("lab_override.tf", acctest.Config(l))
	shows(m.name, regexp.QuoteMeta(m.name)+`: Stopped`, `on kvm2 \(kvm2\), libvirt \d.*, \d+ VMs$`,
		`Started +False +Unknown`, `Guest +unknown: not running`, `Memory +unknown$`,
		`LAST EVENTS\n(a late event\n){10}$`,
		// It was never started, so there is no log: that is said, and the rest is there.
		`NOT KNOWN\n(.+\n)*qemu_log +.*/`+regexp.QuoteMeta(m.name)+`\.log: `)
	m.boot()
	shows(m.name, regexp.QuoteMeta(m.name)+`: Running \(Booted\), phase Running$`, `Ready +True +GuestRunning +- +libvirt`,
		`Started +True +Booted +20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ +libvirt`, `QEMU'S LOG$`, `20.* tainted: high-privileges$`,
		`AgentConnected +True +AgentAnswers +- +guest-agent`, `net0 +52:54:00:c0:0d:07 .*domain, guest-agent`,
		`Guest +Virtfleet lab guest 1, onscreen, \d+ users`, `Processors +\d+ % of one, 1 online`, `Memory +192 MiB`,
		`If its host is drained +LiveMigrateIfPossible by provider`, `Blocked +InterfaceNotLiveMigratable:`)

	put("lab_override.tf", acctest.Block{Lab: l, Hosts: []acctest.Host{
		{Of: l.Host("kvm1")}, {Name: "silent", URI: "qemu+ssh://root@" + l.Host("kvm1").Address + ":9/system"},
	}}.String())
	shows(m.name, regexp.QuoteMeta(m.name)+`: Unknown \(-\), phase Unknown$`, `on no host that answers`,
		`Connected +False +HostUnreachable`, `Ready +Unknown +HostUnreachable`, `Guest +unknown`)
}
