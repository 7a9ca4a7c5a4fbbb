package fleet

import (
	"fmt"
	"sync"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/fleettest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/observe"
	guestagent "github.com/virtfleet/terraform-provider-virtfleet/internal/guest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

// An agent that is connected and doesn't answer is asked one question, however much there would be to ask: the time
// that it takes is lost once. Several on one host are waited for together, and hold up no other VM.
func TestLab_hungAgentIsAskedOnce(t *testing.T) {
	t.Parallel()

	const hung = 4

	l := lab.Open(t)
	f := labFleet(t, l, "alice", nil)

	var names []string

	for i := range hung + 1 {
		name := fmt.Sprintf("%s-%d", lab.Name(t), i)
		l.Define(t, "kvm1", fmt.Sprintf(`<domain type="qemu"><name>%s</name><memory unit="MiB">128</memory>
  <features><acpi/></features><os><type arch="x86_64" machine="q35">hvm</type>
    <kernel>%s</kernel><initrd>%s</initrd><cmdline>%s</cmdline></os>
  <devices><channel type="unix"><target type="virtio" name="org.qemu.guest_agent.0"/></channel>
    <serial type="file"><source path="%s"/></serial></devices></domain>`,
			name, l.KernelPath(), l.InitrdPath(), lab.GuestCmdline, lab.ConsoleLog(name)))
		l.Virsh(t, "kvm1", "start", name)
		names = append(names, name)
	}

	for i, name := range names {
		l.AwaitAgent(t, "kvm1", name)

		if i < hung {
			l.HangAgent(t, "kvm1", name)
		}
	}

	look := func(name string, raw bool) *observe.Observation {
		t.Helper()

		o, err := f.Observe(t.Context(), observe.Question{Name: name, RawCommands: raw})
		if err != nil {
			t.Error(err)

			return &observe.Observation{Guest: &guestagent.Report{}}
		}

		return o
	}
	asked := func() int {
		calls := f.Calls()["kvm1"]

		return calls["virDomainGetGuestInfo"] + calls["virDomainQemuAgentCommand"] + calls["virDomainGetVcpusFlags"]
	}
	silent := func(r *guestagent.Report, groups ...guestagent.Group) {
		t.Helper()

		for _, g := range groups {
			if gap := r.Unavailable[g]; gap.Reason != guestagent.TimedOut {
				t.Errorf("group %s is unavailable for another reason: %s", g, gap)
			}
		}
	}
	told := func(o *observe.Observation) string {
		t.Helper()

		if o.Guest.Info.OS == nil || o.DiskErrors == nil || o.Rule == nil {
			t.Errorf("not everything of the healthy VM is known: %v", o.Unavailable)
		}

		return fmt.Sprint(o.Unavailable)
	}

	healthy := names[hung]
	alone := told(look(healthy, false))

	questions := asked()
	if questions == 0 {
		t.Fatal("the agent's questions aren't counted")
	}

	seen := make([]*observe.Observation, len(names))

	var all sync.WaitGroup
	for i, name := range names {
		all.Go(func() { seen[i] = look(name, false) })
	}

	fleettest.AwaitAll(t, &all)

	if n := asked() - questions; n != questions+hung {
		t.Errorf("%d hung agents, and one that takes %d questions, were asked %d", hung, questions, n)
	}

	for _, o := range seen[:hung] {
		silent(o.Guest, guestagent.GroupOS, guestagent.GroupInterfaces)
	}

	if withHung := told(seen[hung]); withHung != alone {
		t.Errorf("alone there is unavailable: %s, together with hung agents: %s", alone, withHung)
	}

	before := asked()

	report, err := f.GuestInfo(t.Context(), seen[0].VM, guestagent.Options{
		RawCommands: true, Probe: &guestagent.Probe{Command: []string{"/bin/true"}},
	})
	if err != nil {
		t.Fatal(err)
	}

	silent(report, append(guestagent.Groups(), guestagent.GroupProbe)...)

	if n := asked() - before; n != 1 {
		t.Errorf("everything that an agent can be asked took %d questions", n)
	}

	before = asked()

	silent(look(names[0], true).Guest, guestagent.GroupOS, guestagent.GroupInterfaces)

	if n := asked() - before; n != 1 {
		t.Errorf("an observation with raw commands took %d questions", n)
	}
}
