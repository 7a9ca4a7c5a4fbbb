# None of these changes when the machine moves: an output that did would be a change in the next plan.

output "id" {
  description = "The machine's UUID: what it is, wherever it is."
  value       = virtfleet_virtual_machine.demo.id
}

output "status" {
  description = "What the machine does."
  value       = virtfleet_virtual_machine.demo.status
}

output "addresses" {
  description = "The addresses of the machine's interface."
  value       = virtfleet_virtual_machine.demo.ip_addresses["lan"]
}

output "hostname" {
  description = "How the guest calls itself."
  value       = data.virtfleet_guest_info.demo.hostname
}

output "operating_system" {
  description = "What runs in the guest."
  value       = "${data.virtfleet_guest_info.demo.os.pretty_name}, Linux ${data.virtfleet_guest_info.demo.os.kernel_release}"
}
