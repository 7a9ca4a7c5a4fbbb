package volume_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccVolume_cephSource: while QEMU copies a volume of Ceph, another run neither removes nor grows the volume. If a
// virtual machine is started meanwhile that may write to it, the copy fails, and nothing is left of it.
func TestAccVolume_cephSource(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	h := l.StartHost(t)
	ceph := l.Ceph(t, name)
	content := make([]byte, 32<<20)
	_, _ = rand.NewChaCha8([32]byte{}).Read(content)
	file := filepath.Join(t.TempDir(), "content")
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	source := ceph.Pool + "/source"
	ceph.RBD(t, "import", "--no-progress", file, source)
	hosts := acctest.Block{Lab: l, Hosts: []acctest.Host{{Of: h}}}.String()
	base := hosts + cephPool(ceph, name)
	ref := name + "-ceph/source"
	owned := func(size string) string {
		return hosts + fmt.Sprintf(`
resource "virtfleet_volume" "source" {
  name = "source"
  pool = "%[1]s-ceph"
  size = %[2]q
}
import {
  to = virtfleet_volume.source
  id = %[3]q
}
`, name, size, ref)
	}
	tf, other := acctest.NewCLI(t), acctest.NewCLI(t)
	tf.Config(t, base)
	tf.Run(t, "apply")
	other.Config(t, owned("32Mi"))
	other.Run(t, "apply")
	tf.Config(t, base+inCeph("root", fmt.Sprintf("copy_of = %q", ref)))
	// Clients write that many bytes a second.
	ceph.RBD(t, "config", "pool", "set", ceph.Pool, "rbd_qos_bps_limit", fmt.Sprint(1<<20))
	running := tf.Start(t, "apply")
	awaitCopy(t, l, h.Name, running, "")
	copies := fmt.Sprintf("a run copies it into volume %q through host %q", name+"-ceph/root", h.Name)
	if out := other.Fail(t, "destroy"); !strings.Contains(out, copies) || !strings.Contains(out, "Wait until that run") {
		t.Errorf("the removal of the volume that is copied says: %s", out)
	}
	other.Config(t, owned("40Mi"))
	if out := other.Fail(t, "apply"); !strings.Contains(out, copies) {
		t.Errorf("the growth of the volume that is copied says: %s", out)
	}
	createOn(t, l, h.Name, name, ceph, "source")
	if out, err := running.Wait(); err == nil || !strings.Contains(out, "was started while volume") {
		t.Errorf("the copy of the disk of a virtual machine that was started meanwhile: %v, %s", err, out)
	}
	if all := strings.Fields(ceph.RBD(t, "ls", ceph.Pool)); !slices.Equal(all, []string{"source"}) {
		t.Errorf("Ceph has %s", all)
	}
	l.Virsh(t, h.Name, "destroy", name)
	ceph.RBD(t, "config", "pool", "remove", ceph.Pool, "rbd_qos_bps_limit")
	tf.Run(t, "apply")
	inCephIs(t, ceph, "root", content, len(content))
	noCopier(t, l, h.Name)
	if out, empty := tf.Empty(t); !empty {
		t.Errorf("the plan isn't empty: %s", out)
	}
	other.Config(t, owned("32Mi"))
	other.Run(t, "destroy")
	tf.Run(t, "destroy")
	if left := ceph.RBD(t, "ls", ceph.Pool); left != "" {
		t.Errorf("Ceph still has %s", left)
	}
}
