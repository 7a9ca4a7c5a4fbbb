package firststeps_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// required says where the provider is from.
const required = `terraform {
  required_providers {
    virtfleet = { source = "virtfleet/virtfleet" }
  }
}
`

// provided begins a configuration of which the pages of the resources show parts.
const provided = required + `provider "virtfleet" {
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
	// The image is the one that first-vm brought. These hosts have no switch ovs0 to start a VM on, and less room.
	u.write(t, "references/here_override.tf", `
resource "virtfleet_image" "debian" {
  source = `+u.image+`
}
resource "virtfleet_virtual_machine" "firewall" {
  run_strategy = "Halted"
}
resource "virtfleet_volume" "journal" {
  size = "1Gi"
}
`, 0o644)
	u.write(t, "references/terraform.tfvars", "ceph_key = \"c2VjcmV0\"\npassphrase = \"correct horse\"\n", 0o644)
	u.does(t, dir, initialise, "")
	u.prints(t, dir, "terraform import virtfleet_storage_pool.vms vms", "")
	u.prints(t, dir, "terraform import virtfleet_network.default default", "")
	// The reservations name these as a user's own.
	u.does(t, dir, apply+" -auto-approve -target=virtfleet_network.lan -target=virtfleet_network.routed", "")
	u.does(t, dir, apply+" -auto-approve", "")
	u.sees(t)
	if listed := u.does(t, dir, vmsOfHost, ""); strings.Contains(listed, "virtfleet_volume") {
		t.Errorf("of the VMs of kvm1 it lists\n%s", listed)
	}
	for _, command := range []string{
		"terraform import virtfleet_network.lan lan",
		"terraform import virtfleet_network_dhcp_host.web lan/52:54:00:12:34:56",
		"terraform import virtfleet_network_dhcp_host.web6 routed/00:03:00:01:52:54:00:12:34:56",
		"terraform import virtfleet_network_filter.web web",
		"terraform import virtfleet_secret.ceph ceph/client.libvirt",
		"terraform import virtfleet_volume.orders vms/orders-data",
		"terraform import virtfleet_volume.orders /srv/vms/orders-data",
		"terraform import virtfleet_volume.orders kvm1/vms/orders-data",
		"terraform import virtfleet_eviction_policy.prod prod",
		"terraform import virtfleet_migration_policy.prod prod",
	} {
		u.does(t, dir, "terraform state rm "+strings.Fields(command)[2], "")
		u.prints(t, dir, command, "")
	}
	u.importsOf(t, dir, "virtfleet_image.debian", ".id",
		"terraform import virtfleet_image.debian vms/debian-12-0123456789ab")
	u.importedByUUID(t, dir)
	u.prints(t, dir, "terraform destroy -target=...", yes, "...", "virtfleet_eviction_policy.prod")
	u.does(t, dir, "terraform state rm virtfleet_network.default virtfleet_storage_pool.vms virtfleet_image.debian", "")
	// The reservations don't refer to their networks, as if these were a user's own: they go first.
	u.does(t, dir, "terraform destroy -auto-approve -target=virtfleet_network_dhcp_host.web "+
		"-target=virtfleet_network_dhcp_host.web6", "")
	u.prints(t, dir, "terraform destroy -refresh=false", yes)
}

// importsOf forgets a resource and imports it as a page says, with the id that it has instead of the page's: what jq
// makes of its attributes.
func (u *user) importsOf(t *testing.T, dir, address, id, command string) {
	t.Helper()
	is := strings.TrimSpace(u.does(t, dir, "terraform show -json | jq -r '.values.root_module.resources[] | "+
		`select(.address == "`+address+`") | .values | `+id+"'", ""))
	u.does(t, dir, "terraform state rm "+address, "")
	u.prints(t, dir, command, "", strings.Fields(command)[3], is)
}

// importedByUUID imports a secret that has the UUID which the page prints.
func (u *user) importedByUUID(t *testing.T, dir string) {
	t.Helper()
	const command = "terraform import virtfleet_secret.ceph 6f1f3a5e-6a3e-4b3b-9c53-2d8d4e2f7a10"
	for _, h := range u.hosts {
		u.lab.Run(t, h.Name, "sh", "-ec", `
virsh secret-undefine "$(virsh --quiet secret-list | awk '/client.libvirt/ { print $1 }')"
cat >/run/secret.xml <<XML
<secret ephemeral='no' private='yes'>
  <uuid>6f1f3a5e-6a3e-4b3b-9c53-2d8d4e2f7a10</uuid>
  <usage type='ceph'><name>client.libvirt</name></usage>
