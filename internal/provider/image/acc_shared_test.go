package image_test

import (
	"fmt"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccImage_poolsOfOneName: of two pools of one name only one is shared. The image is written to each of them, and
// to the shared one through a host that can be reached.
func TestAccImage_poolsOfOneName(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	data := read(t, qcow2(t))
	url := serve(t, map[string][]byte{"/one": data})
	is := "base-" + sum256(data)[:12]
	pools := func(block string) string {
		return block + pool(name, `hosts = ["kvm1"]`) + fmt.Sprintf(`
resource "virtfleet_storage_pool" "other" {
  name   = %[1]q
  type   = "dir"
  target = { path = "/var/lib/libvirt/%[1]s" }
  shared = true
  hosts  = ["kvm2"]
}
`, name)
	}
	c := acctest.NewCLI(t)
	c.Config(t, pools(acctest.Config(l))+image(fmt.Sprintf("url = %q", url+"/one"),
		"depends_on = [virtfleet_storage_pool.other]"))
	c.Run(t, "apply")
	for _, host := range []string{"kvm1", "kvm2"} {
		if all := volumes(t, l, host, name); len(all) != 1 || all[0] != is {
			t.Errorf("%s has %v, want %s", host, all, is)
		}
	}
	if out, empty := c.Empty(t); !empty {
		t.Errorf("after the apply: %s", out)
	}
	c.Run(t, "destroy")
	if err := clean(t, l, name, "kvm1", "kvm2")(nil); err != nil {
		t.Error(err)
	}
}
