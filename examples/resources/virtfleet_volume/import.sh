terraform import virtfleet_volume.orders vms/orders-data
# Or by its path, on whatever host that is:
terraform import virtfleet_volume.orders /srv/vms/orders-data