</secret>
XML
virsh secret-define /run/secret.xml`)
	}
	u.does(t, dir, "terraform state rm virtfleet_secret.ceph", "")
	u.prints(t, dir, command, "")
}

// rolled drains one host after the other, as the guide says. The work on each is nothing.
func (u *user) rolled(t *testing.T) {
	t.Helper()
	dir := u.directory(t, "rolling", "rolling-maintenance")
	u.write(t, "rolling/hosts_override.tf", strings.TrimPrefix(provided, required), 0o644)
	u.write(t, "rolling/terraform.tfvars", "update = \"true\"\n", 0o644)
	u.does(t, dir, initialise, "")
	said := u.prints(t, dir, "for host in kvm1 kvm2; do \\\n  terraform apply -auto-approve -var "+
		"\"under_maintenance=[\\\"$host\\\"]\" && terraform apply -auto-approve || break; \\\ndone", "")
	for _, host := range []string{"kvm1", "kvm2"} {
		for _, step := range []string{
			`virtfleet_host_maintenance.turn["%s"]: Creation complete`, `terraform_data.update["%s"]: Creation complete`,
			`virtfleet_host_maintenance.turn["%s"]: Destruction complete`,
		} {
			_, rest, found := strings.Cut(said, fmt.Sprintf(step, host))
			if !found {
				t.Fatalf("it doesn't say %q any more:\n%s", fmt.Sprintf(step, host), said)
			}
			said = rest
		}
	}
}

// sees looks at what the examples made, through libvirt.
func (u *user) sees(t *testing.T) {
	t.Helper()
	for name, h := range u.hosts {
		for what, args := range map[string][]string{
			"52:54:00:12:34:56": {"net-dumpxml", "lan"}, "2001:db8:7::50": {"net-dumpxml", "routed"},
			"openvswitch": {"net-dumpxml", "vlans"}, "br0": {"net-dumpxml", "office"},
			"clean-traffic": {"nwfilter-dumpxml", "web"}, "client.libvirt": {"secret-list"},
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
	if left := u.lab.Secrets(t, u.hosts["kvm1"].Name); strings.Contains(left, "virtfleet:") {
		t.Errorf("kvm1 is still marked:\n%s", left)
	}
}

// crashed imports a VM by its UUID, and sees its kernel crash in the events.
func (u *user) crashed(t *testing.T) {
	t.Helper()
	host := u.hosts["kvm1"]
	u.lab.Virsh(t, host.Name, "vol-create-as", "vms", "lost", "64k", "--format", "qcow2")
	u.lab.Define(t, host.Name, "<domain type='qemu'><name>web</name><uuid>4dea22b3-1d52-d8f3-2516-782e98ab3fa0</uuid>"+
		"<memory unit='MiB'>32</memory><os><type>hvm</type></os><features><acpi/></features><devices>"+
		"<disk type='file' device='disk'><driver name='qemu' type='qcow2'/><source file='/srv/vms/lost'/>"+
		"<target dev='vda' bus='virtio'/></disk><panic model='isa'/></devices></domain>")
	u.lab.Virsh(t, host.Name, "start", "web")
	dir := u.directory(t, "old")
	u.write(t, "old/main.tf", provided+"resource \"virtfleet_virtual_machine\" \"web\" {\n  name = \"web\"\n}\n", 0o644)
	u.does(t, dir, initialise, "")
	u.prints(t, dir, "terraform import virtfleet_virtual_machine.web 4dea22b3-1d52-d8f3-2516-782e98ab3fa0", "")
	u.meanwhile(t, filepath.Join(u.home, "first"), "virtfleet events --config fleet.yaml --output json |\n"+
		`  jq -r 'select(.event == "IOError" or .detail == "Crashed") | "\(.time) \(.host) \(.name): \(.event) \(.reason)"'`,
		"", func(said func() string) {
			// The command doesn't say from when on it listens. This port is where a guest's kernel reports its crash.
			for !strings.Contains(said(), "kvm1 web: Lifecycle") && t.Context().Err() == nil {
				u.lab.Run(t, host.Name, "sh", "-ec", "virsh qemu-monitor-command web --hmp 'o /b 0x505 1'\n"+
					"until virsh start web; do sleep 0.2; done")
			}
		})
	u.byHand(t)
}
