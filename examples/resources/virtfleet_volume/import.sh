terraform import virtfleet_volume.orders vms/orders-data
# Or by its path, on any host:
terraform import virtfleet_volume.orders /srv/vms/orders-data
