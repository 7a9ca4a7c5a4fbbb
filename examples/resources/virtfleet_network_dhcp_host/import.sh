terraform import virtfleet_network_dhcp_host.web lan/52:54:00:12:34:56
terraform import virtfleet_network_dhcp_host.web6 routed/00:03:00:01:52:54:00:12:34:56
