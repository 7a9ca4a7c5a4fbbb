package provider_test

import (
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccProvider_refusedByDaemon: where libvirt's daemon answers and opens no connection, the host is up. Who declared
// it fenced would start its VMs a second time.
func TestAccProvider_refusedByDaemon(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	h := l.StartHost(t)
	// The daemon looks up the name of the user's group, and there is none.
	l.AddUser(t, h, "stranger", "libvirt")
	l.Run(t, h.Name, "sh", "-ec", "groups=$(grep -v ^stranger: /etc/group); echo \"$groups\" >/etc/group")
	tf := acctest.NewCLI(t)
	hosts := []acctest.Host{{Of: h, URI: "qemu+ssh://stranger@" + h.Address + "/system"}}
	tf.Config(t, acctest.Block{Lab: l, Hosts: hosts}.String()+
		"resource \"virtfleet_network\" \"this\" { name = \"none\" }\n")
	out := strings.Join(strings.Fields(tf.Fail(t, "apply")), " ")
	if !strings.Contains(out, "libvirt's daemon opens no connection") || !strings.Contains(out, "The host is up") ||
		strings.Contains(out, "set fenced") {
		t.Error(out)
	}
}
