package image_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccImage_poolsOfOneName: of two pools of one name only one is shared. The image is written to each of them, and
// to the shared one through a host that can be reached. A pool that leaves a host takes the host from the image.
func TestAccImage_poolsOfOneName(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	data := read(t, qcow2(t))
	url := serve(t, map[string][]byte{"/one": data})
	is := "base-" + sum256(data)[:12]
	block := acctest.Block{Lab: l, Hosts: []acctest.Host{{Of: l.Host("kvm1")}, {Of: l.Host("kvm2")}, {Of: l.Host("kvm3")}}}
	pools := func(other string) string {
		return block.String() + pool(name, `hosts = ["kvm1"]`) + fmt.Sprintf(`
resource "virtfleet_storage_pool" "other" {
  name   = %[1]q
  type   = "dir"
  target = { path = "/var/lib/libvirt/%[1]s" }
  shared = true
  hosts  = ["%[2]s"]
}
`, name, other)
	}
	source := image(fmt.Sprintf("url = %q", url+"/one"), "depends_on = [virtfleet_storage_pool.other]")
	c := acctest.NewCLI(t)
	for _, other := range []string{"kvm2", "kvm3"} {
		c.Config(t, pools(other)+source)
		c.Run(t, "apply")
		for _, host := range []string{"kvm1", other} {
			if all := volumes(t, l, host, name); len(all) != 1 || all[0] != is {
				t.Errorf("%s has %v, want %s", host, all, is)
			}
		}
		if out, empty := c.Empty(t); !empty {
			t.Errorf("after the apply: %s", out)
		}
	}
	// A pool is replaced and loses a host: the apply, which plans it as a new one, doesn't know that host.
	c.Config(t, pools(`kvm2", "kvm3`)+source)
	c.Run(t, "apply")
	c.Config(t, pools("kvm3")+source)
	c.Run(t, "apply", "-replace=virtfleet_storage_pool.other")
	if out, empty := c.Empty(t); !empty {
		t.Errorf("after the pool was replaced: %s", out)
	}
	c.Run(t, "destroy")
	l.Run(t, "kvm2", "rm", "-f", "/var/lib/libvirt/"+name+"/"+is) // The pool left the host with its content.
	if err := clean(t, l, name, "kvm1", "kvm2", "kvm3")(nil); err != nil {
		t.Error(err)
	}
}

// TestAccImage_poolByHand: without hosts, an image is also on a host whose pool of that name isn't declared, and stays
// there. An earlier copy that can be removed only after the plan is removed by the next one.
func TestAccImage_poolByHand(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	first, second := read(t, qcow2(t)), read(t, qcow2(t, "-c"))
	url := serve(t, map[string][]byte{"/one": first, "/two": second})
	one, two := "base-"+sum256(first)[:12], "base-"+sum256(second)[:12]
	l.Virsh(t, "kvm2", "pool-create-as", name, "dir", "--target", "/var/lib/libvirt/"+name, "--build")
	t.Cleanup(func() { _, _ = l.TryVirsh(t, "kvm2", "pool-destroy", name) })
	c := acctest.NewCLI(t)
	config := func(file, more string) {
		c.Config(t, acctest.Config(l)+pool(name, `hosts = ["kvm1"]`)+image(fmt.Sprintf("url = %q", url+file), more))
	}
	has := func(want ...string) {
		t.Helper()
		for _, host := range []string{"kvm1", "kvm2"} {
			if all := volumes(t, l, host, name); !slices.Equal(all, want) {
				t.Errorf("%s has %v, want %v", host, all, want)
			}
		}
		if out, empty := c.Empty(t); !empty {
			t.Errorf("after the apply: %s", out)
		}
	}
	config("/one", "")
	c.Run(t, "apply")
	has(one)

	l.Virsh(t, "kvm1", "vol-create-as", name, "overlay", "64M", "--format", "qcow2", "--backing-vol", one,
		"--backing-vol-format", "qcow2")
	config("/two", "")
	c.Run(t, "apply")
	config("/two", `timeouts = { update = "9m" }`)
	c.Run(t, "plan", "-out=planned")
	l.Virsh(t, "kvm1", "vol-delete", "--pool", name, "overlay")
	c.Run(t, "apply", "planned")
	if all := volumes(t, l, "kvm1", name); !slices.Contains(all, one) {
		t.Errorf("kvm1 has %v, and the plan said that %s stays", all, one)
	}
	c.Run(t, "apply")
	has(two)
	c.Run(t, "destroy")
	if all := volumes(t, l, "kvm2", name); len(all) != 0 {
		t.Errorf("kvm2 has %v", all)
	}
	l.Virsh(t, "kvm2", "pool-destroy", name)
	if err := clean(t, l, name, "kvm1", "kvm2")(nil); err != nil {
		t.Error(err)
	}
}
