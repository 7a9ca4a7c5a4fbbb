package virtualmachine_test

import (
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccVirtualMachine_absentFile: a file that isn't there is told by the plan, of a change too; a VM that stays
// off may wait for it. What another resource makes isn't missed.
func TestAccVirtualMachine_absentFile(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	tf := acctest.NewCLI(t)
	const host = "kvm1"
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	none := "/var/lib/libvirt/images/" + name + "-none.raw"
	vm := func(file string) hcl {
		return idleVM(l, name).with(hcl{"host": quote(host), "disks": `{ root = { file = ` + file + `, format = "raw" } }`})
	}
	refused := []string{
		"Error: No host can take the VM", "because of disks.root.file", `host "` + host + `": it has no file "` + none,
		"take the path from an attribute of that resource that is known after apply",
	}
	tf.Config(t, acctest.OneHost(l)+vm(quote(none)).String())
	expect(t, tf.Fail(t, "plan"), refused...)

	off := vm(quote(none)).with(hcl{"run_strategy": quote("Halted")})
	tf.Config(t, acctest.OneHost(l)+off.String())
	expect(t, tf.Run(t, "apply"), "Warning: File not found on the host", none, `host "`+host+`" has no such file`)
	if out, empty := tf.Empty(t); !empty || strings.Contains(out, none) {
		t.Errorf("what isn't changed isn't looked for:\n%s", out)
	}
	tf.Run(t, "destroy")

	// The image is made by the same apply, and its path isn't known before.
	image := l.Image(t, host, name+".raw", "raw", 1<<20)
	tf.Config(t, acctest.OneHost(l)+"resource \"terraform_data\" \"image\" {\n  input = "+quote(image)+"\n}\n"+
		vm("terraform_data.image.output").String())
	tf.Run(t, "apply")
	noChanges(t, tf)

	more := vm(quote(image)).with(hcl{"disks": `{
    root = { file = ` + quote(image) + `, format = "raw" }
    more = { file = ` + quote(none) + `, format = "raw" }
  }`})
	tf.Config(t, acctest.OneHost(l)+more.String())
	expect(t, tf.Fail(t, "plan"), "Error: Host can't take the change", "disks.more.file", "it has no file", none)
	l.Image(t, host, name+"-none.raw", "raw", 1<<20)
	tf.Run(t, "apply")
	noChanges(t, tf)

	// What a running VM has isn't looked for: it holds it open.
	l.Run(t, host, "rm", none)
	tf.Config(t, acctest.OneHost(l)+more.with(hcl{"labels": `{ app = "web" }`}).String())
	tf.Run(t, "apply")
	noChanges(t, tf)
	destroyAndCheck(t, l, tf, name)
}

// TestAccVirtualMachine_fileChoosesHost: a VM goes where its disk is, and one that is off would rather.
func TestAccVirtualMachine_fileChoosesHost(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	for name, host := range map[string]string{"Always": "kvm2", "Halted": "kvm1"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tf := acctest.NewCLI(t)
			vm := lab.Name(t)
			l.RemoveDomain(t, vm)
			image := l.Image(t, host, vm+".raw", "raw", 1<<20)
			tf.Config(t, acctest.Config(l)+idleVM(l, vm).with(hcl{
				"run_strategy": quote(name), "disks": `{ root = { file = ` + quote(image) + `, format = "raw" } }`,
			}).String())
			if out := tf.Run(t, "apply"); strings.Contains(out, "File not found") {
				t.Errorf("the file is there:\n%s", out)
			}
			if state, _ := tf.State(t, address); state["current_host"] != host {
				t.Errorf("it is on %s, and its disk on %s", state["current_host"], host)
			}
			destroyAndCheck(t, l, tf, vm)
		})
	}
}
