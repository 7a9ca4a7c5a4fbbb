# A network on each host, with addresses, names and NAT.
resource "virtfleet_network" "lan" {
  name    = "lan"
  forward = { mode = "nat" }
  domain  = { name = "lan.example.net", local_only = true }
  dns     = { hosts = [{ ip = "192.168.10.1", names = ["gateway"] }] }

  ips = [{
    address = "192.168.10.1/24"
    dhcp    = { ranges = [{ start = "192.168.10.100", end = "192.168.10.199" }] }
  }]
}

# A bridge that the hosts have: VMs keep their addresses and connections when they move.
resource "virtfleet_network" "office" {
  name    = "office"
  forward = { mode = "bridge" }
  bridge  = "br0"
  hosts   = ["kvm1", "kvm2"]
}

# VLANs of an Open vSwitch that interfaces choose by name. Every host has the switch ovs0.
resource "virtfleet_network" "vlans" {
  name         = "vlans"
  forward      = { mode = "bridge" }
  bridge       = "ovs0"
  virtual_port = { type = "openvswitch" }

  port_groups = {
    production = { default = true, vlan = { tags = [10] } }
    trunk      = { vlan = { tags = [10, 20] } }
  }
}
