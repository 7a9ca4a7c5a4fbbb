package virtualmachine_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccExample_vmModule: the module that people copy makes VMs that are apart, each with its disks and its medium,
// and leaves nothing of them but the data that it was told to keep.
func TestAccExample_vmModule(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	module, err := filepath.Abs("../../../examples/modules/vm")
	if err != nil {
		t.Fatal(err)
	}
	base := acctest.Block{Lab: l, Settings: `default_domain_type = "qemu"`}.String() + fmt.Sprintf(`
resource "virtfleet_storage_pool" "vms" {
  name   = %[1]q
  type   = "dir"
  target = { path = "/var/lib/libvirt/%[1]s" }
}
resource "virtfleet_image" "base" {
  name   = "base"
  pool   = virtfleet_storage_pool.vms.name
  source = { file = %[2]q }
}
`, name, imageFile(t))
	config := base + fmt.Sprintf(`
module "web" {
  source          = %[2]q
  app             = %[1]q
  pool            = virtfleet_storage_pool.vms.name
  image           = virtfleet_image.base.id
  ssh_public_keys = ["ssh-ed25519 AAAA ops@example.net"]
  vms = {
    "%[1]s-1" = {
      vcpus = 1, memory = "64Mi", root = "64Mi", data = { logs = "16Mi" }
      address = "192.0.2.11/24", gateway = "192.0.2.1", dns = ["192.0.2.1"]
    }
    "%[1]s-2" = {
      vcpus = 1, memory = "64Mi", root = "64Mi", max_memory = "256Mi", networks = { more = "default" }
      profile = "linux", efi = true, tpm = true, watchdog = true, pin = { 0 = "0" }
      vnc     = true, bridges = { wire = "br-lab" }, labels = { tier = "front" }, run_strategy = "RerunOnFailure"
    }
  }
}
output "web" { value = module.web }
`, name, module)
	one, two := name+"-1", name+"-2"
	l.RemoveDomain(t, one)
	l.RemoveDomain(t, two)
	tf := acctest.NewCLI(t)
	tf.Config(t, config)
	tf.Run(t, "get")
	tf.Run(t, "apply")
	noChanges(t, tf)

	var web struct{ Hosts, Addresses map[string]string }
	if err := json.Unmarshal([]byte(tf.Run(t, "output", "-json", "web")), &web); err != nil {
		t.Fatal(err)
	}
	on1, on2 := web.Hosts[one], web.Hosts[two]
	if on1 == "" || on2 == "" || on1 == on2 || web.Addresses[one] != "192.0.2.11" {
		t.Fatalf("the module says %+v", web)
	}
	if got := volumes(t, l, on1, name); !slices.Equal(got, []string{
		"base", one + "-cloud-init", one + "-logs", one + "-root",
	}) {
		t.Errorf("%s has %q", on1, got)
	}
	files, _, err := seedIn(t, l, on1, one)
	if err != nil || !strings.Contains(files["user-data"], "AAAA ops@example.net") ||
		!strings.Contains(files["network-config"], "192.0.2.11/24") {
		t.Errorf("the medium has %q: %v", files, err)
	}
	files, _, err = seedIn(t, l, on2, two)
	if err != nil || len(files["user-data"]) == 0 || files["network-config"] != "" {
		t.Errorf("the other medium has %q: %v", files, err)
	}

	options := look(t, l, on2, two, "<maxMemory slots='16' unit='KiB'>262144<", "name='secure-boot'/>", "ua-net-more",
		"ua-net-wire", "<source bridge='br-lab'/>", "<graphics type='vnc'", `"tier"`,
		"<tpm model='tpm-crb'>", "<watchdog model='i6300esb' action='reset'>", "<vcpupin vcpu='0' cpuset='0'/>")
	if err := options(nil); err != nil {
		t.Error(err)
	}

	l.Virsh(t, on1, "destroy", one) // There is no guest to shut down.
	l.Virsh(t, on2, "destroy", two)
	tf.Config(t, base)
	tf.Run(t, "apply")
	var left []string
	for _, host := range []string{"kvm1", "kvm2"} {
		left = append(left, volumes(t, l, host, name)...)
		l.Run(t, host, "sh", "-c", "rm -f /var/lib/libvirt/"+name+"/*-logs-*")
	}
	slices.Sort(left)
	if !slices.Equal(left, []string{"base", "base", one + "-logs"}) {
		t.Errorf("left are %q", left)
	}
	tf.Run(t, "destroy")
	if err := acctest.CheckDestroyed(l, one, two)(nil); err != nil {
		t.Error(err)
	}
}
