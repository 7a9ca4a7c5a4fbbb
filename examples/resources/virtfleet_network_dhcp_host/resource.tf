# The web server gets this address on any host.
resource "virtfleet_network_dhcp_host" "web" {
  network = "lan"
  mac     = "52:54:00:12:34:56"
  ip      = "192.168.10.50"
  name    = "web"
}
