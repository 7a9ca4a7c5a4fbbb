package firststeps_test

import (
	"strings"
	"testing"
)

// provided begins a configuration of which the pages of the resources show parts.
const provided = `terraform {
  required_providers {
    virtfleet = { source = "virtfleet/virtfleet" }
  }
}
provider "virtfleet" {
  hosts = {
    kvm1 = { uri = "qemu+ssh://root@kvm1.example.net/system" }
    kvm2 = { uri = "qemu+ssh://root@kvm2.example.net/system" }
  }
  migration_options = { allow_network_change = true }
}
`

// references applies the examples of the resources' pages, and imports what they made as the pages say.
func (u *user) references(t *testing.T) {
	t.Helper()
	dir := u.directory(t, "references", "resources/virtfleet_network", "resources/virtfleet_network_dhcp_host",
		"resources/virtfleet_network_filter", "resources/virtfleet_secret", "resources/virtfleet_volume",
		"resources/virtfleet_eviction_policy", "resources/virtfleet_migration_policy")
	u.write(t, "references/main.tf", provided+`
resource "virtfleet_network" "default" {
  name = "default"
}
resource "virtfleet_storage_pool" "vms" {
  name   = "vms"
  type   = "dir"
  target = { path = "/srv/vms" }
}
`, 0o644)
	// The image is the one that first-vm brought.
	u.write(t, "references/image_override.tf", "resource \"virtfleet_image\" \"debian\" {\n  source = "+u.image+"\n}\n",
		0o644)
	u.write(t, "references/terraform.tfvars", "ceph_key = \"c2VjcmV0\"\n", 0o644)
	u.does(t, dir, initialise, "")
	u.prints(t, dir, "terraform import virtfleet_storage_pool.vms vms", "")
	u.prints(t, dir, "terraform import virtfleet_network.default default", "")
	u.does(t, dir, apply+" -auto-approve -target=virtfleet_network.lan", "") // The reservation names it as a user's own.
	u.does(t, dir, apply+" -auto-approve", "")
	u.sees(t)
	for _, command := range []string{
		"terraform import virtfleet_network.lan lan",
		"terraform import virtfleet_network_dhcp_host.web lan/52:54:00:12:34:56",
		"terraform import virtfleet_network_filter.web web",
		"terraform import virtfleet_secret.ceph ceph/client.libvirt",
		"terraform import virtfleet_volume.orders vms/orders-data",
		"terraform import virtfleet_volume.orders /srv/vms/orders-data",
		"terraform import virtfleet_eviction_policy.prod prod",
		"terraform import virtfleet_migration_policy.prod prod",
	} {
		u.does(t, dir, "terraform state rm "+strings.Fields(command)[2], "")
		u.prints(t, dir, command, "")
	}
	u.does(t, dir, "terraform state rm virtfleet_network.default virtfleet_storage_pool.vms virtfleet_image.debian", "")
	u.does(t, dir, "terraform destroy -auto-approve", "")
}

// sees looks at what the examples made, through libvirt.
func (u *user) sees(t *testing.T) {
	t.Helper()
	for name, h := range u.hosts {
		for what, args := range map[string][]string{
			"52:54:00:12:34:56": {"net-dumpxml", "lan"}, "openvswitch": {"net-dumpxml", "vlans"},
			"br0": {"net-dumpxml", "office"}, "clean-traffic": {"nwfilter-dumpxml", "web"}, "client.libvirt": {"secret-list"},
		} {
			if said := u.lab.Virsh(t, h.Name, args...); !strings.Contains(said, what) {
				t.Errorf("%s: virsh %s doesn't say %q:\n%s", name, strings.Join(args, " "), what, said)
			}
		}
	}
	volumes := u.lab.Virsh(t, u.hosts["kvm1"].Name, "vol-list", "vms")
	if !strings.Contains(volumes, "orders-data") || !strings.Contains(volumes, "orders-root") {
		t.Errorf("the pool has\n%s", volumes)
	}
}

// drained applies the example of a maintenance, imports it, and gives the host back.
func (u *user) drained(t *testing.T) {
	t.Helper()
	dir := u.directory(t, "drain", "resources/virtfleet_host_maintenance")
	u.write(t, "drain/main.tf", provided, 0o644)
	u.does(t, dir, initialise, "")
	u.does(t, dir, apply+" -auto-approve", "")
	u.does(t, dir, "terraform state rm virtfleet_host_maintenance.kvm1", "")
	u.prints(t, dir, "terraform import virtfleet_host_maintenance.kvm1 kvm1", "")
	u.prints(t, dir, "terraform destroy -target=virtfleet_host_maintenance.kvm1", yes)
	if left := u.lab.Virsh(t, u.hosts["kvm1"].Name, "--quiet", "secret-list"); strings.Contains(left, "virtfleet:") {
		t.Errorf("kvm1 is still marked:\n%s", left)
	}
}

// gaveBack removes an old copy of the VM from a host that comes back, as the guide says.
func (u *user) gaveBack(t *testing.T) {
	t.Helper()
	host := u.hosts["kvm1"]
	u.lab.Define(t, host.Name, "<domain type='qemu'><name>web</name><memory unit='MiB'>32</memory>"+
		"<os><type>hvm</type></os></domain>")
	u.lab.Virsh(t, host.Name, "start", "web")
	u.lab.Virsh(t, host.Name, "vol-create-as", "vms", "web-root-6fa8ec5b", "64k")
	for _, command := range []string{
		"virsh list --all", "virsh destroy web", "virsh undefine --nvram web", "virsh vol-list vms",
		"virsh vol-delete --pool vms web-root-6fa8ec5b",
	} {
		u.onHost(t, "kvm1", command)
	}
}
