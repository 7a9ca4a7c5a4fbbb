package virtualmachine_test

import (
	"regexp"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccClock_ofTheGuest: a guest that sets its hardware clock makes libvirt write another adjustment into the running
// definition, which is no drift and nothing that waits for a restart. A declared change of the adjustment is refused
// while the VM runs. With the policy Stage, it is pending until the next start, whatever the guest does to its clock,
// and until the value that the VM was started with is declared again. So is an interface's MTU that is given up. A
// clock with a fixed start replaces it.
func TestAccClock_ofTheGuest(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	const host = "kvm1"
	tf := acctest.NewCLI(t)
	config := guest(l, name).with(talking).with(hcl{"host": quote(host)})
	write := func(clock string, more hcl) {
		t.Helper()
		config = config.with(more).with(hcl{"platform": "{ clock = " + clock + " }"})
		tf.Config(t, acctest.OneHost(l)+config.String())
	}
	defined := func(option string, parts ...string) {
		t.Helper()
		if err := contains(l.Virsh(t, host, "dumpxml", option, name), parts...); err != nil {
			t.Error(err)
		}
	}
	pending := func(want bool) {
		t.Helper()
		if state, _ := tf.State(t, address); state["restart_required"] != want {
			t.Errorf("restart_required is %v, want %v", state["restart_required"], want)
		}
	}
	lan := func(mtu string) hcl { return hcl{"interfaces": `{ lan = { network = "default", mtu = ` + mtu + ` } }`} }
	write(`{ offset = "variable", adjustment = -3600 }`, lan("1400"))
	tf.Run(t, "apply")
	noChanges(t, tf)
	defined("--inactive", `<clock offset='variable' adjustment='-3600' basis='utc'`)

	outputInGuest(t, l, host, name, `date -s "@$(($(date +%s) + 86400))" && hwclock -u -w`)
	running := l.Virsh(t, host, "dumpxml", name)
	if now := regexp.MustCompile(`adjustment='(\d+)'`).FindStringSubmatch(running); now == nil || len(now[1]) != 5 {
		t.Errorf("libvirt didn't see that the guest has set its clock: %q", now)
	}
	noChanges(t, tf)
	write(`{ offset = "variable", adjustment = 120 }`, nil)
	expect(t, tf.Fail(t, "plan"), "Change needs a restart", "platform.clock.adjustment: The clock is set up when")
	write(`{ offset = "variable", adjustment = 120 }`, hcl{"update_policy": quote("Stage")})
	tf.Run(t, "apply")
	noChanges(t, tf)
	defined("--inactive", `adjustment='120'`)
	pending(true)
	tf.Run(t, "apply", "-refresh-only")
	pending(true)
	write(`{ offset = "variable", adjustment = -3600 }`, nil) // What the VM was started with.
	tf.Run(t, "apply")
	noChanges(t, tf)
	pending(false)
	for _, mtu := range []string{"0", "1400"} { // What runs has 1400: libvirt could have it of the network.
		write(`{ offset = "variable", adjustment = -3600 }`, lan(mtu))
		tf.Run(t, "apply")
		noChanges(t, tf)
		tf.Run(t, "apply", "-refresh-only")
		pending(mtu == "0")
	}
	write(`{ offset = "variable", adjustment = 120 }`, nil)
	tf.Run(t, "apply")
	outputInGuest(t, l, host, name, `date -s "@$(($(date +%s) + 86400))" && hwclock -u -w`)
	noChanges(t, tf)
	write(`{ offset = "variable", adjustment = 120 }`, hcl{"update_policy": quote("Restart")})
	expect(t, tf.Run(t, "plan"), "Virtual machine will be restarted",
		"platform.clock.adjustment: The clock is set up when")
	tf.Run(t, "apply")
	noChanges(t, tf)
	pending(false)
	write(`{ offset = "absolute", start = 1000000000 }`, hcl{"update_policy": quote("Restart")})
	tf.Run(t, "apply")
	noChanges(t, tf)
	defined("--inactive", `<clock offset='absolute' start='1000000000'`)
	if year := outputInGuest(t, l, host, name, "date +%Y"); year != "2001\n" && year != "2001" {
		t.Errorf("the guest's year is %q", year)
	}
	for clock, says := range map[string]string{
		`{ offset = "absolute" }`:                     "needs it",
		`{ offset = "utc", adjustment = 60 }`:         `It needs offset = "variable"`,
		`{ offset = "variable", basis = "timezone" }`: `"timezone" isn't one of`,
	} {
		write(clock, nil)
		expect(t, tf.Fail(t, "plan"), says)
	}
	write(`{ offset = "utc" }`, nil)
	tf.Run(t, "apply")
	noChanges(t, tf)
	defined("--inactive", "<clock offset='utc'")
	destroyAndCheck(t, l, tf, name)
}
