# Several VMs of one kind. Each has a root disk from an image, data disks, an address by DHCP or a static one, and a host of its
# own.
#
#   module "web" {
#     source          = "./modules/vm"
#     app             = "web"
#     pool            = "vms"
#     image           = virtfleet_image.debian.id
#     network         = "lan"
#     ssh_public_keys = [file("~/.ssh/id_ed25519.pub")]
#     vms = {
#       web-1 = { address = "192.0.2.11/24", gateway = "192.0.2.1", dns = ["192.0.2.1"] }
#       web-2 = { address = "192.0.2.12/24", gateway = "192.0.2.1", dns = ["192.0.2.1"], data = { logs = "50Gi" } }
#       web-3 = { memory = "8Gi", max_memory = "16Gi", secure_boot = true, tpm = true, networks = { backup = "backup" } }
#       web-4 = { address = "2001:db8::14/64", gateway = "2001:db8::1", dns = ["2001:db8::1"] }
#       web-5 = { shares = { site = "/srv/site" }, limits = { cpu_percent = 50, iops = 500, bandwidth = 12500 } }
#       db-1  = { termination_grace_period = "10m", deletion_protection = true, wait_for = { guest_agent = true } }
#     }
#   }

terraform {
  required_version = ">= 1.11"
  required_providers {
    virtfleet = {
      source = "virtfleet/virtfleet"
    }
  }
}

locals {
  # Fixed, so that the guest's network configuration can tell its interface by it.
  macs = {
    for name in keys(var.vms) : name => join(":", concat(["52", "54", "00"], regexall("..", substr(md5(name), 0, 6))))
  }

  user_data = join("\n", ["#cloud-config", yamlencode({
    users = [{
      name                = var.user
      sudo                = "ALL=(ALL) NOPASSWD:ALL"
      shell               = "/bin/bash"
      ssh_authorized_keys = var.ssh_public_keys
    }]
  })])

  io_tune = { for name, vm in var.vms : name => vm.limits.iops == null ? null : { total_iops_sec = vm.limits.iops } }
  bandwidth = {
    for name, vm in var.vms : name => vm.limits.bandwidth == null ? null : {
      inbound  = { average = vm.limits.bandwidth }
      outbound = { average = vm.limits.bandwidth }
    }
  }

  # Without one, cloud-init brings up the interface with DHCP.
  network_config = {
    for name, vm in var.vms : name => vm.address == null ? null : yamlencode({
      version = 2
      ethernets = {
        lan = {
          match       = { macaddress = local.macs[name] }
          addresses   = [vm.address]
          routes      = vm.gateway == null ? [] : [{ to = strcontains(vm.gateway, ":") ? "::/0" : "0.0.0.0/0", via = vm.gateway }]
          nameservers = { addresses = vm.dns }
        }
      }
    })
  }
}

resource "virtfleet_virtual_machine" "this" {
  for_each = var.vms

  name   = each.key
  host   = each.value.host
  labels = merge(each.value.labels, { app = var.app })
  cpu = {
    vcpus = each.value.vcpus
    mode  = each.value.cpu_mode
    pin   = each.value.pin
    quota = each.value.limits.cpu_percent == null ? null : each.value.limits.cpu_percent * 1000 # of 100000 microseconds
  }
  memory = {
    size       = each.value.memory
    max_size   = each.value.max_memory
    huge_pages = each.value.huge_pages
    shared     = each.value.shares == null ? null : true # virtiofsd reads the guest's memory.
  }

  profile = each.value.profile
  firmware = each.value.efi || each.value.secure_boot ? {
    type        = "efi"
    secure_boot = each.value.secure_boot
  } : null
  devices = {
    tpm      = each.value.tpm ? {} : null
    watchdog = each.value.watchdog ? { action = "reset" } : null
    graphics = each.value.vnc ? { type = "vnc" } : null
    panic    = each.value.panic ? {} : null
    serials  = each.value.console_log == null ? null : { console = { type = "pty", log_file = each.value.console_log } }

    filesystems  = each.value.shares == null ? null : { for tag, source in each.value.shares : tag => { target = tag, source = source } }
    host_devices = each.value.devices == null ? null : { for key, class in each.value.devices : key => { class = class } }
  }

  platform = each.value.panic ? { events = { on_crash = "restart" } } : null

  disks = merge(
    { root = { pool = var.pool, image = var.image, size = each.value.root, boot_order = 1, io_tune = local.io_tune[each.key] } },
    { for key, size in each.value.data : key => {
      pool = var.pool, size = size, io_tune = local.io_tune[each.key], on_destroy = var.keep_data ? "keep" : "delete"
    } },
  )

  cloud_init = {
    user_data      = local.user_data
    network_config = local.network_config[each.key]
  }

  interfaces = merge(
    { lan = { network = var.network, mac = local.macs[each.key], bandwidth = local.bandwidth[each.key] } },
    { for key, network in each.value.networks : key => { network = network } },
    { for key, bridge in each.value.bridges : key => { bridge = bridge } },
  )

  # With required = false, VMs share hosts if there are more VMs than hosts.
  placement = {
    anti_affinity  = { labels = { app = var.app }, required = var.hosts_apart }
    dedicated_cpus = each.value.dedicated
    host_labels    = each.value.host_labels
  }

  run_strategy      = each.value.run_strategy
  update_policy     = each.value.update_policy
  eviction_strategy = each.value.eviction_strategy

  termination_grace_period = each.value.termination_grace_period
  deletion_protection      = each.value.deletion_protection
  wait_for                 = each.value.wait_for
  timeouts                 = each.value.timeouts

  # A newer image is for new VMs. To create a VM again from it, apply with -replace, which deletes its root disk.
  lifecycle {
    ignore_changes = [disks["root"].image]
  }
}
