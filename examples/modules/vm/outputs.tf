output "ids" {
  description = "The VMs' ids by name."
  value       = { for name, vm in virtfleet_virtual_machine.this : name => vm.id }
}

output "hosts" {
  description = "Where each VM is."
  value       = { for name, vm in virtfleet_virtual_machine.this : name => vm.current_host }
}

output "addresses" {
  description = "The address of each VM: the static one, else what its guest agent or libvirt's DHCP server reports. Null until then."
  value = {
    for name, vm in virtfleet_virtual_machine.this : name =>
    var.vms[name].address != null ? split("/", var.vms[name].address)[0] : try(vm.ip_addresses["lan"][0], null)
  }
}
