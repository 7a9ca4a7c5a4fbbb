# A network on each host, with addresses, names and NAT: the VMs reach other networks from these two addresses of the host.
resource "virtfleet_network" "lan" {
  name    = "lan"
  forward = { mode = "nat", nat = { start = "192.0.2.10", end = "192.0.2.11", port_start = 20000, port_end = 60000 } }
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

# A VM on one of these VLANs.
resource "virtfleet_virtual_machine" "firewall" {
  name   = "firewall"
  memory = { size = "1Gi" }

  interfaces = {
    lan = { network = virtfleet_network.vlans.name, port_group = "trunk" }
  }
}

# Routed addresses, IPv4 and IPv6, with names, a route into the network, and a line for dnsmasq. If a change requires a restart of
# the network, the apply restarts it, which disconnects its VMs until they are shut down and started again.
resource "virtfleet_network" "routed" {
  name          = "routed"
  update_policy = "Restart"
  mtu           = 1400
  forward       = { mode = "route", devices = ["eth0"] }
  domain        = { name = "vms.example.net" }

  dns = {
    forwarders = [{ address = "192.0.2.53", domain = "corp.example.net" }]
    srv        = [{ service = "ldap", protocol = "tcp", target = "directory.vms.example.net", port = 389 }]
    txt        = [{ name = "owner", value = "operations" }]
  }

  ips = [
    { address = "198.51.100.1/24", dhcp = { ranges = [{ start = "198.51.100.100", end = "198.51.100.199" }] } },
    { address = "2001:db8:7::1/64", dhcp = { ranges = [{ start = "2001:db8:7::100", end = "2001:db8:7::1ff" }] } },
  ]

  routes          = [{ destination = "203.0.113.0/24", gateway = "198.51.100.2", metric = 100 }]
  dnsmasq_options = ["dhcp-option=option:ntp-server,198.51.100.1"]
}

# Routed addresses without libvirt's firewall rules: the rules are yours.
resource "virtfleet_network" "open" {
  name    = "open"
  forward = { mode = "open" }
  dns     = { enabled = false }
  ips     = [{ address = "192.168.20.1/24" }]
}

# Devices of the host without a bridge (macvtap). libvirt spreads the VMs over them. The VMs can't reach each other.
resource "virtfleet_network" "direct" {
  name    = "direct"
  forward = { mode = "private", devices = ["eth1", "eth2"] }
}

# macvtap with a switch that returns what VMs of one host send each other (VEPA, hairpin mode).
resource "virtfleet_network" "vepa" {
  name    = "vepa"
  forward = { mode = "vepa", devices = ["eth3"] }
}

# macvtap with one device for each VM. VMs on it can't be moved while they run.
resource "virtfleet_network" "exclusive" {
  name    = "exclusive"
  forward = { mode = "passthrough", devices = ["eth4", "eth5"] }
}
