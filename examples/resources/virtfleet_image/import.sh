terraform import virtfleet_image.debian vms/debian-12-0123456789ab
