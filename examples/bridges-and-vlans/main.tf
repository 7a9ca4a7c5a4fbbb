# VMs on the hosts' LAN and in a VLAN, and an isolated network on each host. Before you apply: the bridges exist on every host, for
# example br0 with the port eth0, and br20 with the port eth0.20, which is VLAN 20 of that card. The VMs have no disks: they show
# only networks.

terraform {
  required_providers {
    virtfleet = {
      source = "virtfleet/virtfleet"
    }
  }
}

provider "virtfleet" {
  hosts = {
    kvm1 = { uri = "qemu+ssh://root@kvm1.example.net/system" }
    kvm2 = { uri = "qemu+ssh://root@kvm2.example.net/system" }
  }
}

variable "bridges" {
  description = "The hosts' bridges, by what they lead to."
  type        = map(string)
  default     = { lan = "br0", vlan20 = "br20" }
}

# One network for each bridge: VMs name the network, not the bridge. A VM that has only such networks keeps its address and its
# connections when it moves.
# With Open vSwitch, one bridge serves all VLANs: see port_groups in the documentation of virtfleet_network.
resource "virtfleet_network" "bridged" {
  for_each = var.bridges

  name    = each.key
  forward = { mode = "bridge" }
  bridge  = each.value
}

# One on each host, for connections between VMs of that host only. So both VMs are pinned to the same host. A VM in such a network
# can't be moved while it runs, unless migration_options allow_network_change.
resource "virtfleet_network" "backend" {
  name    = "backend"
  forward = { mode = "isolated" }

  ips = [{
    address = "10.20.0.1/24"
    dhcp    = { ranges = [{ start = "10.20.0.100", end = "10.20.0.199" }] }
  }]
}

# The address that libvirt's DHCP server gives to this MAC address.
resource "virtfleet_network_dhcp_host" "database" {
  network = virtfleet_network.backend.name
  mac     = "52:54:00:20:00:10"
  ip      = "10.20.0.10"
  name    = "database"
}

resource "virtfleet_virtual_machine" "web" {
  name   = "web"
  host   = "kvm1"
  memory = { size = "1Gi" }

  interfaces = {
    lan     = { network = virtfleet_network.bridged["lan"].name }
    dmz     = { network = virtfleet_network.bridged["vlan20"].name }
    backend = { network = virtfleet_network.backend.name }
  }
}

resource "virtfleet_virtual_machine" "database" {
  name   = "database"
  host   = "kvm1"
  memory = { size = "2Gi" }

  interfaces = {
    backend = {
      network = virtfleet_network.backend.name
      mac     = virtfleet_network_dhcp_host.database.mac
    }
  }
}
