resource "virtfleet_virtual_machine" "web" {
  name         = "web"
  run_strategy = "Always"
  memory       = { size = "2Gi" }
  disks = {
    root = { file = "/var/lib/libvirt/images/web.qcow2", boot_order = 1 }
  }
  interfaces = {
    lan = { network = "default" }
  }
}

data "virtfleet_guest_info" "web" {
  virtual_machine_id = virtfleet_virtual_machine.web.id
  wait               = "2m"
}

output "os" {
  # "unknown", with the reason in unavailable, when the guest has no agent.
  value = try(data.virtfleet_guest_info.web.os.pretty_name, "unknown")
}

output "fullest_filesystem_percent" {
  value = try(max([
    for f in data.virtfleet_guest_info.web.filesystems : floor(100 * f.used_bytes / f.total_bytes) if f.total_bytes != null
  ]...), null)
}

# Check a service: the command runs in the guest at every plan, and libvirt marks the VM as tainted.
data "virtfleet_guest_info" "probed" {
  virtual_machine_id = virtfleet_virtual_machine.web.id
  probe              = { command = ["/usr/bin/systemctl", "is-active", "nginx"], timeout = "5s" }
}

check "nginx" {
  assert {
    condition     = try(data.virtfleet_guest_info.probed.probe_result.exit_status == 0, false)
    error_message = "nginx is not active: ${try(data.virtfleet_guest_info.probed.unavailable["probe"], data.virtfleet_guest_info.probed.probe_result.output, "unknown")}"
  }
}
