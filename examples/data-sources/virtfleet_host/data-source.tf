data "virtfleet_host" "kvm1" {
  name = "kvm1"

  # These require further queries, so they are read only if they are listed.
  include                  = ["numa_cells", "sysinfo", "node_devices", "virtual_machines"]
  node_device_capabilities = ["pci"]
}

output "versions" {
  value = "libvirt ${data.virtfleet_host.kvm1.libvirt_version}, QEMU ${data.virtfleet_host.kvm1.hypervisor_version}"
}

output "room_in_gib" {
  value = floor(data.virtfleet_host.kvm1.free_memory_bytes / pow(1024, 3))
}

output "free_1g_pages" {
  value = {
    for cell in data.virtfleet_host.kvm1.numa_cells : cell.id => one([for p in cell.pages : p.free if p.size_bytes == pow(1024, 3)])
  }
}

output "serial_number" {
  value = try(data.virtfleet_host.kvm1.sysinfo.serial, null)
}

# SR-IOV functions that are reserved for VMs, with their IOMMU groups.
output "functions_for_vms" {
  value = {
    for name, device in data.virtfleet_host.kvm1.node_devices : device.address => device.iommu_group
    if device.physical_function != null && device.driver == "vfio-pci"
  }
}

output "runs_here" {
  value = { for id, vm in data.virtfleet_host.kvm1.virtual_machines : vm.name => vm.status if vm.role == "active" }
}
