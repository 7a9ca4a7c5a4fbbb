terraform import virtfleet_volume.orders vms/orders-data
# Or by its path, on any host:
terraform import virtfleet_volume.orders /srv/vms/orders-data
# If another host doesn't answer or has a volume of this name too, name the volume's host:
terraform import virtfleet_volume.orders kvm1/vms/orders-data
