terraform import virtfleet_network_dhcp_host.web lan/52:54:00:12:34:56
