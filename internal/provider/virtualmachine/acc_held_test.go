package virtualmachine_test

import (
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccInterface_declaredAgain: a VM without a guest doesn't release an interface. The definition for the next start
// has lost it then. Declared again, it is defined again.
func TestAccInterface_declaredAgain(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	tf := acctest.NewCLI(t)
	declare := func(interfaces string) {
		tf.Config(t, acctest.OneHost(l)+idleVM(l, name).with(hcl{
			"host": quote("kvm1"), "run_strategy": quote("Always"), "interfaces": interfaces,
		}).named("vm"))
	}
	both := `{ lan = { network = "default" }, second = { network = "default" } }`
	declare(both)
	tf.Run(t, "apply")
	declare(`{ lan = { network = "default" } }`)
	expect(t, tf.Fail(t, "apply"), "released")
	declare(both)
	tf.Run(t, "apply")
	for _, which := range [][]string{nil, {"--inactive"}} {
		n := strings.Count(l.Virsh(t, "kvm1", append([]string{"dumpxml", name}, which...)...), "<interface ")
		if n != 2 {
			t.Errorf("%v has %d interfaces", which, n)
		}
	}
	noChanges(t, tf)
	destroyAndCheck(t, l, tf, name)
}
