variable "vms" {
  description = <<-EOT
    The VMs by name, which is also the guest's hostname. With a new name, a VM is another one with another MAC address, and the old one
    is destroyed. A static address, IPv4 or IPv6, has its prefix length: 192.0.2.11/24.
  EOT
  type = map(object({
    vcpus   = optional(number, 2)
    memory  = optional(string, "2Gi")
    root    = optional(string, "20Gi")
    data    = optional(map(string), {})
    address = optional(string)
    gateway = optional(string)
    dns     = optional(list(string), [])

    host        = optional(string)      # a change moves the VM; default: the provider chooses
    host_labels = optional(map(string)) # only hosts with these labels
    labels      = optional(map(string), {})

    profile     = optional(string)          # of the guest's operating system, such as "linux"
    cpu_mode    = optional(string)          # such as "host-passthrough"
    max_memory  = optional(string)          # up to which memory can grow while the VM runs
    huge_pages  = optional(string)          # size of the host's pages, such as "2Mi"
    pin         = optional(map(string))     # CPUs of the host by virtual CPU
    dedicated   = optional(bool, false)     # whether no other VM may be pinned to them
    networks    = optional(map(string), {}) # further interfaces: libvirt networks by a key
    bridges     = optional(map(string), {}) # further interfaces: bridges of the host by a key
    efi         = optional(bool, false)     # UEFI instead of a BIOS
    secure_boot = optional(bool, false)     # UEFI that boots signed systems only
    tpm         = optional(bool, false)
    watchdog    = optional(bool, false) # reset a guest that hangs
    vnc         = optional(bool, false) # a graphical console, reached through the host
    devices     = optional(map(string)) # devices of the host: their classes by a key, such as { gpu = "l40s" }
    shares      = optional(map(string)) # directories of the host by the tag to mount: "mount -t virtiofs <tag> /mnt"
    panic       = optional(bool, false) # report a crash of the guest's kernel, and start the guest again
    console_log = optional(string)      # file on the host with what the guest writes to its serial console
    limits = optional(object({
      cpu_percent = optional(number) # share of a CPU of the host that each virtual CPU gets
      iops        = optional(number) # I/O operations per second of each disk
      bandwidth   = optional(number) # kB (1000 bytes) per second to the guest and from it, on the interface lan
    }), {})

    run_strategy      = optional(string) # such as "RerunOnFailure"
    update_policy     = optional(string) # "Restart": changes may restart the VM
    eviction_strategy = optional(string) # what a drain of the host does with the VM

    # How long the guest may take to shut down before it is forced off, such as "30s" if it has neither an agent nor ACPI.
    termination_grace_period = optional(string)
    deletion_protection      = optional(bool) # whether to refuse destroying the VM
    wait_for = optional(object({
      guest_agent = optional(bool)
      ip_address  = optional(string) # key of the interface, such as "lan"
      timeout     = optional(string)
    }))
    timeouts = optional(object({
      create = optional(string)
      read   = optional(string)
      update = optional(string)
      delete = optional(string)
    }))
  }))
}

variable "app" {
  description = "What the VMs are for: a label, by which they keep away from each other."
  type        = string
}

variable "pool" {
  description = "Name of the storage pool for their disks, on every host that may have one of them."
  type        = string
}

variable "image" {
  description = "The id of a virtfleet_image."
  type        = string
}

variable "network" {
  description = "Name of a libvirt network."
  type        = string
  default     = "default"
}

variable "user" {
  description = "User that may log in and become root."
  type        = string
  default     = "ops"
}

variable "ssh_public_keys" {
  description = "Public keys of whoever may log in."
  type        = list(string)
}

variable "hosts_apart" {
  description = "Whether two of the VMs may never share a host."
  type        = bool
  default     = true
}

variable "keep_data" {
  description = "Whether data disks stay when their VM goes."
  type        = bool
  default     = true
}
