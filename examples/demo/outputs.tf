# None of these changes when the VM moves: an output that did would be a change in the next plan.

output "id" {
  description = "The VM's UUID."
  value       = virtfleet_virtual_machine.demo.id
}

output "status" {
  description = "What the VM does."
  value       = virtfleet_virtual_machine.demo.status
}

output "addresses" {
  description = "The addresses of the VM's interface."
  value       = virtfleet_virtual_machine.demo.ip_addresses["lan"]
}

output "hostname" {
  description = "The guest's hostname."
  value       = data.virtfleet_guest_info.demo.hostname
}

output "operating_system" {
  description = "The guest's operating system."
  value       = "${data.virtfleet_guest_info.demo.os.pretty_name}, Linux ${data.virtfleet_guest_info.demo.os.kernel_release}"
}
