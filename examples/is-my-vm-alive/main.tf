# All that is known about one VM, on one screen. Each fact names the layer that reported it:
#
#   terraform apply -auto-approve -var name=web && terraform output -raw screen
#
# libvirt keeps no events. To see those from now on as well, write them to a file:
#
#   virtfleet events --config fleet.yaml --vm web > web.events &
#   terraform apply -auto-approve -var name=web -var events=web.events && terraform output -raw screen
#
# Reading changes nothing on a host or in a guest.

terraform {
  required_providers {
    virtfleet = { source = "virtfleet/virtfleet" }
  }
}

provider "virtfleet" {
  hosts = {
    kvm1 = { uri = "qemu+ssh://root@kvm1.example.net/system" }
    kvm2 = { uri = "qemu+ssh://root@kvm2.example.net/system" }
  }
  on_unreachable = "keep"
}

variable "name" {
  description = "Name of the VM."
  type        = string
  default     = "web"
}

variable "events" {
  description = "File that \"virtfleet events\" writes."
  type        = string
  default     = null
}

data "virtfleet_conditions" "vm" {
  name = var.name
}

# If no host reports the VM, the rest is unknown.
data "virtfleet_host" "of_vm" {
  count   = data.virtfleet_conditions.vm.current_host == null ? 0 : 1
  name    = data.virtfleet_conditions.vm.current_host
  include = ["virtual_machines"]
}

data "virtfleet_guest_info" "vm" {
  count              = data.virtfleet_conditions.vm.current_host == null ? 0 : 1
  virtual_machine_id = data.virtfleet_conditions.vm.virtual_machine_id
}

data "virtfleet_domain_stats" "vm" {
  count              = data.virtfleet_conditions.vm.current_host == null ? 0 : 1
  virtual_machine_id = data.virtfleet_conditions.vm.virtual_machine_id
  interval           = "2s"
}

locals {
  vm    = data.virtfleet_conditions.vm
  host  = one(data.virtfleet_host.of_vm)
  guest = one(data.virtfleet_guest_info.vm)
  stats = try(one(data.virtfleet_domain_stats.vm).stats[local.vm.virtual_machine_id], null)

  # From the outside in.
  order = [
    "TwoCopies", "Connected", "Defined", "Started", "Ready", "Paused", "AgentConnected", "AgentVersionNotSupported",
    "DataVolumesReady", "InterfacesConnected", "LiveMigratable", "StorageLiveMigratable", "MigrationRequired",
    "EvictionRequested", "RestartRequired", "HotVCPUChange", "HotMemoryChange", "Provisioning", "StaleDefinition", "Irrecoverable",
  ]
  mib = 1024 * 1024

  head = [
    "${var.name}: ${local.vm.status} (${coalesce(local.vm.status_reason, "-")}), phase ${local.vm.phase}",
    local.host == null ? "on no host that answers" : join(", ", compact([
      "on ${local.host.hostname} (${local.vm.current_host})", "libvirt ${local.host.libvirt_version}",
      "QEMU ${local.host.hypervisor_version}", "${length(local.host.virtual_machines)} VMs",
      try("cordoned by ${local.host.cordon.owner}", ""),
    ])),
  ]

  conditions = [
    for type in local.order : format("%-25s %-8s %-27s %-21s %-12s %s", type,
      local.vm.conditions[type].status, coalesce(local.vm.conditions[type].reason, "-"),
      coalesce(local.vm.conditions[type].last_transition_time, "-"), coalesce(local.vm.conditions[type].layer, "-"),
    try(substr(local.vm.conditions[type].message, 0, 100), ""))
  ]

  interfaces = [
    for i in coalesce(local.vm.interfaces, []) : format("%-25s %-18s %-35s %s", coalesce(i.name, i.interface_name, "-"),
    coalesce(i.mac, "-"), join(" ", coalesce(i.ip_addresses, [])), i.info_source)
  ]

  inside = concat(
    [format("%-25s %s", "Guest", try(
      "${local.guest.os.pretty_name}, ${local.guest.hostname}, ${length(local.guest.users)} users",
      "unknown: ${local.guest.unavailable["os"]}", "unknown",
    ))],
    [
      for f in try(coalesce(local.guest.filesystems, []), []) : format("%-25s %s of %s MiB", coalesce(f.mount_point, "-"),
      try(floor(f.used_bytes / local.mib), "?"), try(floor(f.total_bytes / local.mib), "?"))
    ],
  )

  load = concat(
    [
      format("%-25s %s", "Processors", try(
        "${floor(local.stats.cpu.usage_percent)} % of one, ${local.stats.cpu.vcpus_online} online", "unknown",
      )),
      format("%-25s %s", "Memory", try("${floor(local.vm.memory.guest_current_bytes / local.mib)} MiB", "unknown")),
    ],
    [
      for key, d in try(coalesce(local.stats.disks, {}), {}) : format("%-25s %s%s", "Disk ${key}", try(
        "${floor(d.read_bytes_per_second)} bytes read and ${floor(d.write_bytes_per_second)} written per second", "unknown",
      ), try(", failed: ${local.vm.disk_errors[key]}", ""))
    ],
  )

  moving = concat(
    try(local.vm.migration_state.completed ? [format("%-25s %s", "Last migration", join(" ", compact([
      local.vm.migration_state.phase, local.vm.migration_state.end_time, "from", local.vm.migration_state.source_host,
      "to", local.vm.migration_state.target_host, local.vm.migration_state.failure_reason
      ])))] : ["From ${local.vm.migration_state.source_host} to ${coalesce(local.vm.migration_state.target_host, "?")}, ${
      floor(local.vm.migration_state.statistics.data_remaining_bytes / local.mib)
    } MiB to go"], []),
    [format("%-25s %s", "If its host is drained", try(
      join(" ", compact([local.vm.eviction.strategy, "by", local.vm.eviction.origin, local.vm.eviction.eviction_policy_name])), "unknown",
    ))],
    [
      for b in coalesce(local.vm.blockers, []) : format("%-25s %s: %s", b.status == "False" ? "Blocked" : "Perhaps blocked",
      b.reason, b.message)
    ],
  )

  events = var.events == null ? [] : compact(split("\n", file(var.events)))

  unknown = [for part, why in coalesce(local.vm.unavailable, {}) : format("%-25s %s", part, why)]
}

output "screen" {
  value = join("\n", concat(
    local.head,
    ["", "CONDITION                 STATUS   REASON                      SINCE                 LAYER        MESSAGE"],
    local.conditions,
    ["", "INTERFACE                 MAC                ADDRESSES                           KNOWN FROM"], local.interfaces,
    ["", "INSIDE"], local.inside,
    ["", "LOAD"], local.load,
    ["", "MOVING"], local.moving,
    ["", "LAST EVENTS"], slice(local.events, max(0, length(local.events) - 10), length(local.events)),
    ["", "QEMU'S LOG"], coalesce(local.vm.qemu_log, []),
    ["", "NOT KNOWN"], local.unknown, [""],
  ))
}
