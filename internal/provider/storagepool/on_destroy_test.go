package storagepool_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccStoragePool_onDestroyDelete: the empty directory of a pool goes with it. A directory with a file isn't
// removed: its pool is active again after the destroy has failed. The plan that would destroy a disk's partition table
// fails. A directory that hosts share goes with all their pools.
func TestAccStoragePool_onDestroyDelete(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	at := "/var/lib/libvirt/" + name
	device := l.LoopDevice(t, "kvm1", name, 16<<20)
	tf := acctest.NewCLI(t)
	config := func(disk string) string {
		text := acctest.OneHost(l)
		for _, key := range []string{"empty", "full"} {
			text += fmt.Sprintf(`
resource "virtfleet_storage_pool" %[1]q {
  name       = "%[2]s-%[1]s"
  type       = "dir"
  target     = { path = "%[3]s-%[1]s" }
  on_destroy = "delete"
}
`, key, name, at)
		}
		return text + fmt.Sprintf(`
resource "virtfleet_storage_pool" "disk" {
  name       = "%s-disk"
  type       = "disk"
  build      = true
  target     = { path = "/dev" }
  source     = { devices = [%q], format = "gpt" }
  on_destroy = %q
}
`, name, device, disk)
	}
	pools := func() string { return l.Virsh(t, "kvm1", "pool-list", "--all", "--name") }
	tf.Config(t, config("delete"))
	tf.Run(t, "apply")
	l.Run(t, "kvm1", "touch", at+"-full/file")

	refused := func(key, why string) {
		t.Helper()
		out := tf.Fail(t, "destroy")
		if want := fmt.Sprintf(`Unable to delete storage pool "%s-%s"`, name, key); !strings.Contains(out, want) ||
			!strings.Contains(out, why) {
			t.Errorf("the destroy doesn't say %s and %s: %s", want, why, out)
		}
		if info := l.Virsh(t, "kvm1", "pool-info", name+"-"+key); !strings.Contains(info, "running") {
			t.Errorf("after the destroy has failed: %s", info)
		}
	}
	refused("disk", `First set on_destroy to "keep"`)
	tf.Config(t, config("keep"))
	tf.Run(t, "apply")
	if out, empty := tf.Empty(t); !empty {
		t.Errorf("the plan isn't empty: %s", out)
	}

	refused("full", "not empty")
	l.Run(t, "kvm1", "test", "-f", at+"-full/file")
	l.Run(t, "kvm1", "test", "!", "-e", at+"-empty")
	if left := pools(); strings.Contains(left, name+"-empty") {
		t.Errorf("the pool of the empty directory is left: %s", left)
	}

	l.Run(t, "kvm1", "rm", at+"-full/file")
	tf.Run(t, "destroy")
	if left := pools(); strings.Contains(left, name) {
		t.Errorf("left: %s", left)
	}
	for _, key := range []string{"empty", "full"} {
		l.Run(t, "kvm1", "test", "!", "-e", at+"-"+key)
	}
	if table := l.Run(t, "kvm1", "blkid", "--probe", device); !strings.Contains(table, `PTTYPE="gpt"`) {
		t.Errorf("on %s there is %q", device, table)
	}

	shared := filepath.Join(t.TempDir(), "shared")
	tf.Config(t, acctest.Config(l)+fmt.Sprintf(`
resource "virtfleet_storage_pool" "shared" {
  name       = "%s-shared"
  type       = "dir"
  shared     = true
  target     = { path = %q }
  on_destroy = "delete"
}
`, name, shared))
	tf.Run(t, "apply")
	if out, empty := tf.Empty(t); !empty {
		t.Errorf("the plan isn't empty: %s", out)
	}
	tf.Run(t, "destroy")
	if _, err := os.Stat(shared); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the shared directory: %v", err)
	}
	for _, host := range []string{"kvm1", "kvm2"} {
		if left := l.Virsh(t, host, "pool-list", "--all", "--name"); strings.Contains(left, name) {
			t.Errorf("%s has %s", host, left)
		}
	}
}
