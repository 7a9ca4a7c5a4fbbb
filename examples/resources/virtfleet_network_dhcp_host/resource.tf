# The web server gets this address on any host.
resource "virtfleet_network_dhcp_host" "web" {
  network = "lan"
  mac     = "52:54:00:12:34:56"
  ip      = "192.168.10.50"
  name    = "web"
}

# An IPv6 address is reserved for the DUID that the guest's DHCP client sends.
resource "virtfleet_network_dhcp_host" "web6" {
  network = "routed"
  duid    = "00:03:00:01:52:54:00:12:34:56"
  ip      = "2001:db8:7::50"
}
