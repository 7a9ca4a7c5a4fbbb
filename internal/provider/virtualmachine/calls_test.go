package virtualmachine_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

// TestVirtualMachine_planAsksOnce: all VMs of a plan are read by what the first makes the provider ask, be they
// two or a thousand. Nothing but its addresses, which no bulk call tells, is asked for one VM that runs.
func TestVirtualMachine_planAsksOnce(t *testing.T) {
	t.Parallel()
	keepBuiltIn(t)
	const machines = 5
	type known struct {
		r       *rpc
		state   *tfprotov6.DynamicValue
		private []byte
	}
	var made []known
	for i := range machines {
		r := newRPC(t, local, fmt.Sprintf(`{
			"name": "asked-%d", "arch": "i686", "memory": {"size": "64Mi"}, "termination_grace_period": "0s",
			"interfaces": {"lan": {"network": "default"}}, "guest_agent": {"enabled": true}
		}`, i))
		state, private := r.create()
		made = append(made, known{r, state, private})
	}
	// Another run, which knows nothing yet, plans for all of them.
	plan := newRPC(t, local, typical)
	var first map[string]map[string]int
	for i, m := range made {
		plan.config = m.r.config
		plan.refresh(m.state, m.private)
		calls := plan.provider.Calls()
		if i == 0 {
			first = calls
		}
		first["local"]["virDomainInterfaceAddresses"] = i + 1
		if diff := cmp.Diff(first, calls); diff != "" {
			t.Errorf("reading VM %d, and planning for it, took calls of its own (-before +after):\n%s", i, diff)
		}
	}
	if first["local"]["virConnectListAllDomains"] == 0 {
		t.Errorf("the VMs were not read in bulk: %v", first)
	}
}

// TestAccVirtualMachine_hungAgent: an agent that hangs costs a plan one question. What it doesn't tell is not known,
// rather than none, and nothing is to be done about it.
func TestAccVirtualMachine_hungAgent(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	hosts := fmt.Sprintf(`{
		"hosts": {"kvm1": {"uri": %q}},
		"ssh": {"private_key_file": %q, "known_hosts_file": %q, "config_file": "none", "agent": false}
	}`, l.Host("kvm1").URI(), l.PrivateKeyFile(), l.KnownHostsFile())
	vm := fmt.Sprintf(`{
		"name": %q, "type": "qemu", "memory": {"size": "128Mi"}, "run_strategy": "Always",
		"kernel": {"path": %q, "initrd": %q, "cmdline": %q},
		"interfaces": {"lan": {"network": "default"}}, "guest_agent": {"enabled": true},
		"wait_for": {"guest_agent": true, "ip_address": "lan", "timeout": "5m"}
	}`, name, l.KernelPath(), l.InitrdPath(), lab.GuestCmdline)
	state, private := newRPC(t, hosts, vm).create()

	inGuest(t, l, "kvm1", name, "sleep 1; kill -STOP $PPID")
	lab.Await(t, "the agent to hang", func() bool {
		_, err := l.TryVirsh(t, "kvm1", "qemu-agent-command", name, `{"execute":"guest-ping"}`, "--timeout", "5")
		return err != nil
	})
	plan := newRPC(t, hosts, vm)
	seen, planned := plan.refresh(state, private)
	before, after := plan.attributes(seen), plan.attributes(planned)
	for attribute, v := range before {
		if !v.Equal(after[attribute]) {
			t.Errorf("%s is planned to change from %s to %s", attribute, v, after[attribute])
		}
	}
	if v := before["ip_addresses"]; !v.IsNull() {
		t.Errorf("addresses that no source told: %s", v)
	}
	if v := before["ready"]; !v.Equal(tftypes.NewValue(tftypes.Bool, true)) {
		t.Errorf("ready: %s", v)
	}
	calls := plan.provider.Calls()["kvm1"]
	if n := calls["virDomainInterfaceAddresses"]; n != 1 {
		t.Errorf("the guest was asked %d times: %v", n, calls)
	}
	for _, more := range []string{"virDomainQemuAgentCommand", "virDomainGetGuestInfo", "virDomainGetVcpusFlags"} {
		if n := calls[more]; n != 0 {
			t.Errorf("the guest was asked for more by %s: %v", more, calls)
		}
	}
}
