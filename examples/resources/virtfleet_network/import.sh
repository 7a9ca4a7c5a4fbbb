terraform import virtfleet_network.lan lan
