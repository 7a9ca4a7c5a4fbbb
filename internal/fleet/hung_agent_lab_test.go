package fleet

import (
	"context"
	"errors"
	"testing"
	"time"

	guestagent "github.com/virtfleet/terraform-provider-virtfleet/internal/guest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// hang stops the agent in the guest, which keeps its channel open.
func hang(t *testing.T, vm *VM) {
	t.Helper()

	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()

	// The parent of the shell that the agent runs is the agent. It answers first.
	stop := `{"execute":"guest-exec","arguments":{"path":"/bin/sh","arg":["-c","sleep 1; kill -STOP $PPID"]}}`

	_, err := vm.host.conn.AgentCommand(ctx, vm.UUID, stop)
	if err != nil {
		t.Fatal(err)
	}

	for err == nil {
		_, err = vm.host.conn.AgentCommand(ctx, vm.UUID, `{"execute":"guest-ping"}`)
	}

	if ctx.Err() != nil || !errors.Is(err, libvirt.ErrAgentUnavailable) {
		t.Fatal(err)
	}
}

// An agent that is connected and doesn't answer is asked one question, however
// much there would be to ask: the time that it takes is lost once.
func TestLab_hungAgentIsAskedOnce(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	f := labFleet(t, l, "alice", nil)
	vm := waitAgent(t, f, create(t, f, l, guest(l, lab.Name(t), "")))
	hang(t, vm)

	asked := func() int {
		calls := f.Calls()[vm.Host]

		return calls["virDomainGetGuestInfo"] + calls["virDomainQemuAgentCommand"] + calls["virDomainGetVcpusFlags"]
	}
	silent := func(r *guestagent.Report, groups ...guestagent.Group) {
		t.Helper()

		for _, g := range groups {
			if gap := r.Unavailable[g]; gap.Why != guestagent.TimedOut {
				t.Errorf("group %s is unavailable for another reason: %s", g, gap)
			}
		}
	}

	before := asked()
	if before == 0 {
		t.Fatal("the agent's questions aren't counted")
	}

	report, err := f.GuestInfo(t.Context(), vm, guestagent.Options{
		RawCommands: true, Probe: &guestagent.Probe{Command: []string{"/bin/true"}},
	})
	if err != nil {
		t.Fatal(err)
	}

	silent(report, append(guestagent.Groups(), guestagent.GroupProbe)...)

	if n := asked() - before; n != 1 {
		t.Errorf("everything that an agent can be asked took %d questions", n)
	}

	for _, raw := range []bool{false, true} {
		before = asked()

		o, err := f.Observe(t.Context(), Question{UUID: vm.UUID, RawCommands: raw})
		if err != nil {
			t.Fatal(err)
		}

		silent(o.Guest, guestagent.GroupOS, guestagent.GroupInterfaces)

		if n := asked() - before; n != 1 {
			t.Errorf("an observation, raw commands %t, took %d questions", raw, n)
		}
	}
}
