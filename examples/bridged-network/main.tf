# VMs on the hosts' LAN, and an isolated network on each host. The bridge br0 must exist on every host.

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

# The LAN: a VM keeps its address and its connections when it moves.
resource "virtfleet_network" "lan" {
  name    = "lan"
  forward = { mode = "bridge" }
  bridge  = "br0"
}

# One on each host, for connections between VMs of that host only. So both VMs are pinned to one host.
resource "virtfleet_network" "backend" {
  name    = "backend"
  forward = { mode = "isolated" }

  ips = [{
    address = "10.20.0.1/24"
    dhcp    = { ranges = [{ start = "10.20.0.100", end = "10.20.0.199" }] }
  }]
}

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
    lan     = { network = virtfleet_network.lan.name }
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
