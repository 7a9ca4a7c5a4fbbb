# VMs with this filter are reached by SSH and HTTPS only, and can't forge their addresses.
resource "virtfleet_network_filter" "web" {
  name       = "web"
  references = ["clean-traffic"]

  rules = [
    { action = "accept", direction = "in", protocol = "tcp", match = { dstportstart = "22" } },
    { action = "accept", direction = "in", protocol = "tcp", match = { dstportstart = "443" } },
    { action = "drop", direction = "in", priority = 900, protocol = "all" },
  ]
}
