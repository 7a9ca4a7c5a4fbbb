terraform import virtfleet_storage_pool.vms vms
