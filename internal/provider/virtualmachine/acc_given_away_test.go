package virtualmachine_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// givenAway are two VMs in one storage pool, and what the configuration declares besides.
type givenAway struct {
	l    *lab.Lab
	tf   *acctest.CLI
	pool string
}

// config declares the VMs with those disks; "" for no such VM. The second one is changed after the first one.
func (g *givenAway) config(t *testing.T, first, second string, more ...string) {
	t.Helper()
	vms := acctest.OneHost(g.l) + fmt.Sprintf(`
resource "virtfleet_storage_pool" "vms" {
  name   = %[1]q
  type   = "dir"
  target = { path = "/var/lib/libvirt/%[1]s" }
}
`, g.pool)
	for i, disks := range []string{first, second} {
		if disks == "" {
			continue
		}
		after := "virtfleet_storage_pool.vms"
		if i > 0 && first != "" {
			after = "virtfleet_virtual_machine.first"
		}
		vms += tinyVM(fmt.Sprintf("%s-%d", g.pool, i+1)).with(hcl{
			"host": quote("kvm1"), "run_strategy": quote("Halted"), "memory": `{ size = "16Mi" }`,
			"disks": "{ " + disks + " }", "depends_on": "[" + after + "]",
		}).named([]string{"first", "second"}[i])
	}
	g.tf.Config(t, vms+strings.Join(more, ""))
}

// path returns the path of a file in the storage pool whose name contains the text.
func (g *givenAway) path(t *testing.T, part string) string {
	t.Helper()
	g.l.Virsh(t, "kvm1", "pool-refresh", g.pool)
	for _, line := range strings.Split(g.l.Virsh(t, "kvm1", "vol-list", g.pool), "\n") {
		if fields := strings.Fields(line); len(fields) == 2 && strings.Contains(fields[0], part) {
			return fields[1]
		}
	}
	t.Fatalf("the storage pool has no volume %q", part)
	return ""
}

// refused plans what loses the file, and expects an error that says so. The file stays.
func (g *givenAway) refused(t *testing.T, at string, says ...string) {
	t.Helper()
	out := g.tf.Fail(t, "plan")
	for _, text := range says {
		if !strings.Contains(out, text) {
			t.Errorf("the plan doesn't say %q: %s", text, out)
		}
	}
	g.path(t, at[strings.LastIndex(at, "/")+1:])
}

// TestAccVirtualMachine_givenAway: a change that deletes a disk or a volume, and gives its file to another VM, is
// refused before anything is deleted: in the plan, whichever is planned first, and in the apply if only that knows the
// path. Once the disk is kept, one apply is enough.
func TestAccVirtualMachine_givenAway(t *testing.T) {
	t.Parallel()
	g := &givenAway{l: lab.Open(t), tf: acctest.NewCLI(t), pool: lab.Name(t)}
	one, two := g.pool+"-1", g.pool+"-2"
	for _, name := range []string{one, two} {
		g.l.RemoveDomain(t, name)
	}
	own := func(key, more string) string {
		return fmt.Sprintf("%s = { pool = %q, size = \"1Mi\"%s }\n", key, g.pool, more)
	}
	file := func(at string) string { return fmt.Sprintf("got = { file = %q }", at) }
	volume := fmt.Sprintf("resource \"virtfleet_volume\" \"v\" {\n  pool = virtfleet_storage_pool.vms.name\n"+
		"  name = \"plain\"\n  size = \"1Mi\"\n  host = %q\n}\n", "kvm1")
	g.config(t, own("root", "")+own("data", ""), own("root", ""), volume)
	g.tf.Run(t, "apply")
	data, plain := g.path(t, "-data-"), g.path(t, "plain")

	const title = "Disk belongs to another virtual machine"
	says := []string{title, `disk "data" of VM "` + one, `VM "` + two, data, "kvm1", `on_destroy = "keep"`}
	g.config(t, own("root", ""), own("root", "")+file(data), volume)
	g.refused(t, data, says...)
	g.config(t, own("root", ""), own("root", "")+fmt.Sprintf("got = { volume = %q }",
		g.pool+data[strings.LastIndex(data, "/"):]), volume)
	g.refused(t, data, says...)
	g.config(t, "", own("root", "")+file(data), volume) // The first VM is destroyed.
	g.refused(t, data, says[1:]...)
	g.config(t, own("root", "")+own("data", ""), own("root", "")+file(plain))
	g.refused(t, plain, `volume "`+g.pool+`/plain"`, `VM "`+two, plain, "removed block")

	// Only the apply knows the path. The second VM isn't defined without its file.
	g.config(t, own("root", ""), own("root", "")+"got = { file = terraform_data.at.output }", volume,
		fmt.Sprintf("resource \"terraform_data\" \"at\" {\n  input = %q\n"+
			"  depends_on = [virtfleet_virtual_machine.first]\n}\n", data))
	if out := g.tf.Fail(t, "apply"); !strings.Contains(out, "this run has deleted it") {
		t.Errorf("the apply says: %s", out)
	}
	if has := g.l.Virsh(t, "kvm1", "dumpxml", two); strings.Contains(has, data) {
		t.Errorf("the VM has a disk whose file is deleted:\n%s", has)
	}

	// Kept first, it is handed over, also with the VM that is destroyed.
	g.config(t, own("root", "")+own("data", `, on_destroy = "keep"`), own("root", ""), volume)
	g.tf.Run(t, "apply")
	data = g.path(t, "-data-")
	g.config(t, own("root", ""), own("root", "")+file(data), volume)
	g.tf.Run(t, "apply")
	g.path(t, "-data-")
	if has := g.l.Virsh(t, "kvm1", "dumpxml", two); !strings.Contains(has, data) {
		t.Errorf("the VM doesn't have the disk:\n%s", has)
	}
	noChanges(t, g.tf)
	g.l.Virsh(t, "kvm1", "detach-disk", two, data, "--config")
	g.l.Virsh(t, "kvm1", "vol-delete", data)
	destroyAndCheck(t, g.l, g.tf, one, two)
}
