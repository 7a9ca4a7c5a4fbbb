package virtualmachine_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccExample_vmModule: the module that people copy makes VMs that are apart, each with its disks and its medium.
// They boot from the image and do what the medium says: one has a static address, the other one by DHCP, and the user
// can log in to both. Nothing is left of them but the data that the module was told to keep.
func TestAccExample_vmModule(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	module, err := filepath.Abs("../../../examples/modules/vm")
	if err != nil {
		t.Fatal(err)
	}
	image, err := l.GuestImage()
	if err != nil {
		t.Fatal(err)
	}
	key, err := os.ReadFile(l.PrivateKeyFile() + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	// A libvirt network on a bridge of the hosts, as in the module's example: its DHCP server is another computer.
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
resource "virtfleet_network" "lan" {
  name    = %[1]q
  forward = { mode = "bridge" }
  bridge  = %[3]q
}
`, name, image, lab.LANBridge)
	one, two, off := name+"-1", name+"-2", name+"-3"
	// The first VM's other interface comes before lan: the static address goes to the one whose MAC address it is for.
	// The VM with EFI stays off, because the lab's image boots from a BIOS. It has the limits, one of which the kernel of
	// the lab's hosts may not have.
	address := l.LANAddress(252)
	config := base + fmt.Sprintf(`
module "web" {
  source          = %[2]q
  app             = %[1]q
  pool            = virtfleet_storage_pool.vms.name
  image           = virtfleet_image.base.id
  network         = virtfleet_network.lan.name
  ssh_public_keys = [%[3]q]
  vms = {
    "%[1]s-1" = {
      vcpus = 1, memory = "128Mi", root = "96Mi", data = { logs = "16Mi" }, networks = { backup = "default" }
      address = "%[4]s/24", gateway = %[5]q, dns = [%[5]q], wait_for = { guest_agent = true, timeout = "6m" }
      termination_grace_period = "170s", deletion_protection = false, timeouts = { create = "12m" }
    }
    "%[1]s-2" = {
      vcpus = 1, memory = "128Mi", root = "96Mi", max_memory = "256Mi", profile = "linux"
      watchdog = true, pin = { 0 = "0" }, vnc = true, labels = { tier = "front" }, run_strategy = "RerunOnFailure"
      panic = true, console_log = "/var/log/libvirt/qemu/%[1]s-console.log"
    }
  }
}
module "off" {
  source          = %[2]q
  app             = "%[1]s-off"
  pool            = virtfleet_storage_pool.vms.name
  image           = virtfleet_image.base.id
  ssh_public_keys = []
  vms = {
    "%[1]s-3" = {
      address = "2001:db8::13/64", gateway = "2001:db8::1"
      memory = "64Mi", root = "64Mi", efi = true, tpm = true, bridges = { wire = %[6]q }, run_strategy = "Halted"
      shares = { site = "/srv" }, limits = { cpu_percent = 50, iops = 500, bandwidth = 12500 }
    }
  }
}
output "web" { value = module.web }
output "off" { value = module.off }
`, name, module, strings.TrimSpace(string(key)), address, l.LANAddress(1), lab.LANBridge)
	tf := acctest.NewCLI(t)
	for _, vm := range []string{one, two, off} {
		l.RemoveDomain(t, vm)
	}
	tf.Config(t, config)
	tf.Run(t, "get")
	tf.Run(t, "apply")
	type vms struct{ Hosts, Addresses map[string]string }
	var web, halted vms
	read := func(output string, into *vms) {
		t.Helper()
		if err := json.Unmarshal([]byte(tf.Run(t, "output", "-json", output)), into); err != nil {
			t.Fatal(err)
		}
	}
	read("web", &web)
	read("off", &halted)
	on1, on2 := web.Hosts[one], web.Hosts[two]
	if on1 == "" || on2 == "" || on1 == on2 || web.Addresses[one] != address {
		t.Fatalf("the module says %+v", web)
	}
	if got := volumes(t, l, on1, name); !slices.Contains(got, one+"-logs") || !slices.Contains(got, one+"-root") ||
		!slices.Contains(got, one+"-cloud-init") {
		t.Errorf("%s has %q", on1, got)
	}
	for _, definition := range []resource.TestCheckFunc{
		look(t, l, on2, two, "<maxMemory slots='16' unit='KiB'>262144<", "<graphics type='vnc'", `"tier"`,
			"<watchdog model='i6300esb' action='reset'>", "<vcpupin vcpu='0' cpuset='0'/>", "<panic model='isa'",
			"<on_crash>restart</on_crash>", "<log file='/var/log/libvirt/qemu/"+name+"-console.log'"),
		look(t, l, halted.Hosts[off], off, "name='secure-boot'/>", "<tpm model='tpm-crb'>", "ua-net-wire",
			"<source bridge='"+lab.LANBridge+"'/>", "<source dir='/srv'/>", "<target dir='site'/>", "<access mode='shared'/>",
			"<quota>50000</quota>", "<total_iops_sec>500<", "<inbound average='12500'/>", "<outbound average='12500'/>"),
	} {
		if err := definition(nil); err != nil {
			t.Error(err)
		}
	}
	files, _, err := seedIn(t, l, on2, two)
	if err != nil || files["network-config"] != "" {
		t.Errorf("the medium of the VM without a static address has %q: %v", files, err)
	}
	files, _, err = seedIn(t, l, halted.Hosts[off], off)
	err = errors.Join(err, contains(files["network-config"], `"2001:db8::13/64"`, `"::/0"`, `"2001:db8::1"`))
	if err != nil || halted.Addresses[off] != "2001:db8::13" {
		t.Errorf("the VM with a static address of IPv6, %q: %v", halted.Addresses[off], err)
	}

	expect(t, tf.Run(t, "state", "show", `module.web.virtfleet_virtual_machine.this["`+one+`"]`),
		"deletion_protection = false", "ready = true", `termination_grace_period = "170s"`, `create = "12m"`,
		"guest_agent = true", `timeout = "6m"`)

	logIn := func(vm, at string) {
		t.Helper()
		said, err := runOverSSH(t, l, "ops", at, "hostname; id -un; cat /sys/block/vda/size; ip -4 -o addr")
		if err := errors.Join(err, contains(said, vm+"\nops\n196608\n", " "+at+"/24 ")); err != nil {
			t.Errorf("%s: %v", vm, err)
		}
	}
	logIn(one, address)
	// Nothing waits for the second guest. The next apply changes nothing, and learns the address.
	lab.Await(t, "an address by DHCP", func() bool {
		said, err := l.TryVirsh(t, on2, "domifaddr", two, "--source", "agent")
		return err == nil && strings.Contains(said, " "+strings.TrimSuffix(l.LANAddress(1), "1"))
	})
	newer := filepath.Join(t.TempDir(), "newer")
	content, err := os.ReadFile(image)
	if err == nil {
		err = os.WriteFile(newer, append(content, make([]byte, 512)...), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	tf.Config(t, strings.Replace(config, image, newer, 1))
	for address, change := range tf.Plan(t) {
		if strings.HasPrefix(address, "module.") && change.Actions != "no-op" {
			t.Errorf("a newer image: the plan does %q to %s", change.Actions, address)
		}
	}
	tf.Config(t, config)
	const nothing = "0 added, 0 changed, 0 destroyed"
	if said := tf.Run(t, "apply"); !strings.Contains(said, nothing) {
		t.Errorf("the second apply says:\n%s", said)
	}
	// On a busy computer, the agent may need longer than a refresh waits for it.
	lab.Await(t, "the address in the state", func() bool {
		read("web", &web)
		if web.Addresses[two] == "" {
			tf.Run(t, "apply", "-refresh-only")
		}
		return web.Addresses[two] != ""
	})
	noChanges(t, tf)
	logIn(two, web.Addresses[two])

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
	destroyAndCheck(t, l, tf, one, two, off)
}
