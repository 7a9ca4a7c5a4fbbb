# VMs with this filter accept only SSH and HTTPS, can open any connection, and can't forge their addresses.
# "all" is IPv4; clean-traffic drops IPv6. Without clean-traffic, drop "all-ipv6", too.
resource "virtfleet_network_filter" "web" {
  name       = "web"
  references = ["clean-traffic"]

  rules = [
    { action = "accept", direction = "in", protocol = "tcp", match = { dstportstart = "22" } },
    { action = "accept", direction = "in", protocol = "tcp", match = { dstportstart = "443" } },
    # Replies to the guest's own connections, such as DNS and DHCP, are accepted with it.
    { action = "accept", direction = "out", protocol = "all" },
    { action = "drop", direction = "in", priority = 900, protocol = "all" },
  ]
}
