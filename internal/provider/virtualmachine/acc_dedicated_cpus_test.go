package virtualmachine_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccDedicatedCPUs_placement: CPUs of hosts that VMs are pinned to are counted. A VM prefers a host where they are
// free, and one that has them for itself is neither put where they aren't nor joined by another; the plans of creation,
// change and move, and the candidates of a move, say which VM has them.
func TestAccDedicatedCPUs_placement(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	one, two := l.StartHost(t), l.StartHost(t)
	prefix := lab.Name(t) + "-"
	tf := acctest.NewCLI(t)
	vms := map[string]hcl{}
	for _, key := range []string{"holder", "filler", "alone", "joins", "last"} {
		l.RemoveDomain(t, prefix+key)
	}
	config := func(more ...string) {
		all := acctest.Block{Lab: l, Hosts: []acctest.Host{{Of: one}, {Of: two}}}.String()
		for _, key := range []string{"holder", "filler", "alone", "joins"} {
			if vm := vms[key]; vm != nil {
				all += vm.named(key)
			}
		}
		tf.Config(t, all+strings.Join(more, "\n"))
	}
	pinned := func(key, pins string) hcl {
		return tinyVM(prefix + key).with(hcl{"cpu": `{ vcpus = 1, pin = { 0 = ` + quote(pins) + ` } }`})
	}
	dedicated := hcl{"placement": `{ dedicated_cpus = true }`}

	// The host with more memory left has a VM on the CPU, so the other one is preferred.
	vms["holder"] = pinned("holder", "1").with(hcl{"host": quote(one.Name)})
	vms["filler"] = tinyVM(prefix + "filler").with(hcl{"host": quote(two.Name), "memory": `{ size = "192Mi" }`})
	config()
	tf.Run(t, "apply")
	vms["alone"] = pinned("alone", "1")
	config()
	tf.Run(t, "apply")
	if err := look(t, l, two.Name, prefix+"alone", "<vcpupin vcpu='0' cpuset='1'/>")(nil); err != nil {
		t.Fatal(err)
	}
	// The VM that runs has the CPU for itself from now on, and isn't moved to where it is taken.
	vms["alone"] = vms["alone"].with(dedicated)
	candidates := fmt.Sprintf(`
data "virtfleet_migration_candidates" "alone" {
  virtual_machine_id = virtfleet_virtual_machine.alone.id
}
output "way" {
  value = one([for b in data.virtfleet_migration_candidates.alone.hosts[%q].blockers : "${b.reason} ${b.message}"])
}
`, one.Name)
	config(candidates)
	tf.Run(t, "apply")
	noChanges(t, tf)
	const ruledOut = " pinned to CPU 1, too, and placement.dedicated_cpus of one of the two VMs rules that out"
	expect(t, tf.Run(t, "output", "way"), `HostResourcesTaken host \"`+one.Name+`\" has VM \"`+prefix+`holder\"`+ruledOut)
	vms["alone"] = vms["alone"].with(hcl{"host": quote(one.Name)})
	config()
	expect(t, tf.Fail(t, "plan"), "Virtual machine can't be moved: HostResourcesTaken")
	vms["alone"] = vms["alone"].with(hcl{"host": ""})

	// No VM joins it. Where no VM claims the CPU, it is shared.
	vms["joins"] = pinned("joins", "0-1").with(hcl{"host": quote(two.Name)})
	config()
	expect(t, tf.Fail(t, "plan"), "because of cpu.pin", `it has VM "`+prefix+`alone"`+ruledOut)
	vms["joins"] = vms["joins"].with(hcl{"host": ""})
	config()
	tf.Run(t, "apply")
	if err := look(t, l, one.Name, prefix+"joins", "<vcpupin vcpu='0' cpuset='0-1'/>")(nil); err != nil {
		t.Error(err)
	}
	noChanges(t, tf)
	// A VM that shares its CPUs can't have them for itself, and no host is left for another one that wants to.
	joins := vms["joins"]
	vms["joins"] = joins.with(dedicated)
	config()
	expect(t, tf.Fail(t, "plan"), "Host can't take the change", `it has VM "`+prefix+`holder"`+ruledOut)
	vms["joins"] = joins
	last := pinned("last", "1").with(dedicated)
	config(last.named("last"))
	expect(t, tf.Fail(t, "plan"), "No host can take the VM", `host "`+one.Name+`": it has VM `,
		`host "`+two.Name+`": it has VM `)
	config(last.with(hcl{"cpu": `{ vcpus = 2, pin = { 0 = "0" } }`}).named("last"))
	expect(t, tf.Fail(t, "plan"), "placement.dedicated_cpus", "on which CPUs of the host virtual CPU 1 runs")
	config()
	destroyAndCheck(t, l, tf, prefix+"holder", prefix+"filler", prefix+"alone", prefix+"joins")
}
