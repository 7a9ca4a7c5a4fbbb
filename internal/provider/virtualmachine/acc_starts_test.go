package virtualmachine_test

import (
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccVirtualMachine_startsOfOnePlan: a plan tells that two VMs which it starts on one host don't fit there
// together, whether they are new or were off. Each alone is planned without a warning.
func TestAccVirtualMachine_startsOfOnePlan(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	h := l.StartHost(t)
	prefix := lab.Name(t) + "-"
	tf := acctest.NewCLI(t)
	config := func(off, added string) {
		one := tinyVM(prefix + "off").with(hcl{
			"memory": `{ size = "128Mi" }`, "host": quote(h.Name), "run_strategy": quote(off),
		})
		tf.Config(t, acctest.Block{Lab: l, Hosts: []acctest.Host{{
			Of: h, Settings: "memory_limit = \"200Mi\"\novercommit_guest_overhead = true",
		}}}.String()+one.named("off")+strings.ReplaceAll(added, "NAME", prefix+"new"))
	}
	added := tinyVM("NAME").with(hcl{"memory": `{ size = "128Mi" }`}).named("new")
	config("Halted", "")
	tf.Run(t, "apply")
	const title = "Virtual machine can't be started now"
	for name, config := range map[string]func(){
		"the one that is off": func() { config("Always", "") }, "the new one": func() { config("Halted", added) },
	} {
		config()
		if out := tf.Run(t, "plan"); strings.Contains(out, title) {
			t.Errorf("the plan to start only %s warns: %s", name, out)
		}
	}
	config("Always", added)
	expect(t, tf.Run(t, "plan"), title, "Together with \""+prefix, "the VM needs 128Mi of memory")
	apart := tinyVM("NAME").with(hcl{
		"memory": `{ size = "16Mi" }`, "run_strategy": quote("Halted"), "labels": `{ app = "web" }`,
		"placement": `{ anti_affinity = { labels = { app = "web" }, required = true } }`,
	})
	config("Halted", apart.named("new"))
	if out := tf.Run(t, "plan"); strings.Contains(out, "No host can take the VM") {
		t.Errorf("the plan of one VM warns: %s", out)
	}
	config("Halted", apart.named("new")+strings.ReplaceAll(apart.named("other"), "NAME", "NAME-2"))
	expect(t, tf.Run(t, "plan"), "No host can take the VM", "must not share a host with it")
	disks := func(name, volume string) string {
		return tinyVM(prefix + name).with(hcl{
			"memory": `{ size = "16Mi" }`, "host": quote(h.Name),
			"disks": `{ own = { pool = "new", size = "1Mi" }, data = { volume = ` + volume + ` } }`,
		}).named(name)
	}
	storage := `resource "virtfleet_storage_pool" "new" {
  name   = "new"
  type   = "dir"
  target = { path = "/srv/new" }
}
resource "virtfleet_volume" "new" {
  for_each = toset(["one", "two"])
  pool     = virtfleet_storage_pool.new.name
  name     = each.key
  size     = "1Mi"
}
`
	config("Halted", storage+disks("first", `virtfleet_volume.new["one"].id`)+
		disks("second", `virtfleet_volume.new["two"].id`))
	if out := tf.Run(t, "plan"); strings.Contains(out, title) {
		t.Errorf("disks that don't exist yet are taken for one: %s", out)
	}
	config("Halted", "")
	noChanges(t, tf)
	tf.Run(t, "destroy")
	if out := l.Virsh(t, h.Name, "list", "--all", "--name"); strings.TrimSpace(out) != "" {
		t.Errorf("left on the host: %s", out)
	}
}
