package volume_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccVolume_poolIsSilent: if a storage pool doesn't answer, the plan says so of the pool, and not of its host. Once
// the pool answers again, there is nothing to change.
func TestAccVolume_poolIsSilent(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	h, tf, name := l.StartHost(t), acctest.NewCLI(t), lab.Name(t)
	config := acctest.Block{Lab: l, Hosts: []acctest.Host{{Of: h}}}.String()
	l.Virsh(t, h.Name, "pool-define-as", name, "dir", "--target", "/var/lib/libvirt/"+name)
	l.Virsh(t, h.Name, "pool-build", name)
	l.Virsh(t, h.Name, "pool-start", name)
	for _, volume := range []string{"one", "two"} {
		config += fmt.Sprintf("resource \"virtfleet_volume\" %[2]q {\nname = %[2]q\npool = %[1]q\nsize = \"8Mi\"\n}\n", name,
			volume)
	}
	tf.Config(t, config)
	tf.Run(t, "apply")

	answer := h.SilenceDirectory(t, "/var/lib/libvirt/"+name)
	out := tf.Fail(t, "plan")
	silent := fmt.Sprintf("torage pool %q on host %q doesn't answer, the host itself does", name, h.Name)
	for _, want := range []string{silent, "virsh pool-destroy"} {
		if !strings.Contains(out, want) {
			t.Errorf("the plan doesn't say %q in:\n%s", want, out)
		}
	}
	for _, wrong := range []string{"fenced", "sshd"} {
		if strings.Contains(out, wrong) {
			t.Errorf("the plan says %q in:\n%s", wrong, out)
		}
	}
	answer()

	if out, empty := tf.Empty(t); !empty {
		t.Errorf("once the pool answers, the plan isn't empty: %s", out)
	}
	tf.Run(t, "destroy")
	if left := l.Virsh(t, h.Name, "vol-list", name); strings.Contains(left, "one") || strings.Contains(left, "two") {
		t.Errorf("left after destroy: %s", left)
	}
}
