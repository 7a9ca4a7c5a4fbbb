package virtualmachine_test

import (
	"os"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccTPM_ofTheHost: a VM has the host's own TPM, that of a program on the host, or one that libvirt runs. Each
// replaces the other with all that belongs to it, what was changed by hand is repaired, and what doesn't fit is
// refused.
func TestAccTPM_ofTheHost(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	const host = "kvm1"
	config := idleVM(l, name).with(hcl{"host": quote(host), "run_strategy": quote("Halted")})
	step := func(tpm string, action plancheck.ResourceActionType, check resource.TestCheckFunc) resource.TestStep {
		config = config.with(hcl{"devices": "{ tpm = " + tpm + " }"})
		return resource.TestStep{
			Config: acctest.OneHost(l) + config.String(), ConfigPlanChecks: changes(action), Check: check,
		}
	}
	refused := func(tpm string, texts ...string) resource.TestStep {
		return resource.TestStep{
			Config:      acctest.OneHost(l) + config.with(hcl{"devices": "{ tpm = " + tpm + " }"}).String(),
			ExpectError: inOrder(texts...),
		}
	}
	const socket, other = `<source type='unix' mode='connect' path='/run/a.sock'/>`, `<device path='/dev/tpm7'/>`
	create := step(`{ backend = "external", path = "/run/a.sock" }`, plancheck.ResourceActionCreate,
		look(t, l, host, name, "<backend type='external'>", socket))
	byHand := step(`{ backend = "external", path = "/run/a.sock" }`, plancheck.ResourceActionUpdate,
		look(t, l, host, name, socket))
	byHand.PreConfig = func() {
		l.Define(t, host, strings.Replace(l.Virsh(t, host, "dumpxml", "--inactive", name), "/run/a.sock", "/run/b.sock", 1))
	}
	story(t, l, []string{name}, create, byHand,
		refused(`{ backend = "external" }`, "devices.tpm.path", `The backend "external" needs it`),
		refused(`{ path = "/dev/tpm0" }`, "devices.tpm.path", `Only the backends "passthrough" and "external"`),
		refused(`{ backend = "passthrough", version = "2.0" }`, "devices.tpm.version", `Only the backend "emulator" has it`),
		step(`{ backend = "passthrough", path = "/dev/tpm7" }`, plancheck.ResourceActionUpdate,
			resource.ComposeTestCheckFunc(look(t, l, host, name, "<backend type='passthrough'>", other),
				lacks(t, l, host, name, "/run/a.sock"))),
		step(`{ backend = "emulator" }`, plancheck.ResourceActionUpdate,
			resource.ComposeTestCheckFunc(look(t, l, host, name, "<backend type='emulator'"),
				lacks(t, l, host, name, "/dev/tpm7"))),
		step(`{ model = "none" }`, plancheck.ResourceActionUpdate, lacks(t, l, host, name, "<tpm")),
	)
}

// TestAccTPM_external: a running VM talks to the TPM of a program that serves a socket on its host. A move would leave
// that TPM behind, and without the program the VM can't start.
func TestAccTPM_external(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	const host = "kvm1"
	dir := "/var/lib/libvirt/qemu/" + name + "-tpm"
	socket, log := dir+"/socket", dir+"/log"
	l.Run(t, host, "mkdir", dir)
	t.Cleanup(func() { l.Run(t, host, "rm", "-r", dir) })
	// It ends when QEMU lets go of it.
	l.Run(t, host, "swtpm", "socket", "--tpm2", "--daemon", "--terminate", "--tpmstate", "dir="+dir, "--ctrl",
		"type=unixio,path="+socket, "--log", "level=20,file="+log)
	tf := acctest.NewCLI(t)
	config := tinyVM(name).with(hcl{
		"host": quote(host), "devices": `{ tpm = { backend = "external", path = ` + quote(socket) + ` } }`,
	})
	tf.Config(t, acctest.OneHost(l)+config.String())
	tf.Run(t, "apply")
	if err := look(t, l, host, name, "<backend type='external'>", "path='"+socket+"'")(nil); err != nil {
		t.Error(err)
	}
	lab.Await(t, "the VM's firmware to use the TPM", func() bool {
		said, err := os.ReadFile(l.Host(host).Path(log))
		return err == nil && strings.Contains(string(said), "SWTPM_IO_Read")
	})
	noChanges(t, tf)
	tf.Config(t, acctest.Config(l)+config.with(hcl{"host": quote("kvm2")}).String())
	expect(t, tf.Fail(t, "plan"), "it has a device of its host: TPM in a program of its host")
	halted := config.with(hcl{"run_strategy": quote("Halted")})
	tf.Config(t, acctest.OneHost(l)+halted.String())
	tf.Run(t, "apply")
	tf.Config(t, acctest.Config(l)+halted.with(hcl{"host": quote("kvm2")}).String())
	expect(t, tf.Fail(t, "plan"), "the state of its TPM is kept by a program of its host", "Leave the VM there")
	tf.Config(t, acctest.OneHost(l)+config.String())
	expect(t, tf.Fail(t, "apply"), socket)
	tf.Config(t, acctest.OneHost(l)+halted.String())
	noChanges(t, tf)
	destroyAndCheck(t, l, tf, name)
}
