package virtualmachine_test

import (
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// schedulers are the kernel's scheduling policies and priorities of the VM's threads by their names: "CPU 0/TCG". The
// first thread is "main": others begin with its name, too.
func schedulers(t *testing.T, l *lab.Lab, host, pid string) map[string]string {
	t.Helper()
	found := map[string]string{}
	for line := range strings.Lines(l.Run(t, host, "bash", "-c",
		`for task in /proc/"$1"/task/*; do
	name=$(cat "$task/comm")
	[ "${task##*/}" != "$1" ] || name=main
	echo "$name: $(chrt -p "${task##*/}" | sed 's/.*: //' | tr '\n' ' ')"
done`, "schedulers", pid)) {
		name, policy, _ := strings.Cut(line, ": ")
		found[name] = strings.TrimSpace(policy)
	}
	return found
}

// TestAccCompute_realTime: the kernel schedules the threads of a running VM as declared.
func TestAccCompute_realTime(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	const host = "kvm1"
	process := &started{l: l, host: host, name: name}
	tf := acctest.NewCLI(t)
	config := tinyVM(name).with(hcl{
		"host": quote(host), "platform": `{ iothreads = 1 }`,
		"cpu": `{
    vcpus              = 2
    scheduler          = { 0 = { type = "fifo", priority = 3 }, 1 = { type = "rr", priority = 2 } }
    iothread_scheduler = { 1 = { type = "fifo", priority = 4 } }
    emulator_scheduler = { type = "batch" }
  }`,
	})
	tf.Config(t, acctest.OneHost(l)+config.String())
	tf.Run(t, "apply")
	noChanges(t, tf)
	threads := schedulers(t, l, host, process.read(t))
	for thread, want := range map[string]string{
		"CPU 0/TCG": "SCHED_FIFO 3", "CPU 1/TCG": "SCHED_RR 2", "IO iothread1": "SCHED_FIFO 4",
		"main": "SCHED_BATCH 0",
	} {
		if got := threads[thread]; got != want {
			t.Errorf("the thread %s has %q, want %q", thread, got, want)
		}
	}
	if t.Failed() {
		t.Log(threads)
	}
	destroyAndCheck(t, l, tf, name)
}
