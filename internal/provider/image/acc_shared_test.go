package image_test

import (
	"fmt"
	"slices"
	"strings"
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
	// While another test's VM has a disk that no pool lists, a plan can't tell that no disk is based on the copy.
	lab.Await(t, "a plan that removes the earlier copy", func() bool {
		_, empty := c.Empty(t)
		return !empty
	})
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

// TestAccImage_exists: a plan warns of a copy that another configuration has of an image of the same name, which a new
// image with the same content takes over. It doesn't warn of what its own configuration replaces or renames. If one of
// the two configurations destroys the copy, the next apply of the other one sends it again.
func TestAccImage_exists(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	data := read(t, qcow2(t))
	url := serve(t, map[string][]byte{"/one": data})
	is := "base-" + sum256(data)[:12]
	l.Virsh(t, "kvm1", "pool-create-as", name, "dir", "--target", "/var/lib/libvirt/"+name, "--build")
	t.Cleanup(func() { _, _ = l.TryVirsh(t, "kvm1", "pool-destroy", name) })
	config := func(key, more string) string {
		return acctest.OneHost(l) + fmt.Sprintf("resource \"virtfleet_image\" %q {\n  name = \"base\"\n  pool = %q\n"+
			"  source = { url = %q }\n  %s\n}\n", key, name, url+"/one", more)
	}
	inode := func() string {
		t.Helper()
		return l.Run(t, "kvm1", "stat", "-c", "%i %Y", "/var/lib/libvirt/"+name+"/"+is)
	}
	warns := func(when, out string, want bool) {
		t.Helper()
		if strings.Contains(out, "Object exists already") != want || want && !strings.Contains(out,
			fmt.Sprintf("Storage pool %q has a copy of an image of this name already: volume %q on kvm1.", name, is)) {
			t.Errorf("%s: want the warning: %t: %s", when, want, out)
		}
	}
	one, other := acctest.NewCLI(t), acctest.NewCLI(t)
	one.Config(t, config("base", ""))
	warns("a new one", one.Run(t, "apply"), false)
	before := inode()
	other.Config(t, config("base", ""))
	warns("of another configuration", other.Run(t, "plan"), true)
	other.Run(t, "apply")
	if now := inode(); now != before {
		t.Errorf("the copy was written again: %s, it was %s", now, before)
	}

	one.Config(t, config("renamed", ""))
	warns("renamed", one.Run(t, "plan"), false)
	one.Config(t, config("base", "lifecycle { create_before_destroy = true }"))
	warns("replaced", one.Run(t, "plan", "-replace=virtfleet_image.base"), false)
	one.Run(t, "destroy")
	if out, empty := other.Empty(t); empty {
		t.Errorf("the copy is gone, and the plan is empty: %s", out)
	}
	other.Run(t, "apply")
	if all := volumes(t, l, "kvm1", name); !slices.Equal(all, []string{is}) {
		t.Errorf("kvm1 has %v, want %s", all, is)
	}
	if out, empty := other.Empty(t); !empty {
		t.Errorf("sent again: %s", out)
	}
	other.Run(t, "destroy")
	if all := volumes(t, l, "kvm1", name); len(all) != 0 {
		t.Errorf("kvm1 has %v", all)
	}
	l.Virsh(t, "kvm1", "pool-destroy", name)
	if err := clean(t, l, name, "kvm1")(nil); err != nil {
		t.Error(err)
	}
}
